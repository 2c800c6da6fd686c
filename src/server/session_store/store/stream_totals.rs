//! Totals of the streams of all sessions.
//!
//! Invariants: the totals are the sums over all sessions, as every change of the streams of a
//! stored session is made by [`StreamTotals::update`].

use corelane_base::slab::{Key, Slab};

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
