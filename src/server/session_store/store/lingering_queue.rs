//! Queue of the lingering streams of all sessions, in the order in which they began to linger.
//!
//! Invariants: every lingering stream is in the queue. Queued streams that were resumed or removed
//! meanwhile are skipped when they come first.

use std::collections::VecDeque;
use std::time::Duration;

use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;

use super::stored_session::StoredSession;
use super::stream_totals::StreamTotals;

/// Streams that linger, or did when they were queued, and since when.
#[derive(Debug, Default)]
pub(super) struct LingeringQueue {
    streams: VecDeque<(Instant, Key, u32)>,
}

impl LingeringQueue {
    /// Appends a stream, if it lingers.
    pub(super) fn push_if_lingering<S>(
        &mut self,
        sessions: &Slab<StoredSession<S>>,
        key: Key,
        number: u32,
    ) {
        let held = sessions.get(key);
        if let Some(since) = held.and_then(|held| held.streams.lingering_since(number)) {
            self.streams.push_back((since, key, number));
        }
    }

    /// Removes the stream that has lingered longest, and its events; returns `false` if the queue
    /// is empty.
    pub(super) fn remove_first<S>(
        &mut self,
        sessions: &mut Slab<StoredSession<S>>,
        totals: &mut StreamTotals,
    ) -> bool {
        let Some((since, key, number)) = self.streams.pop_front() else { return false };
        totals.update(sessions, key, |streams| streams.expire_lingering(number, since));
        true
    }

    /// Returns when the first stream expires.
    pub(super) fn next_expiry(&self, linger_timeout: Duration) -> Option<Instant> {
        self.streams.front().map(|(since, ..)| since.after(linger_timeout))
    }

    /// Returns the number of streams.
    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    /// Asserts the order and the limit.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, streams_max: usize) {
        assert!(self.streams.len() <= streams_max);
        assert!(self.streams.iter().is_sorted_by_key(|(since, ..)| *since));
    }
}
