//! The calls in flight of a TCP client that has ended its input.

use std::time::Duration;

use corelane::Options;
use corelane_base::time::Instant;
use serde_json::Value;

use crate::harness::shard::STALL_MAX;

/// What the server does with the calls of such clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HalfCloseRule {
    /// `tcp.half_close_timeout`.
    timeout: Duration,
    /// More clients may end their input than may wait for their calls.
    may_refuse: bool,
}

impl HalfCloseRule {
    pub(crate) fn new(options: &Options, clients: usize) -> Self {
        let waiting_max = (options.tcp.connections_max as usize / 8).max(1);
        Self { timeout: options.tcp.half_close_timeout, may_refuse: clients > waiting_max }
    }
}

/// The end of the input of one client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputEnd {
    pub(crate) at: Instant,
    pub(crate) rule: HalfCloseRule,
}

impl InputEnd {
    /// Returns whether calls in flight end without a response.
    pub(crate) const fn cancels_at_once(&self) -> bool {
        self.rule.timeout.is_zero()
    }

    /// Returns whether `message` is the error of a call that is cancelled for the end of the input.
    pub(crate) fn is_cancellation(message: &Value) -> bool {
        let text = message["error"]["message"].as_str().unwrap_or_default();
        text.starts_with("the call was cancelled")
    }

    /// Returns whether the server may cancel a call at `now` with `message`.
    pub(crate) fn explains(&self, message: &Value, now: Instant) -> bool {
        let text = message["error"]["message"].as_str().unwrap_or_default();
        // A shard that was stalled may have read the end of the input earlier.
        let is_over = now.after(STALL_MAX) >= self.at.after(self.rule.timeout);
        !self.cancels_at_once()
            && (text.contains("tcp.half_close_timeout") && is_over
                || text.contains("tcp.connections_max / 8") && self.rule.may_refuse)
    }
}
