//! Checks of signatures, of which a turn has a limited number, and the requests that wait for one.
//!
//! A request with an unknown token or a proof beyond the limit waits for a later turn, so that
//! those that need no check are answered meanwhile.
//!
//! Invariants: a turn has at most its number of checks; while requests wait, half of them are
//! theirs, so that the first [`WAITING_MAX`] are served within that many turns; a further one does
//! not wait.

use std::collections::VecDeque;

use corelane_base::slab::Key;
use corelane_base::time::Instant;

/// Requests that wait, at most.
const WAITING_MAX: usize = 1_024;

/// The checks of one shard.
#[derive(Debug)]
pub(super) struct TurnChecks {
    per_turn_max: u16,
    /// Number of checks in the turn that began at `turn`.
    taken: u16,
    turn: Instant,
    /// Connections whose request waits, in the order in which they came.
    waiting: VecDeque<Key>,
    /// How many of them are read again in this turn, before anything else.
    resumed: u16,
}

impl TurnChecks {
    pub(super) const fn new(per_turn_max: u16) -> Self {
        let (taken, turn, resumed) = (0, Instant::ORIGIN, 0);
        Self { per_turn_max, taken, turn, waiting: VecDeque::new(), resumed }
    }

    /// Takes a check. Returns `false` if there is none left.
    pub(super) fn take(&mut self, turn: Instant) -> bool {
        self.begin_turn(turn);
        let is_resumed = self.resumed > 0;
        self.resumed = self.resumed.saturating_sub(1);
        let reserved = if is_resumed { 0 } else { self.reserved() };
        let is_left = self.taken.saturating_add(reserved) < self.per_turn_max;
        self.taken += u16::from(is_left);
        is_left
    }

    /// Returns whether one more request may wait.
    pub(super) fn can_wait(&self) -> bool {
        self.waiting.len() < WAITING_MAX
    }

    /// Has the request of a connection wait for a later turn.
    pub(super) fn wait(&mut self, key: Key) {
        if !self.waiting.contains(&key) {
            self.waiting.push_back(key);
        }
    }

    /// Returns whether requests wait.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the connections whose request is read again in the turn that began at `turn`.
    pub(super) fn resume(&mut self, turn: Instant) -> Vec<Key> {
        self.begin_turn(turn);
        let left = self.per_turn_max.saturating_sub(self.taken);
        let count = self.waiting.len().min(left.into());
        let resumed: Vec<Key> = self.waiting.drain(..count).collect();
        self.resumed = u16::try_from(resumed.len()).unwrap_or(u16::MAX);
        resumed
    }

    fn begin_turn(&mut self, turn: Instant) {
        if turn != self.turn {
            (self.turn, self.taken, self.resumed) = (turn, 0, 0);
        }
    }

    /// Returns the checks that are left to requests that wait.
    fn reserved(&self) -> u16 {
        let half = self.per_turn_max.div_ceil(2);
        half.min(u16::try_from(self.waiting.len()).unwrap_or(half))
    }
}

#[cfg(test)]
mod tests {
    use corelane_base::slab::Slab;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_milliseconds(ms)
    }

    fn keys(count: usize) -> Vec<Key> {
        let mut slab = Slab::new(count);
        (0..count).map(|_| slab.insert(()).unwrap()).collect()
    }

    #[test]
    fn turn_has_a_limited_number_of_checks() {
        let mut checks = TurnChecks::new(3);
        let taken = |checks: &mut TurnChecks, ms| {
            [(); 5].map(|()| checks.take(at(ms))).iter().filter(|it| **it).count()
        };
        assert_eq!((taken(&mut checks, 1), taken(&mut checks, 2)), (3, 3));
    }

    #[test]
    fn waiting_requests_are_resumed_in_order() {
        let (mut checks, keys) = (TurnChecks::new(4), keys(6));
        for key in &keys {
            checks.wait(*key);
            checks.wait(*key);
        }
        // New ones get half of the checks.
        assert!(checks.take(at(1)) && checks.take(at(1)));
        assert!(!checks.take(at(1)) && !checks.take(at(1)));
        assert_eq!(checks.resume(at(1)), keys[..2]);
        assert!(checks.take(at(1)) && checks.take(at(1)));
        assert!(!checks.take(at(1)));
        assert_eq!(checks.resume(at(2)), keys[2..]);
        assert!(!checks.has_waiting() && checks.resume(at(2)).is_empty());
    }

    #[test]
    fn only_check_is_for_waiting_request() {
        let (mut checks, keys) = (TurnChecks::new(1), keys(1));
        checks.wait(keys[0]);
        assert!(!checks.take(at(1)));
        assert_eq!(checks.resume(at(1)), keys);
        assert!(checks.take(at(1)));
    }

    #[test]
    fn waiting_requests_are_bounded() {
        let mut checks = TurnChecks::new(1);
        for key in keys(WAITING_MAX) {
            assert!(checks.can_wait());
            checks.wait(key);
        }
        assert!(!checks.can_wait());
    }
}
