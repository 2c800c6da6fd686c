//! Users of a scenario that arrive at a rate, and the free places of a load thread.
//!
//! Invariants: every arrival takes a free place, or waits in order until one is free; it is never
//! dropped, except that those of the warm-up that wait at its end are.

use std::collections::VecDeque;
use std::fmt;
use std::iter::Peekable;

use corelane_base::time::Instant;

use crate::schedule::{ArrivalPattern, Arrivals, RateProfile, Share};

/// Arrivals that wait for a free place at most; further ones are only counted. Each takes 8 bytes.
const WAITING_MAX: usize = 1_000_000;

/// Which arrivals of a scenario a load thread serves: those of its own places in turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrivalShare {
    /// Number of the first place of the scenario, over all load threads.
    pub(super) first: usize,
    /// Places of the scenario, over all load threads.
    pub(super) places: usize,
    /// The load thread.
    pub(super) share: Share,
}

impl ArrivalShare {
    fn includes(self, arrival: usize) -> bool {
        let place = self.first + arrival % self.places.max(1);
        place % self.share.threads.max(1) as usize == self.share.thread as usize
    }
}

/// When users arrive.
#[derive(Clone, Debug)]
pub(super) struct ArrivalTimes {
    pub(super) profile: RateProfile,
    pub(super) pattern: ArrivalPattern,
    pub(super) seed: u64,
    /// Begin of the run.
    pub(super) begin: Instant,
    /// End of the run: users that arrive then or later do not come.
    pub(super) end: Instant,
    /// End of the warm-up.
    pub(super) measured_from: Instant,
}

/// Arrivals so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct ArrivalCounts {
    /// Users that arrived.
    pub(super) arrived: u64,
    /// Users that arrived and took a place.
    pub(super) placed: u64,
}

/// The arrivals of one scenario at one load thread.
pub(super) struct UserArrivals {
    planned: Peekable<Box<dyn Iterator<Item = Instant> + Send>>,
    /// Users without a place.
    waiting: VecDeque<Instant>,
    /// Users without a place beyond those that wait.
    uncounted: u64,
    /// Free places, longest free first.
    free: VecDeque<u32>,
    counts: ArrivalCounts,
    measured_from: Instant,
}

/// An arrival that is due.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Arrival {
    pub(super) at: Instant,
    /// Its place, if one is free.
    pub(super) place: Option<usize>,
}

impl UserArrivals {
    /// Creates the arrivals of a run; all places are free.
    pub(super) fn new(times: ArrivalTimes, share: ArrivalShare, free: VecDeque<u32>) -> Self {
        let ArrivalTimes { profile, pattern, seed, begin, end, measured_from } = times;
        // All load threads draw the same times.
        let all = Arrivals::new(profile, pattern, Share::WHOLE, seed, begin);
        let own = all.take_while(move |at| *at < end).enumerate();
        let own = own.filter(move |(number, _)| share.includes(*number)).map(|(_, at)| at);
        let own: Box<dyn Iterator<Item = Instant> + Send> = Box::new(own);
        Self {
            planned: own.peekable(),
            waiting: VecDeque::new(),
            uncounted: 0,
            free,
            counts: ArrivalCounts::default(),
            measured_from,
        }
    }

    /// Returns when the next user arrives.
    pub(super) fn next_at(&mut self) -> Option<Instant> {
        self.planned.peek().copied()
    }

