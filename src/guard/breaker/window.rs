//! Numbers of calls in a sliding window of time.

use std::time::Duration;

use corelane_base::time::Instant;

/// Parts of a window; the oldest is dropped as a whole.
const PARTS: u8 = 10;

/// Calls in a window, by part.
#[derive(Clone, Debug, Default)]
pub(super) struct CallWindow {
    parts: [CallTotals; PARTS as usize],
    totals: CallTotals,
    /// The part that calls are added to.
    current: usize,
    /// When the next part begins.
    ends: Instant,
}

/// Numbers of calls.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CallTotals {
    pub(super) calls: u32,
    pub(super) failed: u32,
    pub(super) slow: u32,
}

impl CallTotals {
    /// Returns whether a call has failed or was slow.
    #[inline]
    pub(super) const fn has_bad_calls(self) -> bool {
        self.failed | self.slow != 0
    }

    /// Returns whether `part` of the calls is at least `percent`; `false` at 0 percent.
    #[inline]
    pub(super) const fn is_share(self, part: u32, percent: u8) -> bool {
        percent > 0 && part as u64 * 100 >= self.calls as u64 * percent as u64
    }
}

impl CallWindow {
    /// Adds a call that has ended; returns the totals of the window.
    #[inline]
    pub(super) fn add(
        &mut self,
        window: Duration,
        (is_failed, is_slow): (bool, bool),
        now: Instant,
    ) -> CallTotals {
        if now >= self.ends {
            self.advance(window, now);
        }
        for totals in [&mut self.parts[self.current], &mut self.totals] {
            totals.calls = totals.calls.saturating_add(1);
            if is_failed || is_slow {
                totals.failed = totals.failed.saturating_add(is_failed.into());
                totals.slow = totals.slow.saturating_add(is_slow.into());
            }
        }
        self.totals
    }

    /// Forgets all calls.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Begins the part of `now`; drops those that are older than the window.
    #[cold]
    fn advance(&mut self, window: Duration, now: Instant) {
        let part = (window / u32::from(PARTS)).max(Duration::from_nanos(1));
        let elapsed = now.since(self.ends).as_nanos() / part.as_nanos();
        let steps = u8::try_from(elapsed).unwrap_or(PARTS).min(PARTS - 1) + 1;
        for _ in 0..steps {
            self.current = (self.current + 1) % usize::from(PARTS);
            self.parts[self.current] = CallTotals::default();
        }
        self.ends = now.after(part);
        self.totals = self.parts.iter().fold(CallTotals::default(), |sum, part| CallTotals {
            calls: sum.calls.saturating_add(part.calls),
            failed: sum.failed.saturating_add(part.failed),
            slow: sum.slow.saturating_add(part.slow),
        });
    }
}
