//! Options of the parity dialect.

use crate::config::options::{CapabilitiesTimeoutPolicy, ParityMode};
use crate::config::table::{DAY, GIB, KIB, MINUTE, Row, Section};
use crate::config::unit::Unit;
use crate::config::value::Choice;

/// Where the dialect is specified.
const SOURCE: &str = "Corelane, docs/parity";

pub(super) static PARITY: Section = Section {
    heading: "Parity dialect",
    rows: &[
        Row {
            key: "parity.mode",
            short: None,
            unit: Unit::Choice(ParityMode::NAMES),
            description: "Whether the parity dialect is served beside MCP (on), not at all \
                          (off), or alone (only). Fixed at start.",
            cost: "none; the first message of a connection selects the dialect",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.mode,
        },
        Row {
            key: "parity.path",
            short: None,
            unit: Unit::EndpointPath,
            description: "Path of the endpoint of the dialect over HTTP. Fixed at start.",
            cost: "none",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.path,
        },
        Row {
            key: "parity.handshake_timeout_ms",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: 10 * MINUTE },
            description: "Time from the first message to an acceptable handshake; then \
                          error.internal.",
            cost: "a client without handshake keeps its connection for that long",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.timeouts.handshake,
        },
        Row {
            key: "parity.capabilities_timeout_ms",
            short: None,
            unit: Unit::Milliseconds { min: 1, max: 10 * MINUTE },
            description: "Time from the acknowledgement of a handshake to the capabilities \
                          that it has announced.",
            cost: "a client without them keeps its connection for that long",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.timeouts.capabilities,
        },
        Row {
            key: "parity.capabilities_timeout_policy",
            short: None,
            unit: Unit::Choice(CapabilitiesTimeoutPolicy::NAMES),
            description: "What follows when these capabilities do not come: continue with \
                          those of the handshake, or fail with error.feature_not_available.",
            cost: "none",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.timeouts.capabilities_policy,
        },
        Row {
            key: "parity.keepalive_secs",
            short: None,
            unit: Unit::Seconds { min: 1, max: DAY },
            description: "Silence of a client over TCP, standard input and WebSocket after \
                          which it gets a keepalive.",
            cost: "44 bytes per connection and interval",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.timeouts.keepalive,
        },
        Row {
            key: "parity.sse_keepalive_secs",
            short: None,
            unit: Unit::Seconds { min: 1, max: DAY },
            description: "Silence of an event stream after which its client gets a \
                          keepalive.",
            cost: "60 bytes per stream and interval",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.timeouts.sse_keepalive,
        },
        Row {
            key: "parity.idle_timeout_secs",
            short: None,
            unit: Unit::Seconds { min: 1, max: DAY },
            description: "Time in which a client has to send something after a keepalive; \
                          then its connection closes.",
            cost: "clients that have vanished keep their place for that long",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.timeouts.idle,
        },
        Row {
            key: "parity.concurrent_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Requests of a session in flight, streams included (maxConcurrent); \
                          one more gets error.rate_limited.",
            cost: "about 64 bytes each, and what their handlers hold",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.concurrent_max,
        },
        Row {
            key: "parity.payload_bytes_max",
            short: None,
            unit: Unit::Bytes { min: 0, max: GIB },
            description: "Bytes of a message (maxPayloadBytes); a longer one gets \
                          error.payload_too_large. 0 is message_bytes_max.",
            cost: "that many bytes per incomplete message",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.payload_bytes_max,
        },
        Row {
            key: "parity.resume_window_chunks",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Chunks of each stream that are kept for a client that returns.",
            cost: "the chunks, and 32 bytes each",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.resume_window_chunks,
        },
        Row {
            key: "parity.resume_window_bytes",
            short: None,
            unit: Unit::Bytes { min: KIB, max: GIB },
            description: "Bytes of these chunks.",
            cost: "that many bytes per stream that can be resumed",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.resume_window_bytes,
        },
        Row {
            key: "parity.resume_window_secs",
            short: None,
            unit: Unit::Seconds { min: 1, max: DAY },
            description: "Age of these chunks, and the time that a session waits for its \
                          client.",
            cost: "sessions of vanished clients are kept for that long",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.resume_window,
        },
        Row {
            key: "parity.streams_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Open streams of a session; one more gets error.rate_limited.",
            cost: "less than 256 bytes each, and their chunks",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.streams_max,
        },
        Row {
            key: "parity.idempotency_keys_max",
            short: None,
            unit: Unit::Count { min: 1, max: 1_000_000 },
            description: "Idempotency keys that a session remembers; the oldest finished one \
                          makes room.",
            cost: "less than 256 bytes each",
            source: SOURCE,
            is_reloadable: false,
            field: |options| &mut options.parity.idempotency_keys_max,
        },
    ],
};
