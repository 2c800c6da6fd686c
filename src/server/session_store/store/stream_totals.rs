//! The streams of all sessions: their totals, and the queue of those that linger.
//!
//! Invariants: the totals are the sums over all sessions, as every change of the streams of a
//! stored session is made by [`StreamTotals::update`]; every lingering stream is in the queue.
//! Queued streams that were resumed or removed meanwhile are skipped when they come first.

use std::collections::VecDeque;
use std::time::Duration;

use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;

use super::stored_session::StoredSession;
use crate::server::session_store::streams::{STREAM_BYTES, SessionStreams};

/// Numbers of streams and bytes of their events, over all sessions.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct StreamTotals {
    streams: usize,
    attached: usize,
    event_bytes: usize,
}

impl StreamTotals {
    /// Changes the streams of a session, but not the list of idle sessions. Returns `None` if the
    /// session was removed.
    pub(super) fn update<S, T>(
        &mut self,
        sessions: &mut Slab<StoredSession<S>>,
        key: Key,
        change: impl FnOnce(&mut SessionStreams) -> T,
    ) -> Option<T> {
        let streams = &mut sessions.get_mut(key)?.streams;
        self.subtract(streams);
        let changed = change(streams);
        self.add(streams);
        Some(changed)
    }

    /// Subtracts the streams of a removed session.
    pub(super) const fn subtract(&mut self, streams: &SessionStreams) {
        self.streams -= streams.len();
        self.attached -= streams.attached() as usize;
        self.event_bytes -= streams.bytes();
    }

    const fn add(&mut self, streams: &SessionStreams) {
        self.streams += streams.len();
        self.attached += streams.attached() as usize;
        self.event_bytes += streams.bytes();
    }

    /// Returns the number of attached streams.
    pub(super) const fn attached(&self) -> usize {
        self.attached
    }

    /// Returns the bytes that events may use beyond those used now.
    pub(super) const fn free_event_bytes(&self, event_bytes_max: usize) -> usize {
        event_bytes_max.saturating_sub(self.event_bytes)
    }

    /// Returns an upper estimate of the bytes of all streams and their events.
    pub(super) const fn held_bytes(&self) -> usize {
        self.streams * STREAM_BYTES + self.event_bytes
    }

    /// Asserts that the totals are the sums over all sessions, and within the limit.
    #[cfg(test)]
    pub(super) fn check_invariants<S>(
        &self,
        sessions: &Slab<StoredSession<S>>,
        event_bytes_max: usize,
    ) {
        let (mut streams, mut attached, mut event_bytes) = (0, 0, 0);
        for (_, held) in sessions.iter() {
            streams += held.streams.len();
            attached += held.streams.exchanges().count();
            event_bytes += held.streams.bytes();
        }
        assert_eq!(*self, Self { streams, attached, event_bytes });
        assert!(event_bytes <= event_bytes_max);
    }
}

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
