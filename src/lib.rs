//! Serves the Model Context Protocol (MCP): tools, prompts and resources of a Rust program, over
//! HTTP, WebSocket, TCP and stdio, for clients of every revision from 2024-11-05 to 2026-07-28.
//!
//! Each **shard** is one pinned thread with its own listeners, `io_uring` instance, buffers,
//! timers, connections and counters. Shards share no state. A handler runs on the shard that
//! received its request, on a thread pool, or on a tokio runtime of the program.
//!
#![doc = include_str!("guide.md")]
// Not `expect`: rustc does not know this lint of rustdoc.
#![cfg_attr(
    doc,
    allow(
        rustdoc::private_intra_doc_links,
        reason = "comments of private modules name each other"
    )
)]

#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;

#[doc(inline)]
pub use corelane_client as client;

mod config;

mod connection;

#[cfg(feature = "declared")]
pub mod declared;

#[cfg(feature = "files")]
pub mod files;

#[cfg(feature = "gateway")]
mod gateway;

mod guard;

mod server;

mod service;

mod telemetry;

#[cfg(feature = "tower")]
pub mod tower;

pub mod testing;

pub use corelane_client::Client;
pub use http::Extensions;

pub use crate::server::{Busy, Handle, InProcessConnection, Options, Running, Server, StartError};
#[cfg(feature = "tokio")]
pub use crate::service::TokioContext;
pub use crate::service::{
    BlockingContext, CallToolRequest, CallToolResult, Cancelled, Catalog, CatalogBuilder,
    CatalogError, ClientImplementation, ClientInfo, ClientRequestError, Completion,
    CompletionContext, Features, GetPromptResult, HandlerError, InlineContext, InternalError,
    IntoCallToolResult, NoArguments, OrInvalid, Prompt, PromptArgument, PromptArguments,
    PromptBuilder, ReadContext, ReadResourceResult, RequestContext, RequestInfo, RequestView,
    Resource, ResourceBuilder, ResourceTemplate, Skill, SkillFile, Structured, TaskSupport, Tool,
    ToolAnnotations, ToolArguments, ToolBuilder, TraceContext,
};
pub use crate::telemetry::{ConnectionInfo, Counters, Transport};

/// Authenticated callers, and how a program verifies their tokens.
pub mod auth {
    #[doc(inline)]
    pub use corelane_base::principal::Principal;

    pub use crate::guard::auth::{TokenError, TokenVerifier};
}

/// MCP types by the names of the specification.
pub mod model {
    #[doc(inline)]
    pub use corelane_protocol::eras::{ClientCapabilities, LoggingLevel};
    #[doc(inline)]
    pub use corelane_protocol::error::Error;
    #[doc(inline)]
    pub use corelane_protocol::json::{
        Array as JsonArray, Object as JsonObject, Value as JsonValue, ValueKind as JsonValueKind,
    };
    #[doc(inline)]
    pub use corelane_protocol::jsonrpc::Id as RequestId;
    #[doc(inline)]
    pub use corelane_protocol::model::{
        Annotations, CacheHint, CallToolResultWriter, Content, ContentBlock, CreateMessageRequest,
        CreateMessageResult, ElicitAction, ElicitRequest, ElicitResult, Field, Form,
        GetPromptResultWriter, Icon, IconTheme, Implementation, IncludeContext, MetaObject,
        ModelPreferences, ReadResourceResultWriter, ResourceBody, ResourceContents, ResourceLink,
        Role, Root, SamplingMessageContentBlock, SamplingTool, TextFormat, ToolChoice,
    };
    #[doc(inline)]
    pub use corelane_protocol::revision::Revision;
}

/// The parts of [`Counters`] and [`ConnectionInfo`].
pub mod counters {
    pub use crate::telemetry::counters::{
        AuthCounters, ClientRequestCounters, ConnectionCounters, CounterValue, ErrorTable,
        ForwardedCounters, InputErrorCounters, OverloadCounters, RequestCounters, SessionCounters,
        ShardCounters, SubscriptionCounters, TrafficCounters, WebSocketCounters,
    };
    pub use crate::telemetry::open_work::{ConnectionTraffic, PingCounts};
}

/// The parts of [`Options`].
///
/// In the descriptions, which are also the help of `corelane serve`, `off`, `auto` and `default`
/// stand for `None` and for an empty list.
pub mod options {
    #[doc(inline)]
    pub use corelane_engine::mesh::MeshOptions;
    #[doc(inline)]
    pub use corelane_engine::ring::RingOptions;

    pub use crate::server::options::{
        AdminOptions, AuthOptions, BreakerOptions, CapabilitiesTimeoutPolicy, CardOptions,
        ClientCertificateMode, DemoServices, DpopMode, EngineOptions, ExecutorKind, ExposeMode,
        FileOptions, ForwardedField, GatewayOptions, HttpOptions, LimitOptions, ListenerTlsOptions,
        LogFormat, LogLevel, LogOptions, MemoryGuardOptions, NamePrefix, NameSeparator,
        OverloadOptions, ParityMode, ParityOptions, ParityTimeouts, Profile, ProxyOptions,
        ProxyProtocol, RateOptions, Ratio, RingBackend, SecondStream, SecretFields, ServiceOptions,
        StdioOptions, TcpOptions, TraceOptions, TraceSampler, Utf8CloseCode, WebSocketOptions,
    };
}

/// Not part of the interface: for the tests, benches and fuzz targets of this repository; changes
/// without notice.
#[doc(hidden)]
pub mod internal {
    pub use crate::connection::listener::{self, ListenerOptions};
    pub use crate::connection::tls::{HandshakeThreads, TlsCounters, TlsLimits, TlsRing, TlsSlot};
    pub use crate::connection::{
        CloseReason, Codec, ConnectionEvent, ConnectionOptions, Connections, MessageEvent,
        SocketPair,
    };
    #[cfg(feature = "files")]
    pub use crate::files::{FileFault, catalog_updates::Publisher, watcher::FileWatch};
    pub use crate::guard::auth::AuthError;
    pub use crate::guard::auth::access::AccessRules;
    pub use crate::guard::auth::bearer::{
        TOKEN_BYTES_MAX, read_authorization, read_bound_token, read_token,
    };
    pub use crate::guard::auth::certificates::{CertificateRules, ClientCertificate};
    pub use crate::guard::auth::challenge::Challenges;
    pub use crate::guard::auth::dpop::{DpopRules, Nonces, PROOF_BYTES_MAX};
    pub use crate::guard::auth::jwt::{
        ALGORITHMS, ClaimRules, Issuer, JwtError, JwtVerifier, KeySet,
    };
    pub use crate::guard::auth::proof::SentProof;
    pub use crate::guard::breaker::{
        BreakerRules, BreakerState, CallOutcome, CallerGroup, CircuitBreaker, Permit,
    };
    pub use crate::guard::origin::{CachedOriginGuard, OriginGuard, OriginOptions, RejectedHeader};
    pub use crate::guard::pressure::MemoryReading;
    pub use crate::guard::queue_delay::{DelayGuard, DelayRules};
    pub use crate::server::{STREAM_BYTES, Shard, ShardBuilder, ShardInput, UpdateJob};
    pub use crate::service::{
        BlockingHost, CatalogUpdate, DetachedRequest, Dispatch, HandlerOutput, HostFuture,
        ListChanges, RequestHost, demo,
    };
    pub use crate::telemetry::open_work::{HeldMemory, HeldPlace, MemoryReport, PlaceKind};
}

/// The Rust code of the README compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
