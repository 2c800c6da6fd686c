//! Options of a client of the parity dialect.

use std::time::Duration;

use crate::oauth::Secret;
use crate::reconnect::ReconnectOptions;
use corelane_parity::capabilities::{Capabilities, Feature};
use corelane_parity::timers::SessionTimeouts;
use corelane_protocol::model::Implementation;

/// How a request is repeated that the server has answered with a retryable error. The delay of a
/// repetition is drawn between zero and a bound that doubles (full jitter), and begins after
/// `retryAfter` of the error. A request is not repeated beyond its timeout.
///
/// `error.rate_limited` is repeated for each request. `error.internal` is not repeated for
/// `tools/call`: the tool may have run.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ParityRetryOptions {
    /// Repetitions of one request; 0 for none. Default 4.
    pub attempts_max: u32,
    /// Bound of the first delay. Default 100 ms.
    pub delay_min: Duration,
    /// Bound of the longest delay. Default 10 s.
    pub delay_max: Duration,
}

impl Default for ParityRetryOptions {
    fn default() -> Self {
        Self {
            attempts_max: 4,
            delay_min: Duration::from_millis(100),
            delay_max: Duration::from_secs(10),
        }
    }
}

/// When a `keepalive` is sent on a silent connection, and when it is given up.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ParityKeepaliveOptions {
    /// A `keepalive` is sent when nothing was received for so long. Default 60 s.
    pub interval: Duration,
    /// The connection is lost if nothing is received for so long after one. A server sends
    /// keep-alives of its own (`parity.keepalive_secs`); this and `interval` must be longer than
    /// those. Default 120 s.
    pub idle_timeout: Duration,
}

impl Default for ParityKeepaliveOptions {
    fn default() -> Self {
        Self { interval: Duration::from_mins(1), idle_timeout: Duration::from_mins(2) }
    }
}

/// What the sessions of a client have in common.
#[derive(Debug)]
pub struct ParityConfig {
    /// Name and version of the client.
    pub client_info: Implementation,
    /// What the client offers.
    pub offered: Capabilities,
    /// What the intersection is narrowed to by an exchange.
    pub refinement: Option<Capabilities>,
    /// The token of the handshake.
    pub(crate) auth_token: Option<Secret>,
    /// Time from a request to its response, and between two chunks of a stream.
    pub request_timeout: Duration,
    /// Time from the connection to its first `handshakeAck`, and from there to that of an exchange.
    pub handshake_timeout: Duration,
    /// Repetitions.
    pub retry: ParityRetryOptions,
    /// Keep-alives.
    pub keepalive: ParityKeepaliveOptions,
    /// Requests and streams in flight, if the server does not allow fewer.
    pub in_flight_max: usize,
    /// Requests that wait to be sent.
    pub waiting_max: usize,
}

impl Default for ParityConfig {
    fn default() -> Self {
        Self {
            client_info: Implementation::new("corelane", env!("CARGO_PKG_VERSION")),
            offered: Capabilities::of(Feature::ALL),
            refinement: None,
            auth_token: None,
            request_timeout: Duration::from_secs(30),
            handshake_timeout: Duration::from_secs(5),
            retry: ParityRetryOptions::default(),
            keepalive: ParityKeepaliveOptions::default(),
            in_flight_max: 1_024,
            waiting_max: 16_384,
        }
    }
}

impl ParityConfig {
    /// Returns the times of a connection.
    pub(super) fn timeouts(&self) -> SessionTimeouts {
        SessionTimeouts {
            handshake: self.handshake_timeout,
            capabilities: self.handshake_timeout,
            continues_without_capabilities: false,
            keepalive: self.keepalive.interval,
            hint: self.keepalive.idle_timeout,
            idle: self.keepalive.interval.saturating_add(self.keepalive.idle_timeout),
        }
    }

    /// Returns the delays of repetitions.
    pub(super) fn delays(&self) -> ReconnectOptions {
        let ParityRetryOptions { attempts_max, delay_min, delay_max } = self.retry;
        let attempts_max = Some(attempts_max);
        ReconnectOptions { delay_min, delay_max, attempts_max, ..ReconnectOptions::default() }
    }
}
