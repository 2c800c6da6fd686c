//! A point in time until which a step may wait.

use std::time::{Duration, Instant};

/// Longest time of a step, 68 years: a server may name any number of seconds.
const TIME_MAX: Duration = Duration::from_secs(1 << 31);

/// The end of a step.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    end: Instant,
}

impl Deadline {
    /// Creates one that is `time` from now.
    pub fn after(time: Duration) -> Self {
        Self { end: now() + time.min(TIME_MAX) }
    }

    /// Returns the time that is left, or zero.
    pub fn left(&self) -> Duration {
        self.end.saturating_duration_since(now())
    }

    /// Returns whether no time is left.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }
}

/// Returns the current time.
#[expect(clippy::disallowed_methods, reason = "the clock of the checks, which block")]
pub fn now() -> Instant {
    Instant::now()
}
