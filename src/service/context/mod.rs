//! The contexts of running handlers: what a handler reads of its request, and its connection to the
//! server.

pub(super) mod shard_state;

mod client_implementation;
mod client_info;
mod trace_context;

pub mod request;

mod input;

mod blocking;
mod inline_events;

mod inline;
mod local;
#[cfg(feature = "tokio")]
mod tokio;

pub use self::blocking::{BlockingContext, BlockingHost};
pub use self::client_implementation::{ClientImplementation, StoredClientInfo};
pub use self::client_info::ClientInfo;
pub use self::inline::InlineContext;
pub(super) use self::inline_events::{InlineEnd, InlineEvents};
pub use self::local::{HostFuture, RequestContext, RequestHost};
pub use self::request::{RequestInfo, RequestSource, RequestView};
pub use self::shard_state::StateType;
#[cfg(feature = "tokio")]
pub use self::tokio::{SendFuture, TokioContext, TokioHost};
pub use self::trace_context::TraceContext;
