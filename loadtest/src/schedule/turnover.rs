//! When connections are to be replaced: one by one, and many at once.
//!
//! What it keeps true: a replacement is due at its moment, whatever became of the one before;
//! moments never go back; the shares of all workers together are the whole.

use std::iter::Peekable;
use std::time::Duration;

use corelane::base::time::Moment;

use super::arrivals::{Arrivals, Pace, Share};
use super::profile::Profile;

/// Why a connection is closed and opened again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Occasion {
    /// Connections are replaced at a rate.
    Churn,
    /// Many are replaced at once.
    Storm,
}

/// Connections that are replaced at once, once or again and again.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Storm {
    /// When, from the beginning of the run.
    pub at: Duration,
    /// How long after it the next comes; none where it is the only one.
    pub every: Option<Duration>,
    /// How many connections, of all workers together.
    pub connections: usize,
}

/// Connections that are to be replaced now.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Due {
    /// When they were to be replaced.
    pub at: Moment,
    /// Why.
    pub occasion: Occasion,
    /// How many.
    pub connections: usize,
}

/// The replacements of one worker, one after the other.
#[derive(Clone, Debug)]
pub struct Turnover {
    churn: Peekable<Arrivals>,
    storm: Option<Due>,
    every: Option<Duration>,
    end: Moment,
}

impl Turnover {
    /// The replacements of a share: `rate` a second from `begin` on for so long, and storms.
    pub fn new(
        (rate, storm): (f64, Option<Storm>),
        share: Share,
        (begin, span): (Moment, Duration),
    ) -> Self {
        let profile = Profile::constant(rate, span);
        let end = begin.after(span);
        let first = |storm: Storm| Due {
            at: begin.after(storm.at),
            occasion: Occasion::Storm,
            connections: share.part(storm.connections),
        };
        Self {
            churn: Arrivals::new(profile, Pace::Constant, share, 0, begin).peekable(),
            storm: storm.map(first).filter(|due| due.at < end),
            every: storm.and_then(|storm| storm.every).filter(|every| !every.is_zero()),
            end,
        }
    }

    /// When the next replacement is due.
    pub fn next_at(&mut self) -> Option<Moment> {
        let (churn, storm) = (self.churn.peek().copied(), self.storm.map(|due| due.at));
        churn.into_iter().chain(storm).min()
    }

    /// What is due at `now`, or was due before it and has not been taken.
    pub fn take(&mut self, now: Moment) -> Option<Due> {
        let churn = self.churn.peek().copied();
        if let Some(due) = self.storm
            && due.at <= now
            && churn.is_none_or(|churn| due.at < churn)
        {
            let next = self.every.map(|every| Due { at: due.at.after(every), ..due });
            self.storm = next.filter(|next| next.at < self.end);
            return Some(due);
        }
        let at = self.churn.next_if(|at| *at <= now)?;
        Some(Due { at, occasion: Occasion::Churn, connections: 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Duration = Duration::from_secs(10);
    const BEGIN: Moment = Moment::from_milliseconds(7);

    fn seconds(seconds: u64) -> Moment {
        BEGIN.after(Duration::from_secs(seconds))
    }

    fn all(mut turnover: Turnover) -> Vec<Due> {
        let mut all = Vec::new();
        while let Some(at) = turnover.next_at() {
            assert_eq!(turnover.take(at.before()), None, "nothing is due early");
            all.push(turnover.take(at).unwrap());
        }
        all
    }

    /// A moment just before another.
    trait Before {
        fn before(self) -> Self;
    }

    impl Before for Moment {
        fn before(self) -> Self {
            Self::from_nanoseconds(self.nanoseconds() - 1)
        }
    }

    fn storm(every: Option<u64>) -> Storm {
        Storm { at: Duration::from_secs(3), every: every.map(Duration::from_secs), connections: 5 }
    }

    #[test]
    fn a_rate_replaces_one_at_a_time_and_so_many_in_all() {
        let all = all(Turnover::new((2.0, None), Share::WHOLE, (BEGIN, SPAN)));
        assert_eq!(all.len(), 20);
        assert!(all.iter().all(|due| due.connections == 1 && due.occasion == Occasion::Churn));
        assert_eq!((all[0].at, all[2].at), (seconds(0), seconds(1)));
    }

    #[test]
    fn a_storm_comes_once_or_again_and_again_until_the_end() {
        let storms = |every| {
            let turnover = Turnover::new((0.0, Some(storm(every))), Share::WHOLE, (BEGIN, SPAN));
            all(turnover).iter().map(|due| due.at).collect::<Vec<_>>()
        };
        assert_eq!(storms(None), [seconds(3)]);
        assert_eq!(storms(Some(4)), [seconds(3), seconds(7)]);
        let late = Storm { at: SPAN, ..storm(None) };
        assert!(all(Turnover::new((0.0, Some(late)), Share::WHOLE, (BEGIN, SPAN))).is_empty());
    }

    #[test]
    fn the_shares_of_all_workers_are_the_whole() {
        let share = |worker| {
            let share = Share { worker, workers: 2 };
            all(Turnover::new((3.0, Some(storm(None))), share, (BEGIN, SPAN)))
        };
        let count = |all: &[Due]| all.iter().map(|due| due.connections).sum::<usize>();
        assert_eq!(count(&share(0)) + count(&share(1)), 30 + 5);
        let together = all(Turnover::new((3.0, Some(storm(None))), Share::WHOLE, (BEGIN, SPAN)));
        assert!(together.windows(2).all(|pair| pair[0].at <= pair[1].at));
    }

    #[test]
    fn what_was_not_taken_in_time_is_due_with_its_own_moment() {
        let mut turnover = Turnover::new((1.0, Some(storm(None))), Share::WHOLE, (BEGIN, SPAN));
        let mut taken = Vec::new();
        while let Some(due) = turnover.take(seconds(9)) {
            taken.push((due.at, due.connections));
        }
        assert_eq!(taken.len(), 11);
        assert_eq!((taken[0], taken[10]), ((seconds(0), 1), (seconds(9), 1)));
        assert!(taken.contains(&(seconds(3), 5)) && taken.is_sorted_by_key(|(at, _)| *at));
    }
}
