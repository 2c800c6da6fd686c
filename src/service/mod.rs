//! What a server offers: the catalog, its tools, prompts and resources, and their handlers.
//!
//! A [`Catalog`] is immutable and shared by every shard; an update builds a new version. Results
//! that are the same for all callers are encoded when it is built, so that `initialize`,
//! `server/discover` and the list methods copy bytes. A request that runs a handler returns a
//! [`Dispatch`]:
//!
//! ```text
//! Catalog ─┬─ call_tool(…)      ─▶ Tool      ─┐
//!          ├─ get_prompt(…)     ─▶ Prompt     ├─▶ Dispatch ─┬─ Ready     response is encoded
//!          ├─ read_resource(…)  ─▶ Resource   │             ├─ Failed    JSON-RPC error
//!                                              │             ├─ Internal  to log and answer
//!          └─ complete(…)       ─▶ Completer ─┘             ├─ Local     future for this shard
//!                                                           └─ Blocking  closure for the pool
//! ```
//!
//! `Local` and `Blocking` produce a [`HandlerOutput`] later, which `Catalog::write_output` encodes.
//!
//! This module is pure: no clock, no thread, no socket, no log. A running handler reaches the
//! server through its [`RequestContext`] or [`BlockingContext`].
//!
//! ```
//! use corelane::model::Implementation;
//! use corelane::{Catalog, Tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Greet {
//!     /// Name of the person to greet.
//!     name: String,
//! }
//!
//! let catalog = Catalog::builder(Implementation::new("greeter", "1.0.0"))
//!     .tool(Tool::new("greet").description("Greets someone by name.").inline_writer(
//!         |Greet { name }, out, _| {
//!             out.format(format_args!("Hello, {name}!"));
//!             Ok(())
//!         },
//!     ))
//!     .build()?;
//! assert!(catalog.tool("greet").is_some());
//! # Ok::<(), corelane::CatalogError>(())
//! ```

#![forbid(unsafe_code)]

// In dependency order: a module uses only those above it.
mod hash;

mod schema;

pub mod results;

pub mod context;

pub mod call;

mod handler;

mod completer;

mod entry;

pub mod tool;

pub mod prompt;

pub mod resource;

pub mod skill;

pub mod catalog;

pub mod demo;

use std::borrow::Cow;
use std::fmt;

#[cfg(feature = "tokio")]
pub use self::call::TokioWork;
pub use self::call::{
    BlockingWork, CallToolRequest, Dispatch, HandlerIdentity, LocalWork, NoArguments, ResultSize,
};
pub use self::catalog::{Catalog, CatalogBuilder, Features, ListChanges};
pub use self::catalog::{call_tool_at, tool_at, tool_position};
pub use self::completer::CompletionContext;
#[cfg(feature = "gateway")]
pub use self::completer::ForwardedCompletion;
pub use self::context::request::DetachedRequest;
pub use self::context::{
    BlockingContext, BlockingHost, ClientImplementation, ClientInfo, HostFuture, InlineContext,
    PastRoundTrips, RequestContext, RequestHost, RequestInfo, RequestSource, RequestView,
    SessionSlot, StateType, StoredClientInfo, TraceContext,
};
#[cfg(feature = "tokio")]
pub use self::context::{SendFuture, TokioContext, TokioHost};
pub use self::hash::BuildNameHasher;
pub use self::prompt::{Prompt, PromptArgument, PromptArguments, PromptBuilder};
pub use self::resource::{ReadContext, Resource, ResourceBuilder, ResourceTemplate};
pub use self::results::{
    CallToolResult, Cancelled, ClientRequestError, Completion, GetPromptResult, HandlerError,
    HandlerOutput, InternalError, IntoCallToolResult, OrInvalid, ReadResourceResult, Structured,
};
pub use self::skill::{Skill, SkillFile};
pub use self::tool::{TaskSupport, Tool, ToolAnnotations, ToolArguments, ToolBuilder};

/// A catalog update: a closure that receives a builder with all entries of the current version and
/// returns the builder of the next one. It runs later, on the thread of the catalog writer.
pub type CatalogUpdate = Box<dyn FnOnce(CatalogBuilder) -> CatalogBuilder + Send>;

/// Why a catalog could not be built or updated. `Debug` prints the same text as `Display`, because
/// that is what a `main` that returns the error shows.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub enum CatalogError {
    /// Two entries of one list have the same name, URI or URI template.
    Duplicate {
        /// Kind of the entries: `tool`, `prompt`, `resource` or `resource template`.
        kind: &'static str,
        /// The shared name, URI or URI template.
        name: Box<str>,
    },
    /// The page size is 0.
    ZeroPageSize,
    /// The server cannot update its catalog: it is shutting down, or it was started with a constant
    /// catalog.
    ReadOnly,
    /// An entry that clients could not use.
    InvalidEntry {
        /// Kind of the entry, as in [`CatalogError::Duplicate`].
        kind: &'static str,
        /// Its name, URI or URI template, as given.
        name: Box<str>,
        /// What is wrong, phrased to follow "`kind` `name`: ".
        problem: Cow<'static, str>,
    },
}

impl fmt::Display for CatalogError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { kind, name } => {
                write!(formatter, "two {kind}s are called `{name}`; names must be unique")
            }
            Self::ZeroPageSize => formatter.write_str("page_size is 0; it must be at least 1"),
            Self::ReadOnly => formatter.write_str("the catalog of this server cannot be updated"),
            Self::InvalidEntry { kind, name, problem } => {
                write!(formatter, "{kind} `{name}`: {problem}")
            }
        }
    }
}

impl fmt::Debug for CatalogError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::error::Error for CatalogError {}
