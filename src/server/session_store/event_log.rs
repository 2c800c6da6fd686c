//! Stored events of one stream, from which a client resumes after its connection broke.
//!
//! Invariants: events are numbered from 1 in the order in which they were pushed; the stored ones
//! are the newest without a gap; their number and bytes are bounded ([`EventLogLimits`]), the
//! oldest are dropped first. An empty log allocates nothing. An event that alone exceeds the limit
//! is stored if enough shard memory is free: it may be a response, whose size is not limited.
//!
//! Events are shared: one that goes to many streams is stored once.

use crate::server::shard_message::EventLogLimits;
use std::collections::VecDeque;

use bytes::Bytes;
use corelane_base::heap_bytes;

/// The events of one stream.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    /// The newest events, without a gap.
    events: VecDeque<Bytes>,
    bytes: usize,
    /// Number of the newest event; 0 if there was none.
    last_number: u32,
}

heap_bytes!(EventLog {} counted { events: Self::bytes } inline { bytes, last_number });

/// Result of a push.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct LoggedEvent {
    /// Number of the event.
    pub(super) number: u32,
    /// Whether it was stored and can be replayed.
    pub(super) is_stored: bool,
}

impl EventLog {
    /// Appends an event, which may use `room` bytes beyond those stored now.
    ///
    /// An event too large to be stored empties the log, because earlier events are useless without
    /// it. Returns `None` if all numbers are used (2³² − 1 events).
    pub(super) fn push(
        &mut self,
        text: Bytes,
        bounds: EventLogLimits,
        room: usize,
    ) -> Option<LoggedEvent> {
        let number = self.last_number.checked_add(1)?;
        self.last_number = number;
        let cost = stored_bytes(&text);
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
        Some(LoggedEvent { number, is_stored: is_kept })
    }

    /// Returns the stored events after number `after`, the oldest first.
    pub(super) fn replay(&self, after: u32) -> impl Iterator<Item = (u32, &Bytes)> {
        let first = self.first_number().max(after.saturating_add(1));
        let skipped = (first - self.first_number()) as usize;
        (first..=u32::MAX).zip(self.events.iter().skip(skipped))
    }

    /// Removes the stored events after `number`, which no client has got, and returns them. Their
    /// numbers are used again.
    pub(super) fn take_after(&mut self, number: u32) -> VecDeque<Bytes> {
        let count = self.last_number.saturating_sub(number) as usize;
        let taken = self.events.split_off(self.events.len().saturating_sub(count));
        self.bytes -= taken.iter().map(stored_bytes).sum::<usize>();
        self.last_number = self.last_number.min(number);
        taken
    }

    /// Returns the number of events after `after` that are not stored any more.
    pub(super) fn missing_after(&self, after: u32) -> u32 {
        (self.first_number() - 1).saturating_sub(after)
    }

    /// Returns the number of the newest event; 0 if there was none.
    pub(super) const fn last_number(&self) -> u32 {
        self.last_number
    }

    /// Returns the bytes of the stored events, shared ones counted in full.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Like [`EventLog::bytes`], from the stored events.
    pub(super) fn recount_bytes(&self) -> usize {
        self.events.iter().map(stored_bytes).sum()
    }

    /// Returns the number of the oldest stored event, or else of the next one; at least 1.
    fn first_number(&self) -> u32 {
        let kept = u32::try_from(self.events.len()).unwrap_or(u32::MAX);
        // Saturates after the last number, which no event can follow.
        (self.last_number - kept).saturating_add(1)
    }

    fn drop_oldest(&mut self) {
        if let Some(text) = self.events.pop_front() {
            self.bytes -= stored_bytes(&text);
        }
    }
}

/// Returns the bytes of a stored event.
pub(super) fn stored_bytes(text: &Bytes) -> usize {
    text.len().saturating_add(EVENT_OVERHEAD_BYTES)
}

