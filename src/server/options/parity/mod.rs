//! Options of the parity dialect.

mod timeouts;

use std::time::Duration;

pub use self::timeouts::{CapabilitiesTimeoutPolicy, ParityTimeouts};

/// The parity dialect: a handshake, streams and resumption over every transport, beside MCP.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ParityOptions {
    /// Whether it is served, and whether MCP is. Default [`ParityMode::On`].
    pub mode: ParityMode,
    /// Path of the endpoint over HTTP. Default `/parity`.
    pub path: String,
    /// Times of a session.
    pub timeouts: ParityTimeouts,
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
    /// The parity dialect; the paths of MCP are not found.
    Only,
}

impl Default for ParityOptions {
    fn default() -> Self {
        Self {
            mode: ParityMode::On,
            path: "/parity".into(),
            timeouts: ParityTimeouts::default(),
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
