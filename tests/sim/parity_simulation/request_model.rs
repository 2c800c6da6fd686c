//! One request as its client sees it, and the errors that may answer it.

use std::time::Duration;

use corelane_base::time::Instant;
use serde_json::Value;

use crate::parity_simulation::work::Work;

/// What a client has to know of the run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) now: Instant,
    /// The server drains.
    pub(crate) is_draining: bool,
    /// Timeout of requests.
    pub(crate) request_timeout: Duration,
    /// A request that another shard has read may time out earlier: its time begins with the last
    /// turn of the shard of its session, before stalls.
    pub(crate) lag_max: Duration,
    /// Time of the exchange of capabilities, and whether the session continues without.
    pub(crate) capabilities_timeout: (Duration, bool),
    /// Open streams of a session.
    pub(crate) streams_max: usize,
    /// A silent session may end at any time.
    pub(crate) may_idle_out: bool,
    /// Age of the chunks that are kept.
    pub(crate) window: Duration,
    /// Connections may break without cause.
    pub(crate) may_break: bool,
    /// The time of the handshake is short.
    pub(crate) may_time_out_handshake: bool,
    /// Tokens may expire.
    pub(crate) has_tokens: bool,
}

/// What is known about a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RequestState {
    /// Its response is due.
    Open,
    /// Its connection was lost: it may have been processed, and may be answered.
    Uncertain,
    Answered,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct RequestModel {
    pub(crate) id: Value,
    pub(crate) work: Work,
    pub(crate) streams: bool,
    pub(crate) key: Option<String>,
    /// Length of its text.
    pub(crate) bytes: usize,
    pub(crate) sent_at: Instant,
    /// Requests and streams in flight that the client knew of, and that may have been read before.
    pub(crate) in_flight: usize,
    pub(crate) state: RequestState,
    pub(crate) is_cancelled: bool,
}

/// Returns whether an error says that a token has expired.
pub(crate) fn is_expiry(error: &Value) -> bool {
    let details = &error["details"];
    details["reason"] == "token_expired"
        && details["advice"] == "refresh_token"
        && error["retryable"] == true
}

/// Returns whether a flag of capabilities is set.
pub(crate) fn has(capabilities: &Value, flag: &str) -> bool {
    capabilities[flag] == true
}

impl RequestModel {
    /// Returns whether the capabilities allow it.
    pub(crate) fn is_available(&self, capabilities: &Value) -> bool {
        let has_feature = self.work.capability().is_none_or(|flag| has(capabilities, flag));
        let has_streams = !self.streams || has(capabilities, "streaming");
        has_feature && has_streams && self.work != Work::UnknownMethod
    }

    /// Returns whether it is longer than the capabilities allow.
    pub(crate) fn is_too_large(&self, capabilities: &Value) -> bool {
        capabilities["maxPayloadBytes"].as_u64().is_some_and(|most| self.bytes as u64 > most)
    }

    /// Returns whether `error` may answer it. `is_known_key`: another request of the session has
    /// its idempotency key. `in_flight`: what the client knows of at present.
    pub(crate) fn explains(
        &self,
        error: &Value,
        capabilities: &Value,
        is_known_key: bool,
        in_flight: usize,
        rules: &Rules,
    ) -> bool {
        let details = &error["details"];
        match error["code"].as_str().unwrap_or_default() {
            "error.feature_not_available" => !self.is_available(capabilities),
            "error.payload_too_large" => self.is_too_large(capabilities),
            "error.rate_limited" => {
                let most = capabilities["maxConcurrent"].as_u64().unwrap_or(u64::MAX);
                let streams_max = if self.streams { rules.streams_max as u64 } else { u64::MAX };
                self.in_flight.max(in_flight) as u64 >= most.min(streams_max) || rules.is_draining
            }
            "error.already_processed" => is_known_key,
            "error.auth.unauthorized" => rules.has_tokens && is_expiry(error),
            "error.internal" if details["reason"] == "cancelled" => {
                // Over HTTP by the end of the session, too.
                self.is_cancelled || rules.may_idle_out
            }
            "error.internal" => {
                // Timers have ticks.
                let early_max = rules.lag_max + Duration::from_millis(1);
                let waited = rules.now.since(self.sent_at) + early_max;
                let is_over = waited >= rules.request_timeout;
                self.work == Work::UnknownTool && details["mcpCode"] == -32602
                    || is_over && self.can_time_out()
                    || rules.is_draining
            }
            _ => false,
        }
    }

    const fn can_time_out(&self) -> bool {
        matches!(self.work, Work::Emit { .. } | Work::Wait)
    }
}
