//! MCP peers, where messages to them go, and what dispatching a message has written.
//!
//! A TCP or stdio connection is one peer, and so is an HTTP connection that carries modern
//! (2026-07-28) requests. A legacy HTTP session is one peer that spans many connections.
//!
//! Invariants: calls, client requests, streams and tasks refer to a [`PeerId`], never to a socket;
//! the key of a peer that is gone is never valid again.

use corelane_base::slab::Key;
use corelane_protocol::error::ErrorKind;
use corelane_transport::http::fields::{Challenge, RateLimit, ResponseFields};

use crate::guard::auth::challenge::whole_seconds;
use crate::guard::rate::limiter::Exceeded;

/// Identifies one MCP peer of a shard.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum PeerId {
    Connection(Key),
    HttpSession(Key),
    /// A session of the parity dialect.
    Parity(ParityKey),
}

impl PeerId {
    /// Returns a number that differs between the peers of a shard.
    #[inline]
    pub(super) const fn to_bits(self) -> u64 {
        match self {
            Self::Connection(key) => key.to_bits(),
            Self::HttpSession(key) => !key.to_bits(),
            Self::Parity(ParityKey(key)) => key.to_bits() ^ 1 << 63,
        }
    }
}

/// Names a session of the parity dialect on this shard.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct ParityKey(pub(super) Key);

/// Where a message for a peer goes: the path on which its request came.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ReplyTo {
    pub(super) peer_id: PeerId,
    /// The stream of the HTTP session, or the stream or call of the parity session; `STANDALONE`
    /// for a connection.
    pub(super) stream: u32,
}

impl ReplyTo {
    /// The stream of a session for messages that belong to no request.
    pub(super) const STANDALONE: u32 = 0;

    /// No stream: the session has reached its limit of streams.
    pub(super) const NO_STREAM: u32 = u32::MAX;

    /// Returns the target for messages that belong to no request.
    pub(super) const fn standalone(peer_id: PeerId) -> Self {
        Self { peer_id, stream: Self::STANDALONE }
    }

    /// Returns the exchange of the request among those of its peer, within which an id in flight is
    /// unique. Each POST of a legacy HTTP session has its own, any other peer has one.
    pub(super) const fn exchange(self) -> u32 {
        match self.peer_id {
            PeerId::HttpSession(_) => self.stream,
            PeerId::Connection(_) | PeerId::Parity(_) => Self::STANDALONE,
        }
    }

    /// Returns whether the response may be sent later.
    pub(super) const fn can_respond_later(self) -> bool {
        self.stream != Self::NO_STREAM
    }
}

/// What dispatching a message has written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Outcome {
    /// Nothing: no response is due, or it is sent later.
    None,
    /// The response, or the responses of a batch.
    Response,
    Error(ErrorKind),
    /// A notification or server request: written before the response, or unrelated to one.
    Notification,
}

impl Outcome {
    /// Returns whether the request has its response.
    pub(super) const fn is_response(self) -> bool {
        matches!(self, Self::Response | Self::Error(_))
    }
}

/// What a refused client is sent beside status and error.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum RefusalFields {
    /// `WWW-Authenticate`: the request lacks a scope.
    Challenge(Box<str>),
    /// `Retry-After`, `RateLimit` and `RateLimit-Policy`: a rate limit is exceeded.
    RateLimit(Box<Exceeded>),
    /// `Retry-After`, in seconds.
    RetryAfter(u32),
}

impl RefusalFields {
    /// Adds the fields to those of a response.
    #[cold]
    pub(super) fn add_to<'f>(&'f self, fields: ResponseFields<'f>) -> ResponseFields<'f> {
        match self {
            Self::RetryAfter(seconds) => {
                ResponseFields { retry_after_seconds: Some(*seconds), ..fields }
            }
            Self::Challenge(challenge) => {
                ResponseFields { www_authenticate: Some(Challenge::new(challenge)), ..fields }
            }
            Self::RateLimit(exceeded) => {
                let Exceeded { policy, limit, seconds, retry_after, .. } = &**exceeded;
                let reset_seconds = whole_seconds(*retry_after);
                let (limit, seconds) = (*limit, *seconds);
                let rate_limit = RateLimit { policy, limit, seconds, reset_seconds };
                ResponseFields {
                    retry_after_seconds: Some(reset_seconds),
                    rate_limit: Some(rate_limit),
                    ..fields
                }
            }
        }
    }
}
