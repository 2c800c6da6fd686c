//! Errors of calls that the session itself ends.

use std::time::Duration;

use super::calls::Call;
use super::handshake::ServerInfo;
use super::request::{CallRequest, TaskMode};
use crate::error::{ClientError, ClientErrorKind, quote};
use corelane_protocol::eras::Method;
use corelane_protocol::json::Value;

/// Returns why the server cannot be sent a request, or `None` if it can.
pub(super) fn unsupported(server: &ServerInfo, request: &CallRequest) -> Option<ClientError> {
    if matches!(request.task, TaskMode::Create { .. }) && !server.offers_tasks() {
        let text = "the server does not offer tasks; make the call without one";
        return Some(ClientError::new(ClientErrorKind::Unsupported, text));
    }
    let missing = server.missing_support(request.method)?;
    Some(ClientError::new(ClientErrorKind::Unsupported, missing))
}

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

/// What the result of a call is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ResultType {
    Complete,
    InputRequired,
    /// A task that the call waits for.
    Task,
}

/// Reads what a result of `call` is; a modern result without `resultType` is complete.
pub(super) fn read_result_type<T>(
    call: &Call<T>,
    result: Value<'_>,
    is_modern: bool,
) -> Result<ResultType, ClientError> {
    if result.as_object().is_none() && !result.is_null() {
        let mut text = Vec::new();
        result.write(&mut text);
        let text = format!("the result is not an object{}", quote(&text));
        return Err(ClientError::new(ClientErrorKind::Protocol, text));
    }
    if call.request.task == TaskMode::Await {
        return Ok(ResultType::Task);
    }
    if !is_modern {
        return Ok(ResultType::Complete);
    }
    let result_type = result.as_object().and_then(|result| result.find("resultType"));
    let may_be_task = call.request.method == Method::ToolsCall;
    match result_type.map(Value::as_str) {
        None | Some(Some("complete")) => Ok(ResultType::Complete),
        Some(Some("input_required")) => Ok(ResultType::InputRequired),
        Some(Some("task")) if may_be_task => Ok(match call.request.task {
            TaskMode::Create { .. } => ResultType::Complete,
            TaskMode::Follow | TaskMode::Await => ResultType::Task,
        }),
        Some(_) => Err(ClientError::new(
            ClientErrorKind::Protocol,
            "the result has a resultType that MCP 2026-07-28 does not define",
        )),
    }
}
