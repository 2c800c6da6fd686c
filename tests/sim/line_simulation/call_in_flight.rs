//! A call whose response comes later.

use std::time::Duration;

use corelane_base::time::Instant;

use crate::line_simulation::expectation::DeferredResponse;

/// Resolution of the timer wheel.
const TIMER_TICK: Duration = Duration::from_millis(1);

/// A call in flight, as its client knows it.
#[derive(Debug)]
pub(crate) struct CallInFlight {
    pub(crate) number: u64,
    pub(crate) response: DeferredResponse,
    pub(crate) progress: u32,
    /// Number of the message that cancels it.
    pub(crate) cancelled: Option<u64>,
    pub(crate) sent_at: Instant,
    /// Time by which it was certainly read.
    pub(crate) read_by: Option<Instant>,
}

impl CallInFlight {
    /// Returns whether it times out before a call that was sent at `sent_at`.
    pub(crate) fn times_out_before(&self, sent_at: Instant) -> bool {
        self.cancelled.is_none()
            && self.read_by.is_some_and(|read| read.after(2 * TIMER_TICK) <= sent_at)
    }
}
