//! Errors of calls that the session itself ends.

use std::time::Duration;

use super::handshake::ServerInfo;
use super::request::CallRequest;
use crate::error::{ClientError, ClientErrorKind};

/// Returns why the server cannot be sent a request, or `None` if it can.
pub(super) fn unsupported(server: &ServerInfo, request: &CallRequest) -> Option<ClientError> {
    if request.task.creates_task() && !server.offers_tasks() {
        let text = "the server does not offer tasks; make the call without one";
        return Some(ClientError::new(ClientErrorKind::Unsupported, text));
    }
    let missing = server.missing_support(request.method)?;
    Some(ClientError::new(ClientErrorKind::Unsupported, missing))
}

/// The error of a call that is not queued, because `waiting_max` others wait.
pub(super) fn busy(waiting_max: usize) -> ClientError {
    let text = format!("{waiting_max} calls wait for the server already; retry later");
    ClientError::new(ClientErrorKind::Busy, text)
}

/// The error of a request that was not answered in time; `text` is what the server sent that is not
/// a message.
pub(super) fn timeout_error(timeout: Duration, text: Option<&str>) -> ClientError {
    let mut message = format!("no response within {timeout:?}");
    if let Some(text) = text {
        message.push_str("; the server sent text that is not a JSON-RPC message");
        message.push_str(text);
    }
    ClientError::new(ClientErrorKind::Timeout, message)
}

/// The error of a call that was not sent in time, because there was no connection.
pub(super) fn unconnected(timeout: Duration, cause: &ClientError) -> ClientError {
    let text = format!("no connection within {timeout:?}: {cause}");
    ClientError::with_source(ClientErrorKind::Connect, text, cause.clone())
}

/// Returns why a handshake failed: because of `cause`, or because the server sent `text` that is
/// not a message.
pub(super) fn explain_failure(text: Option<Box<str>>, cause: ClientError) -> ClientError {
    let of_http = |error: &ClientError| {
        matches!(error.kind(), ClientErrorKind::Http { .. } | ClientErrorKind::Unauthorized { .. })
    };
    // An error of HTTP has the text already.
    let Some(text) = text.filter(|_| !of_http(cause.cause().unwrap_or(&cause))) else {
        return cause;
    };
    let text = format!("the server sent text that is not a JSON-RPC message{text} ({cause})");
    ClientError::with_source(ClientErrorKind::Protocol, text, cause)
}

/// Returns why a connection has ended: because of `error`, which followed an error of the server
/// that belongs to no request.
pub(super) fn explain_end(server_error: Option<ClientError>, error: ClientError) -> ClientError {
    match server_error {
        Some(cause) if matches!(cause.kind(), ClientErrorKind::Unauthorized { .. }) => cause,
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
