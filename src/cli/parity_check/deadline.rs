//! A point in time until which a step may wait.

use std::time::Duration;

use crate::base::time::Instant;
use crate::engine::clock::Clock;

/// The end of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    clock: Clock,
    end: Instant,
}

impl Deadline {
    /// Creates one that is `time` from now.
    pub(crate) fn after(clock: Clock, time: Duration) -> Self {
        Self { clock, end: clock.now().after(time) }
    }

    /// Returns the time that is left, or zero.
    pub(crate) fn left(&self) -> Duration {
        self.end.since(self.clock.now())
    }

    /// Returns whether no time is left.
    pub(crate) fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}
