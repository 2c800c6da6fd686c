//! What a client reports of a request over HTTP that it sends again.

use std::time::Duration;

use crate::client::error::ClientError;

/// A request over HTTP that the server has refused for now, with status 429 or 503: it is sent
/// again.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RetryEvent {
    /// The method of MCP, such as `tools/call`; that of HTTP for another request.
    pub method: &'static str,
    /// What the server has answered.
    pub error: ClientError,
    /// Time until the request is sent again: that of `Retry-After`, if the server has stated it.
    pub delay: Duration,
}