    /// Takes the next arrival, if it is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Arrival> {
        let at = self.planned.next_if(|at| *at <= now)?;
        if at >= self.measured_from {
            self.drop_warm_up();
        }
        self.counts.arrived += 1;
        let place = self.free.pop_front();
        if place.is_some() {
            self.counts.placed += 1;
        } else if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(at);
        } else {
            self.uncounted += u64::from(at >= self.measured_from);
        }
        Some(Arrival { at, place: place.map(|place| place as usize) })
    }

    /// Drops users of the warm-up that wait when it is over.
    fn drop_warm_up(&mut self) {
        while self.waiting.front().is_some_and(|at| *at < self.measured_from) {
            self.waiting.pop_front();
            self.counts.placed += 1;
        }
    }

    /// Gives a place that is free to the user that has waited longest; returns when that arrived,
    /// or `None` if none waits.
    pub(super) fn give_place(&mut self, index: usize, now: Instant) -> Option<Instant> {
        if now >= self.measured_from {
            self.drop_warm_up();
        }
        let at = self.waiting.pop_front();
        if at.is_some() {
            self.counts.placed += 1;
        } else {
            self.free.push_back(u32::try_from(index).unwrap_or(u32::MAX));
        }
        at
    }

    /// Returns the arrivals so far. Users of the warm-up that wait count as placed.
    pub(super) fn counts(&self) -> ArrivalCounts {
        let early = self.waiting.iter().take_while(|at| **at < self.measured_from).count() as u64;
        ArrivalCounts { placed: self.counts.placed + early, ..self.counts }
    }

    /// Ends the arrivals at `now`; returns those that were due and have no place: how many of them
    /// waited, and the times of those that were not taken so far.
    pub(super) fn stop(&mut self, now: Instant) -> (u64, Vec<Instant>) {
        let from = self.measured_from;
        let waiting = self.waiting.drain(..).filter(|at| *at >= from).count() as u64;
        let mut unseen = Vec::new();
        while let Some(at) = self.planned.next_if(|at| *at <= now) {
            unseen.extend(Some(at).filter(|at| *at >= from));
        }
        let none: Box<dyn Iterator<Item = Instant> + Send> = Box::new(std::iter::empty());
        self.planned = none.peekable();
        (waiting + std::mem::take(&mut self.uncounted), unseen)
    }
}

impl fmt::Debug for UserArrivals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = (self.waiting.len(), self.free.len(), self.counts);
        write!(formatter, "UserArrivals({counts:?})")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const AT: fn(u64) -> Instant = Instant::from_milliseconds;

    /// Returns the arrivals of 10 users a second for 1 s at one of `threads`, with these places.
    fn arrivals(thread: u32, threads: u32, first: usize, free: &[u32]) -> UserArrivals {
        let times = ArrivalTimes {
            profile: RateProfile::constant(10.0, Duration::from_secs(2)),
            pattern: ArrivalPattern::Constant,
            seed: 1,
            begin: AT(0),
            end: AT(1_000),
            measured_from: AT(300),
        };
        let share = ArrivalShare { first, places: 3, share: Share { thread, threads } };
        UserArrivals::new(times, share, free.iter().copied().collect())
    }

    /// Takes all that are due, as milliseconds and places.
    fn take(arrivals: &mut UserArrivals, now: u64) -> Vec<(u64, Option<usize>)> {
        let due = std::iter::from_fn(|| arrivals.take_due(AT(now)));
        due.map(|Arrival { at, place }| (at.milliseconds(), place)).collect()
    }

    #[test]
    fn threads_share_arrivals_by_their_places() {
        // Of the places 1, 2 and 3 thread 0 of 2 has the second.
        let of_thread = |thread| take(&mut arrivals(thread, 2, 1, &[]), 999);
        let mut all = vec![of_thread(0), of_thread(1)];
        assert_eq!([all[0].len(), all[1].len()], [3, 7]);
        let mut together = all.remove(0);
        together.extend(all.remove(0));
        together.sort_unstable();
        let whole = (0..10).map(|number| (number * 100, None)).collect::<Vec<_>>();
        assert_eq!(together, whole);
    }

    #[test]
    fn arrivals_wait_in_order_for_places() {
        let mut all = arrivals(0, 1, 0, &[7]);
        assert_eq!(take(&mut all, 250), [(0, Some(7)), (100, None), (200, None)]);
        assert_eq!(all.give_place(7, AT(260)), Some(AT(100)));
        // That of 200 ms is dropped at the end of the warm-up.
        assert_eq!(take(&mut all, 500), [(300, None), (400, None), (500, None)]);
        assert_eq!(all.give_place(7, AT(510)), Some(AT(300)));
        assert_eq!(all.counts(), ArrivalCounts { arrived: 6, placed: 4 });
        assert_eq!(all.stop(AT(700)), (2, vec![AT(600), AT(700)]));
        assert_eq!((all.next_at(), all.stop(AT(900))), (None, (0, Vec::new())));
    }
}
