//! The client of MCP servers of every revision. The interface of the crate is unstable; programs
//! use it as `corelane::client`.
//!
//! [`Client`] is what a program holds; [`ParityClient`] for a server of the parity dialect.
//! `session` is the protocol, sans-IO: handshake, calls, notifications and cancellation of one
//! session. [`IoThread`] moves the bytes; so do the shards of a server for its handlers
//! ([`ClientPool::on_shards`]).
//!
//! Streamable HTTP, WebSocket and messages on lines over TCP, each with or without TLS, Unix
//! sockets and the standard streams of a program are supported.

#![forbid(unsafe_code)]

mod error;
mod sync;
#[doc(hidden)]
mod target;
mod tls_options;

mod proxy;

mod results;

mod retry;

#[doc(hidden)]
pub mod session;

mod inputs;

mod cache;
mod known_tools;
mod reconnect;

mod notifications;

mod oauth;

#[doc(hidden)]
pub mod parity_session;

mod io;

mod request;

mod subscription;

mod handle;

mod parity;

mod local;

mod pool;

#[cfg(feature = "skills")]
mod skills;

/// Not part of the interface: for the fuzz targets of this repository; changes without notice.
#[doc(hidden)]
pub mod internal {
    pub use crate::oauth::{
        Challenge, ResourceMetadata, ServerMetadata, parse_endpoint, resource_metadata_urls,
        server_metadata_urls,
    };
}

pub use self::cache::CachePolicy;
pub use self::error::{ClientError, ClientErrorKind};
pub use self::handle::{Client, ClientBuilder};
#[doc(hidden)]
pub use self::inputs::{CallInput, InputFuture};
pub use self::inputs::{CreateMessageRequestParams, ElicitRequestParams, InputResult};
#[doc(hidden)]
pub use self::io::IoDriver;
#[cfg(feature = "test-support")]
#[doc(hidden)]
pub use self::io::WebSocketEcho;
#[cfg(feature = "supervised")]
pub use self::io::supervise_programs;
pub use self::io::{IoTask, IoThread, ParityEvent, ProgramEvent};
pub use self::local::{LocalClient, LocalClientBuilder, LocalRequest, MessageChannel};
pub use self::notifications::LogMessage;
#[cfg(feature = "oauth-jwt")]
pub use self::oauth::SigningAlgorithm;
pub use self::oauth::{
    FileTokenStore, IdentityAssertion, MemoryTokenStore, OAuthOptions, StoredTokens, TokenLock,
    TokenStore,
};
pub use self::parity::{
    ParityCancel, ParityClient, ParityClientBuilder, ParityRequest, ParityResponse,
};
pub use self::parity_session::{
    ParityChunk, ParityKeepaliveOptions, ParityRetryOptions, ParityServerInfo,
};
pub use self::pool::ClientPool;
pub use self::proxy::ProxyOptions;
pub use self::reconnect::{ConnectionEvent, ReconnectMode, ReconnectOptions};
pub use self::request::{ListItem, Page, Pages, Request, ResponseFuture, Task, TaskRequest};
#[doc(hidden)]
pub use self::request::{ReceivedFuture, check_header};
pub use self::results::{
    CallToolResult, CompleteResult, Completion, ContentBlock, GetPromptResult, MetaObject,
    PromptArgument, PromptInfo, PromptMessage, ReadResourceResult, ResourceContents, ResourceInfo,
    ResourceTemplateInfo, TaskInfo, TaskSupport, ToolAnnotations, ToolExecution, ToolInfo,
};
pub use self::retry::{RetryEvent, RetryPolicy};
#[doc(hidden)]
pub use self::session::InputKind;
pub use self::session::{EraPreference, Progress, ReceivedMessage, ServerInfo};
#[cfg(feature = "skills")]
pub use self::skills::{Skill, SkillInfo, SkillResource, SkillResources};
pub use self::subscription::{Change, ListWatch, Subscription, SubscriptionFilter, WatchedItem};
#[doc(hidden)]
pub use self::sync::Oneshot;
pub use self::sync::block_on;
pub use self::target::{HttpEndpoint, IntoTarget, Program, ProgramStderr, Target};
#[doc(hidden)]
pub use self::tls_options::tls_client;
pub use self::tls_options::{Pem, TlsOptions};
#[doc(inline)]
pub use corelane_parity::capabilities::{
    Capabilities as ParityCapabilities, Feature as ParityFeature,
    ResumeWindow as ParityResumeWindow,
};
#[doc(inline)]
pub use corelane_parity::error::ErrorCode as ParityErrorCode;
#[doc(inline)]
#[cfg(feature = "supervised")]
pub use corelane_process::{SupervisorCommand, run_supervisor};
pub use corelane_protocol::model::TaskStatus;
