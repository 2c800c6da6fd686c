//! The client of MCP servers of every revision.
//!
//! [`Client`] is what a program holds. [`session`] is the protocol, sans-IO: handshake, calls,
//! notifications and cancellation of one session. [`IoThread`] moves the bytes.
//!
//! Streamable HTTP, TCP, Unix sockets and the standard streams of a program are supported. TLS,
//! WebSocket and OAuth are not yet.

#![forbid(unsafe_code)]

mod error;
pub(crate) mod oneshot;
mod target;

mod block_on;

#[cfg(feature = "internals")]
pub mod session;
#[cfg(not(feature = "internals"))]
pub(crate) mod session;

mod inputs;
mod results;

mod cache;
mod known_tools;

mod notifications;

mod io;

mod request;

mod subscription;

mod handle;

mod pool;

#[cfg(feature = "skills")]
mod skills;

pub use self::block_on::block_on;
pub use self::cache::CachePolicy;
pub use self::error::{ClientError, ClientErrorKind};
pub use self::handle::{Client, ClientBuilder};
pub use self::inputs::{CreateMessageRequestParams, ElicitRequestParams, InputResult};
pub use self::io::IoThread;
pub use self::notifications::LogMessage;
pub use self::pool::ClientPool;
pub use self::request::{ListItem, Page, Pages, Request, ResponseFuture, Task, TaskRequest};
pub use self::results::{
    CallToolResult, CompleteResult, Completion, ContentBlock, GetPromptResult, MetaObject,
    PromptArgument, PromptInfo, PromptMessage, ReadResourceResult, ResourceContents, ResourceInfo,
    ResourceTemplateInfo, TaskInfo, TaskSupport, ToolAnnotations, ToolExecution, ToolInfo,
};
pub use self::session::{EraPreference, Progress, ReceivedMessage, ServerInfo};
#[cfg(feature = "skills")]
pub use self::skills::{Skill, SkillInfo, SkillResource, SkillResources};
pub use self::subscription::{Change, ListWatch, Subscription, SubscriptionFilter, WatchedItem};
pub use self::target::{HttpEndpoint, IntoTarget, Program, Target};
pub use crate::protocol::model::TaskStatus;
