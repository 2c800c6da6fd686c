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
pub mod fnv;

mod catalog_error;

mod derived_schema;

pub mod results;

pub mod context;

pub mod call;

mod handler;

mod completer;

mod entry;

mod schema;

pub mod tool;

pub mod prompt;

pub mod resource;

pub mod catalog;

pub mod demo;

#[cfg(feature = "tokio")]
pub use self::call::TokioWork;
pub use self::call::{BlockingWork, CallToolRequest, Dispatch, LocalWork, NoArguments};
pub use self::catalog::{BuildNameHasher, call_tool_at, tool_at, tool_position};
pub use self::catalog::{Catalog, CatalogBuilder, Features, ListChanges};
pub use self::catalog_error::CatalogError;
pub use self::completer::CompletionContext;
pub use self::context::request::DetachedRequest;
pub use self::context::{
    BlockingContext, BlockingHost, ClientImplementation, ClientInfo, HostFuture, InlineContext,
    RequestContext, RequestHost, RequestInfo, RequestSource, RequestView, StateType,
    StoredClientInfo, TraceContext,
};
#[cfg(feature = "tokio")]
pub use self::context::{SendFuture, TokioContext, TokioHost};
pub use self::prompt::{Prompt, PromptArgument, PromptArguments, PromptBuilder};
pub use self::resource::{ReadContext, Resource, ResourceBuilder, ResourceTemplate};
pub use self::results::{
    CallToolResult, Cancelled, ClientRequestError, Completion, GetPromptResult, HandlerError,
    HandlerOutput, InternalError, IntoCallToolResult, OrInvalid, ReadResourceResult, Structured,
};
pub use self::tool::{TaskSupport, Tool, ToolAnnotations, ToolArguments, ToolBuilder};

/// A catalog update: a closure that receives a builder with all entries of the current version and
/// returns the builder of the next one. It runs later, on the thread of the catalog writer.
pub type CatalogUpdate = Box<dyn FnOnce(CatalogBuilder) -> CatalogBuilder + Send>;
