//! Options of the parity dialect.

use std::time::Duration;

use super::declare::{DAY, GIB, KIB, MINUTE, options};
use super::value::{Choice, choice};

options! {
    /// The parity dialect: a handshake, streams and resumption over every transport, beside MCP.
    pub struct ParityOptions at |options| options.parity;

    group DIALECT {
        /// Whether the parity dialect is served beside MCP (on), not at all (off), or alone (only).
        /// Fixed at start.
        #[option("parity.mode", Choice(ParityMode::NAMES), restart)]
        #[cost = "none; the first message of a connection selects the dialect"]
        #[source = "Corelane, docs/parity"]
        pub mode: ParityMode = ParityMode::On;

        /// Path of the endpoint of the dialect over HTTP. Fixed at start.
        #[option("parity.path", EndpointPath, restart)]
        #[cost = "none"]
        #[source = "Corelane, docs/parity"]
        pub path: String = "/parity".to_owned();
    }

    group LIMITS {
        /// Requests of a session in flight, streams included (`maxConcurrent`); one more gets
        /// `error.rate_limited`.
        #[option("parity.concurrent_max", Count { min: 1, max: 1_000_000 }, restart)]
        #[cost = "about 64 bytes each, and what their handlers hold"]
        #[source = "Corelane, docs/parity"]
        pub concurrent_max: u32 = 64, tiny 4;

        /// Bytes of a message (`maxPayloadBytes`); a longer one gets `error.payload_too_large`. 0
        /// is `message_bytes_max`.
        #[option("parity.payload_bytes_max", Bytes { min: 0, max: GIB }, restart)]
        #[cost = "that many bytes per incomplete message"]
        #[source = "Corelane, docs/parity"]
        pub payload_bytes_max: usize = 0;

        /// Chunks of each stream that are kept for a client that returns.
        #[option("parity.resume_window_chunks", Count { min: 1, max: 1_000_000 }, restart)]
        #[cost = "the chunks, and 32 bytes each"]
        #[source = "Corelane, docs/parity"]
        pub resume_window_chunks: u32 = 1_000, tiny 8;

        /// Bytes of these chunks.
        #[option("parity.resume_window_bytes", Bytes { min: KIB, max: GIB }, restart)]
        #[cost = "that many bytes per stream that can be resumed"]
        #[source = "Corelane, docs/parity"]
        pub resume_window_bytes: usize = 1024 * 1024, tiny 4096;

        /// Age of these chunks, and the time that a session waits for its client.
        #[option("parity.resume_window_secs", Seconds { min: 1, max: DAY }, restart)]
        #[cost = "sessions of vanished clients are kept for that long"]
        #[source = "Corelane, docs/parity"]
        pub resume_window: Duration = Duration::from_mins(1), tiny Duration::from_millis(500);

        /// Open streams of a session; one more gets `error.rate_limited`.
        #[option("parity.streams_max", Count { min: 1, max: 1_000_000 }, restart)]
        #[cost = "less than 256 bytes each, and their chunks"]
        #[source = "Corelane, docs/parity"]
        pub streams_max: u32 = 64, tiny 3;

        /// Idempotency keys that a session remembers; the oldest finished one makes room.
        #[option("parity.idempotency_keys_max", Count { min: 1, max: 1_000_000 }, restart)]
        #[cost = "about 120 bytes each, of memory_bytes_max"]
        #[source = "Corelane, docs/parity"]
        pub idempotency_keys_max: u32 = 1_024, tiny 4;
    }

    nested {
        /// Times of a session.
        pub timeouts: ParityTimeouts = ParityTimeouts::default(), tiny ParityTimeouts::tiny();
    }
}

options! {
    /// Times of a session.
    pub struct ParityTimeouts at |options| options.parity.timeouts;

    group TIMES {
        /// Time from the first byte to the end of the handshake; then `error.version_unsupported`,
        /// and the connection closes.
        ///
        /// Where no other dialect is served, it begins with the connection.
        #[option("parity.handshake_timeout_ms", Milliseconds { min: 1, max: 10 * MINUTE }, restart)]
        #[cost = "a client without handshake keeps its connection for that long"]
        #[source = "Corelane, docs/parity"]
        pub handshake: Duration = Duration::from_secs(5), tiny Duration::from_millis(100);

        /// Time from the acknowledgement of a handshake to the capabilities that it has announced.
        #[option("parity.capabilities_timeout_ms",
            Milliseconds { min: 1, max: 10 * MINUTE }, restart)]
        #[cost = "a client without them keeps its connection for that long"]
        #[source = "Corelane, docs/parity"]
        pub capabilities: Duration = Duration::from_secs(5), tiny Duration::from_millis(100);

        /// What follows when these capabilities do not come: continue with those of the handshake,
        /// or fail with `error.feature_not_available`.
        #[option("parity.capabilities_timeout_policy",
            Choice(CapabilitiesTimeoutPolicy::NAMES), restart)]
        #[cost = "none"]
        #[source = "Corelane, docs/parity"]
        pub capabilities_policy: CapabilitiesTimeoutPolicy = CapabilitiesTimeoutPolicy::Continue;

        /// Silence of a client over TCP, standard input and WebSocket after which it gets a
        /// keepalive.
        #[option("parity.keepalive_secs", Seconds { min: 1, max: DAY }, restart)]
        #[cost = "44 bytes per connection and interval"]
        #[source = "Corelane, docs/parity"]
        pub keepalive: Duration = Duration::from_mins(1), tiny Duration::from_millis(100);

        /// Silence of an event stream after which its client gets a keepalive.
        #[option("parity.sse_keepalive_secs", Seconds { min: 1, max: DAY }, restart)]
        #[cost = "60 bytes per stream and interval"]
        #[source = "Corelane, docs/parity"]
        pub sse_keepalive: Duration = Duration::from_secs(30), tiny Duration::from_millis(100);

        /// Time in which a client has to send something after a keepalive, unless something runs
        /// for it or, over HTTP, an event stream or exchange is open; then its session ends.
        ///
        /// A session is idle after the sum of `parity.keepalive_secs` and this, on every
        /// transport.
        #[option("parity.idle_timeout_secs", Seconds { min: 1, max: DAY }, restart)]
        #[cost = "clients that have vanished keep their place for that long"]
        #[source = "Corelane, docs/parity"]
        pub idle: Duration = Duration::from_mins(2), tiny Duration::from_millis(200);
    }
}

choice! {
    /// Which dialects a server speaks.
    #[non_exhaustive]
    pub enum ParityMode {
        /// MCP and the parity dialect: the first message of a connection selects one.
        #[default]
        On = "on",
        /// MCP.
        Off = "off",
        /// The parity dialect; the paths of MCP are not found.
        Only = "only",
    }
}

choice! {
    /// What follows when the announced capabilities do not come.
    #[non_exhaustive]
    pub enum CapabilitiesTimeoutPolicy {
        /// The session is ready, with the capabilities of the handshake.
        #[default]
        Continue = "continue",
        /// The client gets `error.feature_not_available`, and the connection closes.
        Fail = "fail",
    }
}
