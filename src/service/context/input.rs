//! What the contexts share to request input from the client.

use corelane_protocol::error::Error;
use corelane_protocol::model::{
    CreateMessageResult, ElicitResult, InputRequest, InputResponse, Root,
};

use super::client_info::ClientInfo;
use crate::service::results::ClientRequestError;

/// Fails if the client has not declared the capability that `request` needs.
pub(super) fn check_capabilities(
    request: &InputRequest,
    client: ClientInfo,
) -> Result<(), ClientRequestError> {
    let missing = request.required_capabilities().difference(client.capabilities);
    if missing.is_empty() { Ok(()) } else { Err(ClientRequestError::MissingCapability(missing)) }
}

/// Fails if the response is of another kind than the request.
pub(super) fn expect<T>(response: Option<T>) -> Result<T, ClientRequestError> {
    let mismatch = || Error::internal("the response is of another kind");
    response.ok_or_else(|| ClientRequestError::InvalidResponse(mismatch()))
}

pub(super) fn elicited(response: InputResponse) -> Option<ElicitResult> {
    if let InputResponse::Elicit(elicited) = response { Some(elicited) } else { None }
}

pub(super) fn sampled(response: InputResponse) -> Option<CreateMessageResult> {
    if let InputResponse::CreateMessage(sampled) = response { Some(sampled) } else { None }
}

pub(super) fn roots(response: InputResponse) -> Option<Vec<Root>> {
    if let InputResponse::ListRoots(roots) = response { Some(roots) } else { None }
}
