//! Rate limit of new connections.
//!
//! Invariants: the shares of all load threads interleave and together keep the rate. A backlog is
//! made up for only in part, so that a pause is not followed by a connect storm.

use std::time::Duration;

use corelane_base::time::Instant;

use crate::schedule::Share;

/// Backlog that is made up for; anything older is dropped.
const CATCH_UP_MAX: Duration = Duration::from_millis(100);

/// Times at which one load thread may start a connect.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectRate {
    /// Interval between connects of this thread; `None` for no limit.
    interval: Option<Duration>,
    next_at: Instant,
}

impl ConnectRate {
    /// Creates this share of `rate` connects per second; the first of all starts at `begin`.
    pub(super) fn new(rate: Option<f64>, share: Share, begin: Instant) -> Self {
        // A rate too high or too low to have an interval is no limit.
        let gap = rate.and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok());
        let first = gap.map_or(Duration::ZERO, |gap| gap.saturating_mul(share.thread));
        let interval = gap.map(|gap| gap.saturating_mul(share.threads.max(1)));
        Self { interval, next_at: begin.after(first) }
    }

    /// Returns whether a connect may start now, and counts it as started.
    pub(super) fn try_start(&mut self, now: Instant) -> bool {
        let Some(gap) = self.interval else { return true };
        if self.next_at > now {
            return false;
        }
        let behind = now.since(self.next_at).saturating_sub(CATCH_UP_MAX);
        self.next_at = self.next_at.after(behind).after(gap);
        true
    }

    /// Returns when the next connect may start, or `None` if there is no limit.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.interval.map(|_| self.next_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Instant = Instant::from_milliseconds(1_000);

    /// Returns how many connects start at this time.
    fn started(pacing: &mut ConnectRate, milliseconds: u64) -> usize {
        let now = BEGIN.after(Duration::from_millis(milliseconds));
        std::iter::repeat_with(|| pacing.try_start(now)).take(1_000).take_while(|may| *may).count()
    }

    #[test]
    fn connect_without_rate_is_unlimited() {
        let mut pacing = ConnectRate::new(None, Share::WHOLE, BEGIN);
        assert_eq!(started(&mut pacing, 0), 1_000);
        assert_eq!(pacing.next_at(), None);
    }

    #[test]
    fn connect_rate_holds_however_often_polled() {
        let mut pacing = ConnectRate::new(Some(100.0), Share::WHOLE, BEGIN);
        assert_eq!((started(&mut pacing, 0), started(&mut pacing, 9)), (1, 0));
        assert_eq!(pacing.next_at(), Some(BEGIN.after(Duration::from_millis(10))));
        assert_eq!((started(&mut pacing, 10), started(&mut pacing, 35)), (1, 2));
        assert_eq!((started(&mut pacing, 50), started(&mut pacing, 120)), (2, 7));
    }

    #[test]
    fn connect_rate_shares_interleave() {
        let share = |thread| Share { thread, threads: 4 };
        let pacing = |thread| ConnectRate::new(Some(1_000.0), share(thread), BEGIN);
        let mut all = [pacing(0), pacing(1), pacing(2), pacing(3)];
        for (milliseconds, wanted) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (12, 8), (99, 87)] {
            let sum: usize = all.iter_mut().map(|pacing| started(pacing, milliseconds)).sum();
            assert_eq!(sum, wanted, "after {milliseconds} ms");
        }
    }

    #[test]
    fn connect_backlog_is_made_up_in_part() {
        let mut pacing = ConnectRate::new(Some(100.0), Share::WHOLE, BEGIN);
        assert_eq!(started(&mut pacing, 60_000), 11);
        assert_eq!(started(&mut pacing, 60_005), 0);
        assert_eq!(started(&mut pacing, 60_010), 1);
    }

    #[test]
    fn connect_rate_extremes_are_unlimited() {
        let mut slow = ConnectRate::new(Some(f64::MIN_POSITIVE), Share::WHOLE, BEGIN);
        assert_eq!(started(&mut slow, 0), 1_000);
        let mut fast = ConnectRate::new(Some(f64::MAX), Share::WHOLE, BEGIN);
        assert_eq!(started(&mut fast, 1), 1_000);
    }
}
