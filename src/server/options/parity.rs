//! Options of the parity dialect.

use std::time::Duration;

/// The parity dialect: a handshake, streams and resumption over every transport, beside MCP.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ParityOptions {
    /// Whether it is served, and whether MCP is. Default [`ParityMode::On`].
    pub mode: ParityMode,
    /// Path of the endpoint over HTTP. Default `/parity`.
    pub path: String,
    /// Time from the first message, or from the connection where no other dialect is served, to an
    /// acceptable handshake; then the client gets `error.internal`. Default 5 s.
    pub handshake_timeout: Duration,
    /// Time from the acknowledgement of a handshake to the capabilities that it has announced.
    /// Default 5 s.
    pub capabilities_timeout: Duration,
    /// What follows when that time is over. Default [`CapabilitiesTimeoutPolicy::Continue`].
    pub capabilities_timeout_policy: CapabilitiesTimeoutPolicy,
    /// Silence of a client over TCP, stdio and WebSocket after which it gets a `keepalive`. Cost:
    /// 44 bytes each. Default 60 s.
    pub keepalive_interval: Duration,
    /// Silence of an event stream after which its client gets a `keepalive`. Default 30 s.
    pub sse_keepalive_interval: Duration,
    /// Time in which a client has to send something after a `keepalive`; then its connection
    /// closes. Default 120 s.
    pub idle_timeout: Duration,
    /// Requests in flight of a session, its streams included (`maxConcurrent`); a further one gets
    /// `error.rate_limited`. Default 64.
    pub concurrent_max: u32,
    /// Bytes of a message (`maxPayloadBytes`); a longer request gets `error.payload_too_large`. 0
    /// stands for the limit of messages. Default 0.
    pub payload_bytes_max: usize,
    /// Chunks that are kept of each stream for a client that returns. Default 1,000.
    pub resume_window_chunks: u32,
    /// Bytes of these chunks. Cost: that many bytes for each stream of a client with the capability
    /// to resume. Default 1 MiB.
    pub resume_window_bytes: usize,
    /// Age of these chunks, and the time that a session waits for its client to return. Default
    /// 60 s.
    pub resume_window: Duration,
    /// Open streams of a session; a further one gets `error.rate_limited`. Default 64.
    pub streams_max: u32,
    /// Idempotency keys that a session remembers. Cost: below 256 bytes each. Default 1,024.
    pub idempotency_keys_max: u32,
}

/// Which dialects a server speaks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub enum ParityMode {
    /// MCP and the parity dialect: the first message of a connection selects one.
    #[default]
    On,
    /// MCP.
    Off,
    /// The parity dialect.
    Only,
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

impl Default for ParityOptions {
    fn default() -> Self {
        Self {
            mode: ParityMode::On,
            path: "/parity".into(),
            handshake_timeout: Duration::from_secs(5),
            capabilities_timeout: Duration::from_secs(5),
            capabilities_timeout_policy: CapabilitiesTimeoutPolicy::Continue,
            keepalive_interval: Duration::from_mins(1),
            sse_keepalive_interval: Duration::from_secs(30),
            idle_timeout: Duration::from_mins(2),
            concurrent_max: 64,
            payload_bytes_max: 0,
            resume_window_chunks: 1_000,
            resume_window_bytes: 1 << 20,
            resume_window: Duration::from_mins(1),
            streams_max: 64,
            idempotency_keys_max: 1_024,
        }
    }
}
