//! Ids of requests that timed out, to recognize their late answers.
//!
//! Invariants: takes a bounded amount of memory, however many requests time out; the id of a
//! request that timed out is recognized until its answer arrives.

use std::collections::VecDeque;

/// Ranges that are kept. Beyond that the two oldest are merged: a second answer to a request
/// between them then counts as late instead of unsolicited.
const RANGES_MAX: usize = 16;

/// Ids of requests that timed out and were not answered yet.
#[derive(Debug, Default)]
pub(super) struct TimedOutIds {
    /// Oldest first.
    ranges: VecDeque<IdRange>,
}

/// Consecutive ids, both included.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct IdRange {
    first: u64,
    last: u64,
}

impl TimedOutIds {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds the id of the latest request that timed out.
    pub(super) fn add(&mut self, id: u64) {
        match self.ranges.back_mut() {
            Some(range) if range.last + 1 == id => range.last = id,
            _ => self.ranges.push_back(IdRange { first: id, last: id }),
        }
        self.merge_oldest();
    }

    pub(super) fn contains(&self, id: u64) -> bool {
        self.ranges.iter().any(|range| (range.first..=range.last).contains(&id))
    }

    /// Removes the id of a request that was answered; returns whether it had timed out.
    pub(super) fn remove(&mut self, id: u64) -> bool {
        let found = self.ranges.iter().position(|range| (range.first..=range.last).contains(&id));
        let Some(place) = found else { return false };
        let IdRange { first, last } = self.ranges[place];
        match (first == id, last == id) {
            (true, true) => drop(self.ranges.remove(place)),
            (true, false) => self.ranges[place].first = id + 1,
            (false, true) => self.ranges[place].last = id - 1,
            (false, false) => {
                self.ranges[place].last = id - 1;
                self.ranges.insert(place + 1, IdRange { first: id + 1, last });
                self.merge_oldest();
            }
        }
        true
    }

    fn merge_oldest(&mut self) {
        if self.ranges.len() > RANGES_MAX
            && let Some(oldest) = self.ranges.pop_front()
            && let Some(next) = self.ranges.front_mut()
            // Ids that wrapped around are no continuation.
            && oldest.first < next.first
        {
            next.first = oldest.first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timed_out_id_is_recognized_once() {
        let mut ids = TimedOutIds::default();
        for id in [3, 4, 5, 6, 9] {
            ids.add(id);
        }
        assert_eq!(ids.ranges.len(), 2);
        for (id, is_late) in
            [(5, true), (5, false), (8, false), (3, true), (6, true), (4, true), (9, true)]
        {
            assert_eq!(ids.remove(id), is_late, "{id}");
        }
        assert!(ids.is_empty());
    }

    #[test]
    fn timed_out_ids_take_bounded_memory() {
        let mut ids = TimedOutIds::default();
        (0..10_000).for_each(|number| ids.add(2 * number));
        assert_eq!(ids.ranges.len(), RANGES_MAX);
        for id in (0..10_000).map(|number| 2 * number) {
            assert!(ids.remove(id), "{id}");
            assert!(ids.ranges.len() <= RANGES_MAX);
        }
    }
}
