//! The contexts of running handlers: what a handler reads of its request, its connection to the
//! server, and the state of its shard: a value that the host makes for each shard, for its inline
//! and local handlers.

mod client;

pub mod request;

mod session_slot;

mod blocking;

mod inline;
mod local;
#[cfg(feature = "tokio")]
mod tokio;

use std::any::{Any, TypeId, type_name};

use corelane_protocol::error::Error;
use corelane_protocol::model::{
    CreateMessageResult, ElicitResult, InputRequest, InputResponse, Root,
};

pub use self::blocking::{BlockingContext, BlockingHost};
pub use self::client::{ClientImplementation, ClientInfo, StoredClientInfo};
pub use self::inline::InlineContext;
pub(super) use self::inline::{InlineEnd, InlineEvents};
pub use self::local::{HostFuture, PastRoundTrips, RequestContext, RequestHost};
pub use self::request::{RequestInfo, RequestSource, RequestView, TraceContext};
pub use self::session_slot::SessionSlot;
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

/// The type of the state that a handler needs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StateType {
    id: TypeId,
    name: &'static str,
}

impl StateType {
    /// The type `S`.
    pub fn of<S: 'static>() -> Self {
        Self { id: TypeId::of::<S>(), name: type_name::<S>() }
    }

    /// Name of the type.
    pub const fn name(self) -> &'static str {
        self.name
    }
}

/// Returns the state as the type of a handler.
///
/// # Panics
///
/// It has another type. Servers check the types when a catalog is installed.
pub(super) fn typed_shard_state<S: 'static>(state: &dyn Any) -> &S {
    let Some(state) = state.downcast_ref() else {
        panic!("the server has no shard state of the type {}", type_name::<S>());
    };
    state
}
