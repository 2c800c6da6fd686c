//! What was sent on one stream, so that a client whose connection broke can go on where it stood.
//!
//! What it keeps true: events are counted from 1 in the order in which they were pushed; those that
//! are kept are the newest ones without a gap; their number and their bytes are bounded
//! ([`LogBounds`]), and the oldest go first. An empty log holds no memory. An event that alone is
//! more than a log may hold is kept all the same where there is plenty of room: it may be the
//! answer that its client waits for, and an answer may be as long as it likes.
//!
//! What it does not do: know who reads, or write anything. An event is shared, so that one that
//! goes to many streams is held once.

use std::collections::VecDeque;

use bytes::Bytes;

/// How much of one stream is kept.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct LogBounds {
    /// Events.
    pub(in crate::server) events_max: usize,
    /// Bytes that they hold, each with what it costs to keep it ([`EVENT_BYTES`]). One that is
    /// larger may hold half of the room that is left instead: so every further one finds some.
    pub(in crate::server) bytes_max: usize,
}

/// The events of one stream.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    /// The newest ones, without a gap.
    events: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the newest event; 0 where there was none.
    last: u32,
}

/// What has become of an event.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Entry {
    /// Its number.
    pub(super) number: u32,
    /// Whether it can be replayed.
    pub(super) is_kept: bool,
}

impl EventLog {
    /// Takes in an event. `room` is how many bytes it may hold beyond those that it holds now.
    ///
    /// An event that is too large to be kept leaves nothing behind, because what came before it is
    /// of no use without it. `None` where every number has been given (2³² − 1 events).
    pub(super) fn push(&mut self, text: Bytes, bounds: LogBounds, room: usize) -> Option<Entry> {
        let number = self.last.checked_add(1)?;
        self.last = number;
        let cost = cost(&text);
        let bytes_max = if cost > bounds.bytes_max {
            self.bytes.saturating_add(room / 2)
        } else {
            bounds.bytes_max.min(self.bytes.saturating_add(room))
        };
        let is_kept = cost <= bytes_max && bounds.events_max > 0;
        if is_kept {
            while self.events.len() >= bounds.events_max || self.bytes > bytes_max - cost {
                self.drop_oldest();
            }
            self.events.push_back(text);
            self.bytes += cost;
        } else {
            self.events = VecDeque::new();
            self.bytes = 0;
        }
        Some(Entry { number, is_kept })
    }

    /// The events after number `after` that are kept, the oldest first.
    pub(super) fn replay(&self, after: u32) -> impl Iterator<Item = (u32, &Bytes)> {
        let first = self.first().max(after.saturating_add(1));
        let skipped = (first - self.first()) as usize;
        (first..=u32::MAX).zip(self.events.iter().skip(skipped))
    }

    /// How many events after number `after` are not kept any more.
    pub(super) fn missing(&self, after: u32) -> u32 {
        (self.first() - 1).saturating_sub(after)
    }

    /// The number of the newest event; 0 where there was none.
    pub(super) const fn last(&self) -> u32 {
        self.last
    }

    /// Bytes that its events hold, those of shared ones counted in full.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of the oldest event that is kept, or else of the next one; at least 1.
    fn first(&self) -> u32 {
        let kept = u32::try_from(self.events.len()).unwrap_or(u32::MAX);
        // Saturates after the last event of all, which nothing can follow.
        (self.last - kept).saturating_add(1)
    }

    fn drop_oldest(&mut self) {
        if let Some(text) = self.events.pop_front() {
            self.bytes -= cost(&text);
        }
    }
}

/// Bytes that an event holds.
pub(super) fn cost(text: &Bytes) -> usize {
    text.len().saturating_add(EVENT_BYTES)
}

