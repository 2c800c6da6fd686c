//! A count that all shards share: how many places of a bounded number are taken.
//!
//! What it keeps true: at most the bound is taken at any time, whoever asks. It is touched when a
//! connection comes and goes or something else of its kind does, never on the road.

use super::sync::{AtomicUsize, Ordering};

/// Places taken, over all shards.
#[derive(Debug)]
pub struct Tally {
    taken: AtomicUsize,
}

impl Default for Tally {
    fn default() -> Self {
        Self { taken: AtomicUsize::new(0) }
    }
}

impl Tally {
    /// Takes one of `places_max` places; `false` where none is free.
    pub fn try_take(&self, places_max: usize) -> bool {
        // Relaxed: the count guards nothing but itself.
        let more = |taken| (taken < places_max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    /// Takes a place, however many are taken, and tells how many are then.
    pub fn take(&self) -> usize {
        self.taken.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Gives a place back that [`Tally::try_take`] took.
    pub fn give(&self) {
        let before = self.taken.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "a place was given back twice");
    }

    /// Somebody has `now` places who had `before`, however many are taken: for counts without a
    /// bound.
    pub fn recount(&self, before: usize, now: usize) {
        // Wraps where it has fewer than before; the sum over all is right again with that.
        self.taken.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Places taken at this moment.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_was_given_back_can_be_taken_again() {
        let tally = Tally::default();
        assert!(tally.try_take(2) && tally.try_take(2));
        assert!(!tally.try_take(2));
        tally.give();
        assert!(tally.try_take(2));
        assert_eq!(tally.taken(), 2);
    }

    #[test]
    fn whoever_counts_anew_changes_the_sum_by_the_difference() {
        let tally = Tally::default();
        for (before, now, sum) in [(0, 7, 7), (0, 2, 9), (7, 3, 5), (3, 3, 5), (2, 0, 3)] {
            tally.recount(before, now);
            assert_eq!(tally.taken(), sum);
        }
    }
}
