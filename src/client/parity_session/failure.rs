//! Errors of requests that the session itself ends.

use std::time::Duration;

use crate::error::{ClientError, ClientErrorKind};

/// As many requests wait as may.
pub(super) fn busy(waiting_max: usize) -> ClientError {
    let text = format!("{waiting_max} requests wait for the server already; retry later");
    ClientError::new(ClientErrorKind::Busy, text)
}

/// No response or chunk came in time.
pub(super) fn timeout(timeout: Duration) -> ClientError {
    let text = format!("neither a response nor a chunk within {timeout:?}");
    ClientError::new(ClientErrorKind::Timeout, text)
}

/// A request that was sent when its connection ended because of `cause`.
pub(super) fn closed(cause: &ClientError) -> ClientError {
    let text = format!("the connection ended before the response: {cause}");
    ClientError::with_source(ClientErrorKind::Closed, text, cause.clone())
}

/// A request that was not sent in time, because there was no connection.
pub(super) fn unconnected(timeout: Duration, cause: &ClientError) -> ClientError {
    let text = format!("no connection within {timeout:?}: {cause}");
    ClientError::with_source(ClientErrorKind::Connect, text, cause.clone())
}

/// A stream of a session that the server does not continue.
pub(super) fn restart(reason: &str) -> ClientError {
    let text = format!("the server cannot continue the stream ({reason}): call again");
    ClientError::new(ClientErrorKind::Restart, text)
}

/// A request that its caller has cancelled.
pub(super) fn cancelled() -> ClientError {
    ClientError::new(ClientErrorKind::Cancelled, "the request was cancelled")
}

/// What the server did not allow.
pub(super) fn protocol(text: impl Into<std::borrow::Cow<'static, str>>) -> ClientError {
    ClientError::new(ClientErrorKind::Protocol, text)
}