/// What it costs to keep an event, its text not counted: its place, which may be in half of a table
/// that has just doubled.
pub(super) const EVENT_BYTES: usize = 2 * size_of::<Bytes>();

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: LogBounds = LogBounds { events_max: 3, bytes_max: 1_000 };

    fn text(bytes: usize) -> Bytes {
        Bytes::from(vec![b'x'; bytes])
    }

    fn push(log: &mut EventLog, bytes: usize) -> Entry {
        log.push(text(bytes), BOUNDS, usize::MAX).unwrap()
    }

    fn kept(log: &EventLog, after: u32) -> Vec<u32> {
        log.replay(after).map(|(number, _)| number).collect()
    }

    #[test]
    fn what_follows_the_last_event_that_was_seen_is_replayed_in_order() {
        let mut log = EventLog::default();
        assert_eq!((log.last(), log.missing(0), kept(&log, 0)), (0, 0, vec![]));
        for number in 1..=3 {
            assert_eq!(push(&mut log, 10), Entry { number, is_kept: true });
        }
        assert_eq!(kept(&log, 0), [1, 2, 3]);
        assert_eq!(kept(&log, 2), [3]);
        assert!(kept(&log, 3).is_empty() && kept(&log, u32::MAX).is_empty());
    }

    #[test]
    fn the_oldest_events_go_first_and_are_missed() {
        let mut log = EventLog::default();
        for _ in 0..5 {
            push(&mut log, 10);
        }
        assert_eq!(kept(&log, 0), [3, 4, 5]);
        assert_eq!((log.missing(0), log.missing(1), log.missing(2), log.missing(5)), (2, 1, 0, 0));
    }

    #[test]
    fn the_bytes_of_a_log_are_bounded() {
        let mut log = EventLog::default();
        push(&mut log, 500);
        push(&mut log, 300);
        assert_eq!((kept(&log, 0), log.bytes()), (vec![1, 2], 800 + 2 * EVENT_BYTES));
        push(&mut log, 400);
        assert_eq!((kept(&log, 0), log.bytes()), (vec![2, 3], 700 + 2 * EVENT_BYTES));
    }

    #[test]
    fn a_log_without_room_lives_on_what_it_has() {
        let mut log = EventLog::default();
        push(&mut log, 100);
        push(&mut log, 100);
        let entry = log.push(text(150), BOUNDS, 0).unwrap();
        assert_eq!((entry.is_kept, kept(&log, 0)), (true, vec![3]));
        let entry = log.push(text(151), BOUNDS, 0).unwrap();
        assert_eq!((entry.is_kept, kept(&log, 0), log.bytes()), (false, vec![], 0));
    }

    #[test]
    fn an_event_larger_than_a_log_takes_half_of_the_room_that_is_left_at_most() {
        let mut log = EventLog::default();
        push(&mut log, 10);
        let large = 2_000 - EVENT_BYTES;
        let entry = log.push(text(large), BOUNDS, 4_000).unwrap();
        assert_eq!(
            (entry.is_kept, kept(&log, 0), log.bytes()),
            (true, vec![1, 2], 2_010 + EVENT_BYTES)
        );
        // What follows is kept as ever, and the large one goes for it.
        assert_eq!(push(&mut log, 10), Entry { number: 3, is_kept: true });
        assert_eq!((kept(&log, 0), log.bytes()), (vec![3], 10 + EVENT_BYTES));
        let entry = log.push(text(large), BOUNDS, 3_900 - 2 * log.bytes()).unwrap();
        assert_eq!((entry.is_kept, kept(&log, 0)), (false, vec![]));
    }

    #[test]
    fn an_event_too_large_to_be_kept_has_a_number_and_leaves_nothing() {
        let mut log = EventLog::default();
        push(&mut log, 10);
        let entry = log.push(text(1_000), BOUNDS, 1_000).unwrap();
        assert_eq!(entry, Entry { number: 2, is_kept: false });
        assert_eq!((kept(&log, 0), log.missing(0), log.bytes()), (vec![], 2, 0));
        assert_eq!(log.events.capacity(), 0);
        assert_eq!(push(&mut log, 10), Entry { number: 3, is_kept: true });
        assert_eq!((kept(&log, 0), log.missing(0)), (vec![3], 2));
    }

    #[test]
    fn an_event_that_goes_to_many_streams_is_held_once() {
        let shared = text(100);
        let mut logs: Vec<EventLog> = (0..3).map(|_| EventLog::default()).collect();
        for log in &mut logs {
            log.push(shared.clone(), BOUNDS, usize::MAX).unwrap();
        }
        for log in &logs {
            let (_, event) = log.replay(0).next().unwrap();
            assert_eq!(event.as_ptr(), shared.as_ptr());
        }
    }

    #[test]
    fn a_log_that_has_given_every_number_takes_no_more() {
        let mut log = EventLog { last: u32::MAX - 1, ..EventLog::default() };
        assert_eq!(push(&mut log, 10), Entry { number: u32::MAX, is_kept: true });
        assert_eq!(kept(&log, u32::MAX - 1), [u32::MAX]);
        assert_eq!(log.push(text(10), BOUNDS, usize::MAX), None);
        assert_eq!(kept(&log, 0), [u32::MAX]);
    }

    #[test]
    fn a_log_may_be_told_to_keep_nothing() {
        let mut log = EventLog::default();
        let bounds = LogBounds { events_max: 0, ..BOUNDS };
        let entry = log.push(text(1), bounds, usize::MAX).unwrap();
        assert_eq!(entry, Entry { number: 1, is_kept: false });
        assert_eq!(log.bytes(), 0);
    }
}