/// Overhead of a stored event besides its text: its slot, which may be in a buffer that has just
/// doubled.
pub(super) const EVENT_OVERHEAD_BYTES: usize = 2 * size_of::<Bytes>();

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: EventLogLimits = EventLogLimits { events_max: 3, bytes_max: 1_000 };

    fn text(bytes: usize) -> Bytes {
        Bytes::from(vec![b'x'; bytes])
    }

    fn push(log: &mut EventLog, bytes: usize) -> LoggedEvent {
        log.push(text(bytes), LIMITS, usize::MAX).unwrap()
    }

    fn stored_numbers(log: &EventLog, after: u32) -> Vec<u32> {
        log.replay(after).map(|(number, _)| number).collect()
    }

    #[test]
    fn events_after_last_seen_replay_in_order() {
        let mut log = EventLog::default();
        assert_eq!(
            (log.last_number(), log.missing_after(0), stored_numbers(&log, 0)),
            (0, 0, vec![])
        );
        for number in 1..=3 {
            assert_eq!(push(&mut log, 10), LoggedEvent { number, is_stored: true });
        }
        assert_eq!(stored_numbers(&log, 0), [1, 2, 3]);
        assert_eq!(stored_numbers(&log, 2), [3]);
        assert!(stored_numbers(&log, 3).is_empty() && stored_numbers(&log, u32::MAX).is_empty());
    }

    #[test]
    fn oldest_events_are_dropped_and_counted_missing() {
        let mut log = EventLog::default();
        for _ in 0..5 {
            push(&mut log, 10);
        }
        assert_eq!(stored_numbers(&log, 0), [3, 4, 5]);
        assert_eq!(
            (
                log.missing_after(0),
                log.missing_after(1),
                log.missing_after(2),
                log.missing_after(5)
            ),
            (2, 1, 0, 0)
        );
    }

    #[test]
    fn stored_bytes_are_bounded() {
        let mut log = EventLog::default();
        push(&mut log, 500);
        push(&mut log, 300);
        assert_eq!(
            (stored_numbers(&log, 0), log.bytes()),
            (vec![1, 2], 800 + 2 * EVENT_OVERHEAD_BYTES)
        );
        push(&mut log, 400);
        assert_eq!(
            (stored_numbers(&log, 0), log.bytes()),
            (vec![2, 3], 700 + 2 * EVENT_OVERHEAD_BYTES)
        );
    }

    #[test]
    fn push_without_free_bytes_drops_old_events() {
        let mut log = EventLog::default();
        push(&mut log, 100);
        push(&mut log, 100);
        let entry = log.push(text(150), LIMITS, 0).unwrap();
        assert_eq!((entry.is_stored, stored_numbers(&log, 0)), (true, vec![3]));
        let entry = log.push(text(151), LIMITS, 0).unwrap();
        assert_eq!((entry.is_stored, stored_numbers(&log, 0), log.bytes()), (false, vec![], 0));
    }

    #[test]
    fn oversized_event_uses_half_of_free_bytes() {
        let mut log = EventLog::default();
        push(&mut log, 10);
        let large = 2_000 - EVENT_OVERHEAD_BYTES;
        let entry = log.push(text(large), LIMITS, 4_000).unwrap();
        assert_eq!(
            (entry.is_stored, stored_numbers(&log, 0), log.bytes()),
            (true, vec![1, 2], 2_010 + EVENT_OVERHEAD_BYTES)
        );
        // Later events are stored as usual, and the large one is dropped for them.
        assert_eq!(push(&mut log, 10), LoggedEvent { number: 3, is_stored: true });
        assert_eq!((stored_numbers(&log, 0), log.bytes()), (vec![3], 10 + EVENT_OVERHEAD_BYTES));
        let entry = log.push(text(large), LIMITS, 3_900 - 2 * log.bytes()).unwrap();
        assert_eq!((entry.is_stored, stored_numbers(&log, 0)), (false, vec![]));
    }

    #[test]
    fn event_too_large_is_numbered_and_empties_log() {
        let mut log = EventLog::default();
        push(&mut log, 10);
        let entry = log.push(text(1_000), LIMITS, 1_000).unwrap();
        assert_eq!(entry, LoggedEvent { number: 2, is_stored: false });
        assert_eq!((stored_numbers(&log, 0), log.missing_after(0), log.bytes()), (vec![], 2, 0));
        assert_eq!(log.events.capacity(), 0);
        assert_eq!(push(&mut log, 10), LoggedEvent { number: 3, is_stored: true });
        assert_eq!((stored_numbers(&log, 0), log.missing_after(0)), (vec![3], 2));
    }

    #[test]
    fn taken_events_leave_their_numbers() {
        let mut log = EventLog::default();
        for bytes in [10, 20, 30] {
            push(&mut log, bytes);
        }
        assert!(log.take_after(3).is_empty() && log.take_after(7).is_empty());
        let lengths: Vec<usize> = log.take_after(1).iter().map(Bytes::len).collect();
        assert_eq!((lengths, stored_numbers(&log, 0)), (vec![20, 30], vec![1]));
        assert_eq!(log.bytes(), 10 + EVENT_OVERHEAD_BYTES);
        assert_eq!(push(&mut log, 10), LoggedEvent { number: 2, is_stored: true });
        // Some of those after the number were dropped already.
        push(&mut log, 10);
        push(&mut log, 10);
        assert_eq!((log.take_after(0).len(), log.last_number(), log.bytes()), (3, 0, 0));
        assert_eq!((stored_numbers(&log, 0), log.missing_after(0)), (vec![], 0));
    }

    #[test]
    fn event_for_many_streams_is_stored_once() {
        let shared = text(100);
        let mut logs: Vec<EventLog> = (0..3).map(|_| EventLog::default()).collect();
        for log in &mut logs {
            log.push(shared.clone(), LIMITS, usize::MAX).unwrap();
        }
        for log in &logs {
            let (_, event) = log.replay(0).next().unwrap();
            assert_eq!(event.as_ptr(), shared.as_ptr());
        }
    }

    #[test]
    fn push_after_last_number_is_rejected() {
        let mut log = EventLog { last_number: u32::MAX - 1, ..EventLog::default() };
        assert_eq!(push(&mut log, 10), LoggedEvent { number: u32::MAX, is_stored: true });
        assert_eq!(stored_numbers(&log, u32::MAX - 1), [u32::MAX]);
        assert_eq!(log.push(text(10), LIMITS, usize::MAX), None);
        assert_eq!(stored_numbers(&log, 0), [u32::MAX]);
    }

    #[test]
    fn log_with_zero_limit_stores_nothing() {
        let mut log = EventLog::default();
        let bounds = EventLogLimits { events_max: 0, ..LIMITS };
        let entry = log.push(text(1), bounds, usize::MAX).unwrap();
        assert_eq!(entry, LoggedEvent { number: 1, is_stored: false });
        assert_eq!(log.bytes(), 0);
    }
}
