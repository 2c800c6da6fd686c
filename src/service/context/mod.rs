//! The contexts of running handlers: what a handler reads of its request, and its connection to the
//! server.

pub(super) mod shard_state;

mod client;

pub mod request;

mod blocking;

mod inline;
mod local;
#[cfg(feature = "tokio")]
mod tokio;

use corelane_protocol::error::Error;
use corelane_protocol::model::{
    CreateMessageResult, ElicitResult, InputRequest, InputResponse, Root,
};

pub use self::blocking::{BlockingContext, BlockingHost};
pub use self::client::{ClientImplementation, ClientInfo, StoredClientInfo};
pub use self::inline::InlineContext;
pub(super) use self::inline::{InlineEnd, InlineEvents};
pub use self::local::{HostFuture, RequestContext, RequestHost};
pub use self::request::{RequestInfo, RequestSource, RequestView, TraceContext};
pub use self::shard_state::StateType;
#[cfg(feature = "tokio")]
pub use self::tokio::{SendFuture, TokioContext, TokioHost};
use crate::service::results::ClientRequestError;

/// Fails if the client has not declared the capability that `request` needs.
fn check_capabilities(
    request: &InputRequest,
    client: ClientInfo,
) -> Result<(), ClientRequestError> {
    let missing = request.required_capabilities().difference(client.capabilities);
    if missing.is_empty() { Ok(()) } else { Err(ClientRequestError::MissingCapability(missing)) }
}

/// Fails if the response is of another kind than the request.
fn expect<T>(response: Option<T>) -> Result<T, ClientRequestError> {
    let mismatch = || Error::internal("the response is of another kind");
    response.ok_or_else(|| ClientRequestError::InvalidResponse(mismatch()))
}

fn elicited(response: InputResponse) -> Option<ElicitResult> {
    if let InputResponse::Elicit(elicited) = response { Some(elicited) } else { None }
}

fn sampled(response: InputResponse) -> Option<CreateMessageResult> {
    if let InputResponse::CreateMessage(sampled) = response { Some(sampled) } else { None }
}

fn roots(response: InputResponse) -> Option<Vec<Root>> {
    if let InputResponse::ListRoots(roots) = response { Some(roots) } else { None }
}
