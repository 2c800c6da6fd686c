//! Load shedding by queue delay: calls are refused once all have waited too long for a while.
//!
//! A queue that is long for a moment absorbs a burst; one in which every call waits only adds its
//! delay to each of them.
//!
//! Invariants: as long as one call in each interval waits for less than the target, none is
//! refused; the first that does ends the refusals.
//!
//! Source: RFC 8289 (`CoDel`), section 4: target and interval.

use std::time::Duration;

use corelane_base::time::Instant;

/// When calls are refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DelayRules {
    /// Delay that calls may have at all times.
    pub target: Duration,
    /// Time for which calls may have a longer one.
    pub interval: Duration,
}

/// The state of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct DelayGuard {
    /// Since when every observed delay is above the target.
    above_since: Option<Instant>,
    is_shedding: bool,
}

impl DelayGuard {
    /// Returns whether new calls are refused.
    pub const fn is_shedding(&self) -> bool {
        self.is_shedding
    }

    /// Applies the delay of the call that leaves the queue next, or `None` if none waits. Returns
    /// whether [`DelayGuard::is_shedding`] has changed.
    pub fn update(&mut self, rules: &DelayRules, delay: Option<Duration>, now: Instant) -> bool {
        let before = self.is_shedding;
        if delay.is_some_and(|delay| delay > rules.target) {
            let since = *self.above_since.get_or_insert(now);
            self.is_shedding = self.is_shedding || now.since(since) >= rules.interval;
        } else {
            *self = Self::default();
        }
        self.is_shedding != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: DelayRules =
        DelayRules { target: Duration::from_millis(5), interval: Duration::from_millis(100) };

    /// Applies a delay in milliseconds; returns whether calls are refused.
    fn shed(guard: &mut DelayGuard, delay: Option<u64>, at: u64) -> bool {
        let now = Instant::from_nanoseconds(1_000_000 * at);
        let before = guard.is_shedding();
        let has_changed = guard.update(&RULES, delay.map(Duration::from_millis), now);
        assert_eq!(has_changed, before != guard.is_shedding());
        guard.is_shedding()
    }

    #[test]
    fn calls_are_refused_after_an_interval_of_delay() {
        let mut guard = DelayGuard::default();
        assert!(!shed(&mut guard, Some(6), 10));
        assert!(!shed(&mut guard, Some(50), 109));
        assert!(shed(&mut guard, Some(60), 110));
        assert!(shed(&mut guard, Some(6), 111));
        assert!(!shed(&mut guard, Some(5), 112));
        assert!(!shed(&mut guard, Some(6), 113));
    }

    #[test]
    fn short_delay_or_empty_queue_begins_anew() {
        for short in [None, Some(0), Some(5)] {
            let mut guard = DelayGuard::default();
            assert!(!shed(&mut guard, Some(6), 0));
            assert!(!shed(&mut guard, short, 99));
            assert!(!shed(&mut guard, Some(6), 100));
            assert!(!shed(&mut guard, Some(6), 199));
            assert!(shed(&mut guard, Some(6), 200));
        }
    }
}
