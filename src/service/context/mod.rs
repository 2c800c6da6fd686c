//! The contexts of running handlers: what a handler reads of its request, and its connection to the
//! server.

mod shard_state;

mod client_info;

pub mod request;

mod input;

mod blocking;
mod inline;
mod local;
#[cfg(feature = "tokio")]
mod tokio;

pub use self::blocking::{BlockingContext, BlockingHost};
pub use self::client_info::ClientInfo;
pub use self::inline::InlineContext;
pub use self::local::{HostFuture, RequestContext, RequestHost};
pub use self::request::{RequestInfo, RequestSource, RequestView};
pub use self::shard_state::StateType;
#[cfg(feature = "tokio")]
pub use self::tokio::{SendFuture, TokioContext, TokioHost};
