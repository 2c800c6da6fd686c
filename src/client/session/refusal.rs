//! Errors of calls that the session itself ends.

use std::time::Duration;

use super::handshake::ServerInfo;
use crate::client::error::{ClientError, ClientErrorKind};
use crate::protocol::eras::Method;
use crate::protocol::json::Value;

/// Returns why the server cannot be asked for `method`, or `None` if it can.
pub(super) fn unsupported(server: &ServerInfo, method: Method) -> Option<ClientError> {
    let missing = server.missing_support(method)?;
    Some(ClientError::new(ClientErrorKind::Unsupported, missing))
}

pub(super) fn busy(waiting_max: usize) -> ClientError {
    let text = format!("{waiting_max} calls wait for the server already; retry later");
    ClientError::new(ClientErrorKind::Busy, text)
}

pub(super) fn timeout_error(timeout: Duration) -> ClientError {
    ClientError::new(ClientErrorKind::Timeout, format!("no response within {timeout:?}"))
}

/// The error of a call that was not sent in time, because there was no connection.
pub(super) fn unconnected(timeout: Duration, cause: &ClientError) -> ClientError {
    let text = format!("no connection within {timeout:?}: {cause}");
    ClientError::with_source(ClientErrorKind::Connect, text, cause.clone())
}

/// Returns why a handshake failed: because of `cause`, or because the server sent `text` that is
/// not a message.
pub(super) fn explain_failure(text: Option<Box<str>>, cause: ClientError) -> ClientError {
    let Some(text) = text else { return cause };
    let text = format!("the server sent text that is not a JSON-RPC message{text} ({cause})");
    ClientError::with_source(ClientErrorKind::Protocol, text, cause)
}

/// Returns why a connection has ended: because of `error`, which followed an error of the server
/// that belongs to no request.
pub(super) fn explain_end(server_error: Option<ClientError>, error: ClientError) -> ClientError {
    match server_error {
        Some(cause) if error.kind() == ClientErrorKind::Closed => {
            ClientError::with_source(ClientErrorKind::Closed, format!("{error}; {cause}"), cause)
        }
        _ => error,
    }
}

/// The error of a call that was sent when its connection ended because of `cause`.
pub(super) fn closed(cause: &ClientError) -> ClientError {
    let text = format!("the connection ended before the response: {cause}");
    ClientError::with_source(ClientErrorKind::Closed, text, cause.clone())
}

/// The `resultType` of a modern result.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ResultType {
    Complete,
    InputRequired,
}

/// Reads the `resultType` of a modern result; a result without one is complete.
pub(super) fn read_result_type(result: Value<'_>) -> Result<ResultType, ClientError> {
    let result_type = result.as_object().and_then(|result| result.find("resultType"));
    match result_type.map(Value::as_str) {
        None | Some(Some("complete")) => Ok(ResultType::Complete),
        Some(Some("input_required")) => Ok(ResultType::InputRequired),
        Some(Some("task")) => Err(ClientError::new(
            ClientErrorKind::Unsupported,
            "the server answered with a task, which this client does not support",
        )),
        Some(_) => Err(ClientError::new(
            ClientErrorKind::Protocol,
            "the result has a resultType that MCP 2026-07-28 does not define",
        )),
    }
}
