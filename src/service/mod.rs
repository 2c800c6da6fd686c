//! What a server offers: the catalog, its tools, prompts and resources, and their handlers.
//!
//! A [`Catalog`] is built once, never changes and is shared by every shard; a change is the next
//! edition. Everything about it that is the same for all callers is framed when it is built, so
//! that answering `initialize`, `server/discover` or a list copies bytes and computes nothing.
//! Whatever a handler serves goes through one machine; what comes of it at once is a [`Reply`]:
//!
//! ```text
//! Catalog ─┬─ call(Call)             ─▶ Tool     ─┐
//!          ├─ make_prompt(…)         ─▶ Prompt    ├─▶ Reply ─┬─ Ready     the response is written
//!          ├─ read_resource(…)       ─▶ Resource  │          ├─ Failed    a JSON-RPC error instead
//!          └─ complete(…)            ─▶ completer ┘          ├─ Local     a future for this shard  ┐ their Yield is
//!                                                            └─ Blocking  a closure for the pool   ┘ settled later
//! ```
//!
//! The room is pure: no clock, no thread, no socket, no log. What a running handler needs of the
//! world it gets through [`Live`] and [`Worker`], behind which the server stands.
//!
//! ```
//! use corelane::protocol::message::ServerInfo;
//! use corelane::service::{Catalog, Tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Greet {
//!     /// Whom to greet.
//!     name: String,
//! }
//!
//! let catalog = Catalog::builder(ServerInfo::new("greeter", "1.0.0"))
//!     .tool(Tool::new("greet").describe("Greets someone by name.").inline(
//!         |Greet { name }, answer| {
//!             answer.format(format_args!("Hello, {name}!"));
//!             Ok(())
//!         },
//!     ))
//!     .build()?;
//! assert!(catalog.tool("greet").is_some());
//! # Ok::<(), corelane::service::CatalogError>(())
//! ```

#![forbid(unsafe_code)]

// In the order in which they may know each other.

pub mod fnv;

mod problem;

pub mod outcome;

mod client;

pub mod live;
pub mod worker;

pub mod call;

mod handler;

mod completing;

mod entry;

mod schema;

pub mod tool;

pub mod prompt;

pub mod resource;

pub mod catalog;

pub mod demo;

pub use self::call::{BlockingWork, Call, LocalFuture, LocalWork, NoArguments, Reply};
pub use self::catalog::{Catalog, CatalogBuilder, Changes, Features};
pub use self::client::Client;
pub use self::completing::Completing;
pub use self::live::{HostFuture, Live, LiveHost};
pub use self::outcome::{
    AskError, Cancelled, Completion, HandlerError, Outcome, PromptOutcome, ResourceContents, Yield,
};
pub use self::problem::CatalogError;
pub use self::prompt::{Arguments, Prompt, PromptArgument, PromptBuilder};
pub use self::resource::{Read, Resource, ResourceBuilder, ResourceTemplate};
pub use self::schema::ParameterHeader;
pub use self::tool::{Annotations, TaskSupport, Tool, ToolBuilder};
pub use self::worker::{Worker, WorkerHost};
pub use crate::protocol::message::{Icon, Theme as IconTheme};

/// A change of the catalog: what the next edition has, given a builder with all that there is. It
/// travels to the one writer of the catalog, so it may be applied on another thread and later than
/// it was asked for.
pub type Edit = Box<dyn FnOnce(CatalogBuilder) -> CatalogBuilder + Send>;
