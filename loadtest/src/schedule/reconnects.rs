//! When connections are replaced: one by one (churn) and many at once (storm).
//!
//! Invariants: a replacement is due at its planned time, independently of earlier ones; times never
//! decrease; the shares of all load threads add up to the whole.

use std::iter::Peekable;
use std::time::Duration;

use corelane_base::time::Instant;

use super::arrivals::{ArrivalPattern, Arrivals, Share};
use super::profile::RateProfile;

/// Why a connection is closed and opened again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ReconnectReason {
    /// Replacement at a constant rate.
    Churn,
    /// Many replacements at once.
    Storm,
    /// The user of the connection left.
    Leave,
}

/// Many connections that are replaced at once, one time or periodically.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ReconnectStorm {
    /// Time of the first storm, from the beginning of the run.
    pub at: Duration,
    /// Interval between storms; `None` for a single one.
    pub interval: Option<Duration>,
    /// Number of connections, over all load threads.
    pub connections: usize,
}

/// Connections that are due for replacement.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct DueReconnect {
    /// Planned time.
    pub at: Instant,
    /// Reason.
    pub reason: ReconnectReason,
    /// Number of connections.
    pub connections: usize,
}

/// The replacements of one load thread, in order.
#[derive(Clone, Debug)]
pub struct ReconnectSchedule {
    churn: Peekable<Arrivals>,
    next_storm: Option<DueReconnect>,
    storm_interval: Option<Duration>,
    end: Instant,
}

impl ReconnectSchedule {
    /// Creates the replacements of a share: `rate` per second from `begin` on for `span`, and
    /// storms.
    pub fn new(
        (rate, storm): (f64, Option<ReconnectStorm>),
        share: Share,
        (begin, span): (Instant, Duration),
    ) -> Self {
        let profile = RateProfile::constant(rate, span);
        let end = begin.after(span);
        let first = |storm: ReconnectStorm| DueReconnect {
            at: begin.after(storm.at),
            reason: ReconnectReason::Storm,
            connections: share.part(storm.connections),
        };
        Self {
            churn: Arrivals::new(profile, ArrivalPattern::Constant, share, 0, begin).peekable(),
            next_storm: storm.map(first).filter(|due| due.at < end),
            storm_interval: storm.and_then(|storm| storm.interval).filter(|every| !every.is_zero()),
            end,
        }
    }

    /// Returns when the next replacement is due.
    pub fn next_at(&mut self) -> Option<Instant> {
        let (churn, storm) = (self.churn.peek().copied(), self.next_storm.map(|due| due.at));
        churn.into_iter().chain(storm).min()
    }

    /// Takes the next replacement that is due at or before `now`.
    pub fn take_due(&mut self, now: Instant) -> Option<DueReconnect> {
        let churn = self.churn.peek().copied();
        if let Some(due) = self.next_storm
            && due.at <= now
            && churn.is_none_or(|churn| due.at < churn)
        {
            let next =
                self.storm_interval.map(|every| DueReconnect { at: due.at.after(every), ..due });
            self.next_storm = next.filter(|next| next.at < self.end);
            return Some(due);
        }
        let at = self.churn.next_if(|at| *at <= now)?;
        Some(DueReconnect { at, reason: ReconnectReason::Churn, connections: 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(10);
    const BEGIN: Instant = Instant::from_milliseconds(7);

    fn seconds(seconds: u64) -> Instant {
        BEGIN.after(Duration::from_secs(seconds))
    }

    fn all(mut schedule: ReconnectSchedule) -> Vec<DueReconnect> {
        let mut all = Vec::new();
        while let Some(at) = schedule.next_at() {
            assert_eq!(schedule.take_due(at.before()), None, "due early");
            all.push(schedule.take_due(at).unwrap());
        }
        all
    }

    trait Before {
        fn before(self) -> Self;
    }

    impl Before for Instant {
        fn before(self) -> Self {
            Self::from_nanoseconds(self.nanoseconds() - 1)
        }
    }

    fn storm(every: Option<u64>) -> ReconnectStorm {
        ReconnectStorm {
            at: Duration::from_secs(3),
            interval: every.map(Duration::from_secs),
            connections: 5,
        }
    }

    #[test]
    fn churn_replaces_one_connection_at_a_time() {
        let all = all(ReconnectSchedule::new((2.0, None), Share::WHOLE, (BEGIN, SPAN)));
        assert_eq!(all.len(), 20);
        assert!(all.iter().all(|due| due.connections == 1 && due.reason == ReconnectReason::Churn));
        assert_eq!((all[0].at, all[2].at), (seconds(0), seconds(1)));
    }

    #[test]
    fn storm_repeats_until_end_of_run() {
        let storms = |every| {
            let schedule =
                ReconnectSchedule::new((0.0, Some(storm(every))), Share::WHOLE, (BEGIN, SPAN));
            all(schedule).iter().map(|due| due.at).collect::<Vec<_>>()
        };
        assert_eq!(storms(None), [seconds(3)]);
        assert_eq!(storms(Some(4)), [seconds(3), seconds(7)]);
        let late = ReconnectStorm { at: SPAN, ..storm(None) };
        assert!(
            all(ReconnectSchedule::new((0.0, Some(late)), Share::WHOLE, (BEGIN, SPAN))).is_empty()
        );
    }

    #[test]
    fn reconnect_shares_add_up_to_whole() {
        let share = |thread| {
            let share = Share { thread, threads: 2 };
            all(ReconnectSchedule::new((3.0, Some(storm(None))), share, (BEGIN, SPAN)))
        };
        let count = |all: &[DueReconnect]| all.iter().map(|due| due.connections).sum::<usize>();
        assert_eq!(count(&share(0)) + count(&share(1)), 30 + 5);
        let together =
            all(ReconnectSchedule::new((3.0, Some(storm(None))), Share::WHOLE, (BEGIN, SPAN)));
        assert!(together.windows(2).all(|pair| pair[0].at <= pair[1].at));
    }

    #[test]
    fn late_reconnect_has_its_planned_time() {
        let mut schedule =
            ReconnectSchedule::new((1.0, Some(storm(None))), Share::WHOLE, (BEGIN, SPAN));
        let mut taken = Vec::new();
        while let Some(due) = schedule.take_due(seconds(9)) {
            taken.push((due.at, due.connections));
        }
        assert_eq!(taken.len(), 11);
        assert_eq!((taken[0], taken[10]), ((seconds(0), 1), (seconds(9), 1)));
        assert!(taken.contains(&(seconds(3), 5)) && taken.is_sorted_by_key(|(at, _)| *at));
    }
}
