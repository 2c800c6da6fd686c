//! Corelane is a thread-per-core I/O engine that serves the Model Context Protocol (MCP).
//!
//! Each **shard** is one pinned thread with its own listeners, `io_uring` instance, buffers,
//! timers, connections and counters. Shards share no state; they exchange bounded messages. All
//! MCP revisions from 2024-11-05 to 2026-07-28 are served on the same port, even on the same
//! connection.
//!
//! # Example
//!
//! ```no_run
//! use corelane::model::Implementation;
//! use corelane::{Catalog, Server, Tool};
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Greet {
//!     /// The name to greet.
//!     name: String,
//! }
//!
//! let greet = Tool::new("greet")
//!     .description("Greets someone.")
//!     .inline(|Greet { name }, _| format!("Hello, {name}!"));
//! let catalog = Catalog::builder(Implementation::new("greeter", "1.0.0")).tool(greet).build()?;
//! Server::builder(catalog).serve()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A handler is **inline** (a function that runs to completion on the shard), **local** (a future
//! on the shard that received the call) or **blocking** (a closure on a thread pool). Local and
//! blocking handlers can report progress and observe cancellation. `examples/` contains a complete
//! server in thirty lines and one embedded in a program that runs on glommio.
//!
//! # Features
//!
//! - `cli` (default): the `corelane` binary with its dependencies. A library leaves it out with
//!   `default-features = false`.
//! - `files` (default, part of `cli`): resources and prompts from directories, [`files`].
//! - `glommio` (default): shards on glommio executors (Linux).
//! - `tokio`: handlers that run on a tokio runtime of the host program.
//! - `tower`: the server inside an HTTP server of the host program, such as axum.
//! - `internals`: makes the modules below public, with the simulator and the fuzz entry points, for
//!   benches, fuzz targets and corelane-load. **Unstable**: they change without notice.
//!
//! # Request path
//!
//! ```text
//!  engine ──▶ connection ──▶ transport ───▶ protocol ──▶ guard ──────▶ server ─────▶ service
//!  bytes      buffers        frames         JSON-RPC     admission     dispatch      handlers
//!
//!  Completion ConnectionEvent LineEvent     Message      OriginGuard   Dispatcher    CallTool-
//!                             RequestEvent                                          Request
//!                             FrameEvent
//! ```
//!
//! 1. [`engine::ring::Completion`]: the ring reports received bytes.
//! 2. [`connection::ConnectionEvent`]: [`connection::Connections`] selects the codec and applies
//!    backpressure.
//! 3. [`transport::ndjson::LineEvent`], [`transport::http::reader::RequestEvent`] or
//!    [`transport::websocket::reader::FrameEvent`]: the codec finds one JSON text.
//! 4. [`protocol::jsonrpc::Message`]: the text is parsed as a JSON-RPC request, response or
//!    notification.
//! 5. [`guard::origin::OriginGuard`]: HTTP requests are admitted by host and origin.
//! 6. `server::dispatch::Dispatcher`: the request is validated against its MCP revision and routed
//!    by method.
//! 7. [`service::CallToolRequest`]: the tool handler runs and returns a [`service::Dispatch`],
//!    either a finished result or the work that produces it later.
//!
//! The response takes the same path back. It is written into the connection's output buffer and
//! sent once per turn of the shard loop. Local and blocking handlers complete later, by
//! [`protocol::in_flight::CallId`]: what they cause is an effect, which the shard applies.
//!
//! # Modules
//!
//! The order is the dependency order; `tests/tidy` enforces it.
//!
//! | module | contents | may use |
//! | --- | --- | --- |
//! | [`base`] | time, slab, buffer pool, seeded random numbers | – |
//! | [`telemetry`] | counters and events of a shard | base |
//! | [`protocol`] | sans-IO MCP: JSON, JSON-RPC, model, eras, requests in flight | base |
//! | [`transport`] | sans-IO codecs: NDJSON, HTTP, SSE, WebSocket | base, protocol |
//! | [`guard`] | admission by origin, encryption of `requestState` | base, protocol |
//! | [`service`] | catalog, tools, prompts, resources, handlers, results | base, protocol |
//! | [`engine`] | the only system calls: ring, shard loop, timers, mesh, executors | base, telemetry |
//! | [`connection`] | sockets, codecs, buffers, backpressure, closing | above but guard and service |
//! | [`server`] | shards, dispatch, sessions, subscriptions, tasks | all above |
//! | [`files`] | directories as resources and prompts | telemetry, protocol, service, server |
//! | `tower` | the server as a service of the host's HTTP server | protocol, server |
//! | [`testing`] | a server and its client in the thread of a test | protocol, service, server |
//! | `config` | file, environment and flags to validated options | all |
//!
//! base, protocol, transport, guard and service use no clock, socket or thread. `unsafe` is
//! confined to `engine/ring`, `engine/buffer` and `engine/mesh`.

// Not `expect`: rustc does not know this lint of rustdoc.
#![cfg_attr(
    all(doc, not(feature = "internals")),
    allow(rustdoc::private_intra_doc_links, reason = "the modules are public with `internals`")
)]
#![cfg_attr(
    not(feature = "internals"),
    expect(
        unreachable_pub,
        reason = "`pub` is the interface of a module with the feature `internals`"
    )
)]

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

