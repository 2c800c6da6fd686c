//! A counter that all shards share.
//!
//! Invariant: [`SharedCounter::try_acquire`] never exceeds its limit. Updated when connections and
//! the like are opened and closed, not per request.

use super::sync::{AtomicUsize, Ordering};

/// A count over all shards, such as open connections.
#[derive(Debug)]
pub struct SharedCounter {
    count: AtomicUsize,
}

impl Default for SharedCounter {
    fn default() -> Self {
        Self { count: AtomicUsize::new(0) }
    }
}

impl SharedCounter {
    /// Increments the count unless it has reached `max`; returns whether it did.
    pub fn try_acquire(&self, max: usize) -> bool {
        // Relaxed: the count guards no other memory.
        let increment = |count| (count < max).then_some(count + 1);
        self.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, increment).is_ok()
    }

    /// Increments the count without a limit and returns the new count.
    pub fn acquire(&self) -> usize {
        self.count.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Decrements the count, which was incremented before.
    pub fn release(&self) {
        let before = self.count.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(before > 0, "released more often than acquired");
    }

    /// Replaces one contribution, `before`, with `now`, without a limit.
    pub fn adjust(&self, before: usize, now: usize) {
        // Wraps if `now < before`; the sum is correct modulo 2^N.
        self.count.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }

    /// Returns the count, which other threads may have changed since.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn released_count_can_be_acquired_again() {
        let counter = SharedCounter::default();
        assert!(counter.try_acquire(2) && counter.try_acquire(2));
        assert!(!counter.try_acquire(2));
        counter.release();
        assert!(counter.try_acquire(2));
        assert_eq!(counter.count(), 2);
    }

    #[test]
    fn adjusted_contributions_change_the_sum() {
        let counter = SharedCounter::default();
        for (before, now, sum) in [(0, 7, 7), (0, 2, 9), (7, 3, 5), (3, 3, 5), (2, 0, 3)] {
            counter.adjust(before, now);
            assert_eq!(counter.count(), sum);
        }
    }
}
