//! Times of the parity dialect.

use std::time::Duration;

/// Times of a session.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ParityTimeouts {
    /// Time from the first message, or from the connection where no other dialect is served, to an
    /// acceptable handshake; then the client gets `error.internal`. Default 5 s.
    pub handshake: Duration,
    /// Time from the acknowledgement of a handshake to the capabilities that it has announced.
    /// Default 5 s.
    pub capabilities: Duration,
    /// What follows when that time is over. Default [`CapabilitiesTimeoutPolicy::Continue`].
    pub capabilities_policy: CapabilitiesTimeoutPolicy,
    /// Silence of a client over TCP, stdio and WebSocket after which it gets a `keepalive`. Cost:
    /// 44 bytes each. Default 60 s.
    pub keepalive: Duration,
    /// Silence of a client with an event stream after which it gets a `keepalive` there. Default
    /// 30 s.
    pub sse_keepalive: Duration,
    /// Time in which a client has to send something after a `keepalive`; then its connection
    /// closes. Default 120 s.
    pub idle: Duration,
}

/// What follows when the announced capabilities do not come.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum CapabilitiesTimeoutPolicy {
    /// The session is ready, with the capabilities of the handshake.
    #[default]
    Continue,
    /// The client gets `error.feature_not_available`, and the connection closes.
    Fail,
}

impl Default for ParityTimeouts {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            capabilities: Duration::from_secs(5),
            capabilities_policy: CapabilitiesTimeoutPolicy::Continue,
            keepalive: Duration::from_mins(1),
            sse_keepalive: Duration::from_secs(30),
            idle: Duration::from_mins(2),
        }
    }
}
