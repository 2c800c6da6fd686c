//! What the server is expected to send for one message.

use serde_json::Value;

use crate::line_simulation::expected_response::{ExpectedResponse, INTERNAL, INVALID_REQUEST};

/// What follows from one message, known before it is sent.
#[derive(Clone, Debug)]
pub(crate) enum Expectation {
    /// One immediate response.
    Immediate(ImmediateResponse),
    /// Several immediate responses, in one batch.
    Batch(Vec<ImmediateResponse>),
    /// A response that comes later.
    Deferred(DeferredResponse),
    /// The request with this id is cancelled.
    Cancellation(Value),
    /// The server sends a request of its own, and may cancel it.
    ClientRequest,
    /// No response: a notification.
    Nothing,
}

/// A response that is due at once.
#[derive(Clone, Debug)]
pub(crate) struct ImmediateResponse {
    /// Required id; `None` if the member must be absent.
    pub(crate) id: Option<Value>,
    pub(crate) expected: ExpectedResponse,
    /// A call with the same id may still be in flight: while it is, this request is refused.
    pub(crate) is_duplicate_id: bool,
    /// The server closes the connection after it.
    pub(crate) closes_connection: bool,
}

/// A call that is answered when its handler has ended.
#[derive(Clone, Debug)]
pub(crate) struct DeferredResponse {
    pub(crate) id: Value,
    pub(crate) expected: ExpectedResponse,
    /// Progress token; `None` if the caller requests no progress.
    pub(crate) token: Option<Value>,
    pub(crate) steps: u32,
    pub(crate) end: CallEnd,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum CallEnd {
    /// With its result.
    Result,
    /// With a timeout error.
    Timeout,
    /// With either: it takes about as long as the request timeout.
    Either,
}

impl ImmediateResponse {
    pub(crate) const fn new(id: Value, expected: ExpectedResponse) -> Self {
        Self { id: Some(id), expected, is_duplicate_id: false, closes_connection: false }
    }

    pub(crate) fn matches(&self, message: &Value) -> bool {
        let is_refused =
            self.is_duplicate_id && ExpectedResponse::Error(INVALID_REQUEST).matches(message);
        message.get("id") == self.id.as_ref() && (is_refused || self.expected.matches(message))
    }
}

impl DeferredResponse {
    pub(crate) fn matches(&self, message: &Value) -> bool {
        message.get("id") == Some(&self.id)
            && ((self.end != CallEnd::Timeout && self.expected.matches(message))
                || (self.end != CallEnd::Result
                    && ExpectedResponse::Error(INTERNAL).matches(message)))
    }
}
