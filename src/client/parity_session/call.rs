//! One request of a session, from its caller to its end.

use std::time::Duration;

use crate::error::{ClientError, ClientErrorKind};
use crate::reconnect::Backoff;
use corelane_base::time::Instant;
use corelane_parity::error::ErrorCode;

/// A request as its caller makes it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ParityCallRequest {
    /// The method.
    pub method: Box<str>,
    /// The params, an encoded object.
    pub params: Vec<u8>,
    /// Whether its result is streamed.
    pub streams: bool,
    /// The key under which the server accepts it once.
    pub idempotency_key: Option<Box<str>>,
    /// Time to the response, and between two chunks; `None` for that of the client.
    pub timeout: Option<Duration>,
}

impl ParityCallRequest {
    /// Returns whether the request changes nothing on the server, so that it may run twice.
    pub(super) fn is_idempotent(&self) -> bool {
        &*self.method != "tools/call"
    }

    /// Returns whether the request may be sent again after a retryable error.
    pub(super) fn may_repeat(&self, error: &ClientError) -> bool {
        // RFC 6585, section 4: a request that is refused for its rate has not run.
        if let (ClientErrorKind::Http { status }, Some(_)) = (error.kind(), error.retry_after()) {
            return status == 429 || status == 503 && self.is_idempotent();
        }
        let is = |code| ClientErrorKind::Parity { code } == error.kind();
        // A second factor is pending: the user has to give it first.
        let is_pending = is(ErrorCode::Forbidden);
        let may_run_twice = is(ErrorCode::RateLimited) || self.is_idempotent();
        error.is_retryable() && !is_pending && may_run_twice
    }
}

/// Where a request is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum CallState {
    /// It is sent when it can be, not before this.
    Waiting {
        not_before: Option<Instant>,
        /// Only to the session that has received it before.
        needs_session: bool,
    },
    /// It was sent.
    Sent,
    /// Its stream is open.
    Streaming(Box<str>),
}

impl CallState {
    /// The state of a request that may be sent at once.
    pub(super) const NEW: Self = Self::Waiting { not_before: None, needs_session: false };
}

/// A request of a session.
#[derive(Debug)]
pub(super) struct Call<T> {
    /// `None` once the caller is gone: what the server sends of it is ignored.
    pub(super) token: Option<T>,
    pub(super) request: Box<ParityCallRequest>,
    pub(super) state: CallState,
    pub(super) timeout: Duration,
    pub(super) deadline: Instant,
    /// Its repetitions, once there was one.
    pub(super) backoff: Option<Backoff>,
    /// What its stream ends with.
    pub(super) outcome: Option<Result<Vec<u8>, ClientError>>,
    /// The cancellation was sent.
    pub(super) is_canceling: bool,
}

impl<T> Call<T> {
    /// Returns whether the server has it.
    pub(super) const fn is_in_flight(&self) -> bool {
        matches!(self.state, CallState::Sent | CallState::Streaming(_))
    }
}
