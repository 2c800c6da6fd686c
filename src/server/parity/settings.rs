//! What a shard grants to sessions of the parity dialect.

use std::time::Duration;

use corelane_parity::capabilities::{Capabilities, Feature, ResumeWindow};
use corelane_parity::server_session::SessionSettings;
use corelane_parity::timers::SessionTimeouts;

use crate::server::options::{CapabilitiesTimeoutPolicy, Options};

/// The settings of one shard.
#[derive(Clone, Copy, Debug)]
pub struct ParitySettings {
    /// What every session is granted.
    pub session: SessionSettings,
    /// What a session over HTTP is granted: the same, with the keepalives of event streams.
    pub http_session: SessionSettings,
    /// Sessions of the shard.
    pub sessions_max: usize,
}

impl ParitySettings {
    /// Returns what a session is granted.
    pub(super) const fn of(&self, is_http: bool) -> &SessionSettings {
        if is_http { &self.http_session } else { &self.session }
    }

    /// Returns the number of events that a session knows to have sent.
    pub(super) fn events_max(&self) -> usize {
        self.session.capabilities.resume_window.map_or(0, |window| window.chunks as usize)
    }

    /// The settings of one of `shards` shards that has at most `connections_max` connections.
    pub fn new(options: &Options, connections_max: usize) -> Self {
        let parity = &options.parity;
        let mut capabilities = Capabilities::of(Feature::ALL);
        capabilities.max_concurrent = Some(parity.concurrent_max);
        let payload_bytes_max = match parity.payload_bytes_max {
            0 => options.limits.message_bytes_max,
            most => most.min(options.limits.message_bytes_max),
        };
        capabilities.max_payload_bytes = Some(payload_bytes_max as u64);
        let seconds = |duration: Duration| u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
        capabilities.resume_window = Some(ResumeWindow {
            chunks: parity.resume_window_chunks,
            seconds: seconds(parity.resume_window),
        });
        let policy = parity.timeouts.capabilities_policy;
        let session = SessionSettings {
            capabilities,
            timeouts: SessionTimeouts {
                handshake: parity.timeouts.handshake,
                capabilities: parity.timeouts.capabilities,
                continues_without_capabilities: policy == CapabilitiesTimeoutPolicy::Continue,
                keepalive: parity.timeouts.keepalive,
                idle: parity.timeouts.idle,
            },
            streams_max: parity.streams_max as usize,
            window_bytes_max: parity.resume_window_bytes,
            keys_max: parity.idempotency_keys_max as usize,
        };
        let timeouts =
            SessionTimeouts { keepalive: parity.timeouts.sse_keepalive, ..session.timeouts };
        let http_session = SessionSettings { timeouts, ..session };
        // Each connection carries one; as many may wait for a new connection.
        Self { session, http_session, sessions_max: connections_max.saturating_mul(2) }
    }
}