#[cfg(feature = "internals")]
pub mod base;
#[cfg(not(feature = "internals"))]
pub(crate) mod base;

#[cfg(feature = "internals")]
pub mod config;
#[cfg(not(feature = "internals"))]
pub(crate) mod config;

#[cfg(feature = "internals")]
pub mod connection;
#[cfg(not(feature = "internals"))]
pub(crate) mod connection;

#[cfg(feature = "internals")]
pub mod engine;
#[cfg(not(feature = "internals"))]
pub(crate) mod engine;

#[cfg(feature = "files")]
pub mod files;

#[cfg(feature = "internals")]
pub mod guard;
#[cfg(not(feature = "internals"))]
pub(crate) mod guard;

#[cfg(feature = "internals")]
pub mod protocol;
#[cfg(not(feature = "internals"))]
pub(crate) mod protocol;

#[cfg(feature = "internals")]
pub mod server;
#[cfg(not(feature = "internals"))]
pub(crate) mod server;

#[cfg(feature = "internals")]
pub mod service;
#[cfg(not(feature = "internals"))]
pub(crate) mod service;

#[cfg(feature = "internals")]
pub mod telemetry;
#[cfg(not(feature = "internals"))]
pub(crate) mod telemetry;

#[cfg(feature = "tower")]
pub mod tower;

pub mod testing;

#[cfg(feature = "internals")]
pub mod transport;
#[cfg(not(feature = "internals"))]
pub(crate) mod transport;

pub use http::Extensions;

pub use crate::server::{Busy, Handle, InProcessConnection, Options, Running, Server, StartError};
#[cfg(feature = "tokio")]
pub use crate::service::TokioContext;
pub use crate::service::{
    BlockingContext, CallToolRequest, CallToolResult, Cancelled, Catalog, CatalogBuilder,
    CatalogError, ClientImplementation, ClientInfo, ClientRequestError, Completion,
    CompletionContext, Features, GetPromptResult, HandlerError, InlineContext, InternalError,
    IntoCallToolResult, NoArguments, Prompt, PromptArgument, PromptArguments, PromptBuilder,
    ReadContext, ReadResourceResult, RequestContext, RequestInfo, RequestView, Resource,
    ResourceBuilder, ResourceTemplate, Structured, TaskSupport, Tool, ToolAnnotations,
    ToolArguments, ToolBuilder, TraceContext,
};
pub use crate::telemetry::{ConnectionInfo, Counters, Transport};

/// MCP types by the names of the specification.
pub mod model {
    pub use crate::protocol::eras::{ClientCapabilities, LoggingLevel};
    pub use crate::protocol::error::Error;
    pub use crate::protocol::json::{
        Array as JsonArray, Object as JsonObject, Value as JsonValue, ValueKind as JsonValueKind,
    };
    pub use crate::protocol::jsonrpc::Id as RequestId;
    pub use crate::protocol::model::{
        Annotations, CacheHint, CallToolResultWriter, Content, ContentBlock, CreateMessageRequest,
        CreateMessageResult, ElicitAction, ElicitRequest, ElicitResult, Field, Form,
        GetPromptResultWriter, Icon, IconTheme, Implementation, IncludeContext, MetaObject,
        ModelPreferences, ReadResourceResultWriter, ResourceBody, ResourceContents, ResourceLink,
        Role, Root, SamplingMessageContentBlock, SamplingTool, TextFormat, ToolChoice,
    };
    pub use crate::protocol::revision::Revision;
}

/// The parts of [`Counters`] and [`ConnectionInfo`].
pub mod counters {
    pub use crate::telemetry::connection_info::{ConnectionTraffic, PingCounts};
    pub use crate::telemetry::counters::{
        ClientRequestCounters, ConnectionCounters, CounterValue, InputErrorCounters,
        RequestCounters, SessionCounters, ShardCounters, SubscriptionCounters, TrafficCounters,
        WebSocketCounters,
    };
    pub use crate::telemetry::error_table::ErrorTable;
}

/// The parts of [`Options`].
pub mod options {
    pub use crate::engine::mesh::MeshOptions;
    pub use crate::engine::ring::RingOptions;
    pub use crate::server::options::{
        AdminOptions, DemoServices, EngineOptions, ExecutorKind, FileOptions, HttpOptions,
        LimitOptions, LogFormat, LogLevel, LogOptions, Profile, RingBackend, SecondStream,
        ServiceOptions,
        StdioOptions, TcpOptions, Utf8CloseCode, WebSocketOptions,
    };
}
