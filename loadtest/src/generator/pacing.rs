//! When connections may be begun: at a rate, or at any time.
//!
//! What it keeps true: the shares of all workers interlock, so that together they keep the rate;
//! what could not be begun for a while is made up for only in part, so that a pause is not followed
//! by a storm.

use std::time::Duration;

use corelane::base::time::Moment;

use crate::schedule::Share;

/// How far behind its rate a worker may be before what it missed is let go.
const BEHIND_MAX: Duration = Duration::from_millis(100);

/// The moments at which one worker may begin connections.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacing {
    /// From one of its connections to the next; none where they are not paced.
    gap: Option<Duration>,
    next: Moment,
}

impl Pacing {
    /// The share of `rate` connections a second, of which the first of all may begin at `begin`.
    pub(super) fn new(rate: Option<f64>, share: Share, begin: Moment) -> Self {
        // A rate that has no gap is no bound.
        let gap = rate.and_then(|rate| Duration::try_from_secs_f64(1.0 / rate).ok());
        let first = gap.map_or(Duration::ZERO, |gap| gap.saturating_mul(share.worker));
        let gap = gap.map(|gap| gap.saturating_mul(share.workers.max(1)));
        Self { gap, next: begin.after(first) }
    }

    /// Whether a connection may be begun; if so it is taken for begun.
    pub(super) fn take(&mut self, now: Moment) -> bool {
        let Some(gap) = self.gap else { return true };
        if self.next > now {
            return false;
        }
        let behind = now.since(self.next).saturating_sub(BEHIND_MAX);
        self.next = self.next.after(behind).after(gap);
        true
    }

    /// When the next may be begun; none where it may at any time.
    pub(super) fn next(&self) -> Option<Moment> {
        self.gap.map(|_| self.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Moment = Moment::from_milliseconds(1_000);

    /// How many are begun when this many milliseconds have gone by.
    fn begun(pacing: &mut Pacing, milliseconds: u64) -> usize {
        let now = BEGIN.after(Duration::from_millis(milliseconds));
        std::iter::repeat_with(|| pacing.take(now)).take(1_000).take_while(|may| *may).count()
    }

    #[test]
    fn without_a_rate_they_begin_at_any_time() {
        let mut pacing = Pacing::new(None, Share::WHOLE, BEGIN);
        assert_eq!(begun(&mut pacing, 0), 1_000);
        assert_eq!(pacing.next(), None);
    }

    #[test]
    fn a_rate_is_kept_however_often_it_is_looked_at() {
        let mut pacing = Pacing::new(Some(100.0), Share::WHOLE, BEGIN);
        assert_eq!((begun(&mut pacing, 0), begun(&mut pacing, 9)), (1, 0));
        assert_eq!(pacing.next(), Some(BEGIN.after(Duration::from_millis(10))));
        assert_eq!((begun(&mut pacing, 10), begun(&mut pacing, 35)), (1, 2));
        assert_eq!((begun(&mut pacing, 50), begun(&mut pacing, 120)), (2, 7));
    }

    #[test]
    fn the_shares_of_workers_interlock() {
        let share = |worker| Share { worker, workers: 4 };
        let pacing = |worker| Pacing::new(Some(1_000.0), share(worker), BEGIN);
        let mut all = [pacing(0), pacing(1), pacing(2), pacing(3)];
        for (milliseconds, wanted) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (12, 8), (99, 87)] {
            let sum: usize = all.iter_mut().map(|pacing| begun(pacing, milliseconds)).sum();
            assert_eq!(sum, wanted, "after {milliseconds} ms");
        }
    }

    #[test]
    fn a_pause_is_made_up_for_in_part() {
        let mut pacing = Pacing::new(Some(100.0), Share::WHOLE, BEGIN);
        assert_eq!(begun(&mut pacing, 60_000), 11);
        assert_eq!(begun(&mut pacing, 60_005), 0);
        assert_eq!(begun(&mut pacing, 60_010), 1);
    }

    #[test]
    fn rates_at_the_edge_of_what_can_be_said_do_no_harm() {
        let mut slow = Pacing::new(Some(f64::MIN_POSITIVE), Share::WHOLE, BEGIN);
        assert_eq!(begun(&mut slow, 0), 1_000);
        let mut fast = Pacing::new(Some(f64::MAX), Share::WHOLE, BEGIN);
        assert_eq!(begun(&mut fast, 1), 1_000);
    }
}
