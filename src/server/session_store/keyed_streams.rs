//! The streams of stored sessions: operations on those of one session, by its key, the totals of
//! all, and the queue of those that linger.
//!
//! Invariants: a session is in the list of idle ones exactly while it is idle; the totals are the
//! sums over all sessions, as every change of the streams of a stored session is made by
//! [`StreamTotals::update`]; every lingering stream is in the queue. Queued streams that were
//! resumed or removed meanwhile are skipped when they come first.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use corelane_base::heap_bytes::HeapBytes;
use corelane_base::slab::{Key, Slab};
use corelane_base::time::Instant;

use super::idle_sessions::StoredSession;
use super::streams::{ListeningStream, PushedEvent, ResumedStream, SessionError, SessionStreams};
use super::{SessionStore, event_log};
use crate::server::shard_message::{ExchangeAddress, SessionLimits};

/// The streams of one session of a store. If the session was removed, nothing is changed.
pub struct KeyedStreams<'a, S> {
    pub(super) store: &'a mut SessionStore<S>,
    pub(super) key: Key,
}

impl<S> KeyedStreams<'_, S> {
    /// Opens the stream of a request, attached to `exchange`; returns its number.
    ///
    /// # Errors
    ///
    /// [`SessionError::UnknownSession`], [`SessionError::StreamLimit`]; nothing is changed then.
    pub fn open(&mut self, exchange: ExchangeAddress) -> Result<u32, SessionError> {
        let bounds = self.store.limits.streams;
        self.attach(|streams| streams.open(exchange, bounds))
    }

    /// Attaches a listening stream, requested by GET, to `exchange`.
    ///
    /// # Errors
    ///
    /// [`SessionError::UnknownSession`], [`SessionError::Conflict`], [`SessionError::StreamLimit`];
    /// nothing is changed then.
    pub fn listen(&mut self, exchange: ExchangeAddress) -> Result<ListeningStream, SessionError> {
        let bounds = self.store.limits.streams;
        self.attach(|streams| streams.attach_listening(exchange, bounds))
    }

    /// Attaches a stream, requested by `Last-Event-ID`, to `exchange`; its client received event
    /// `after` last (0: none), and later events must be replayed.
    ///
    /// # Errors
    ///
    /// [`SessionError::UnknownSession`], [`SessionError::UnknownEvent`]; nothing is changed then.
    pub fn resume(
        &mut self,
        number: u32,
        after: u32,
        exchange: ExchangeAddress,
        now: Instant,
    ) -> Result<ResumedStream, SessionError> {
        let SessionLimits { streams: bounds, event_bytes_max, .. } = self.store.limits;
        let room = self.store.totals.free_event_bytes(event_bytes_max);
        let listening = self.store.streams(self.key).map(SessionStreams::listening);
        let resumed =
            self.attach(|streams| streams.resume(number, after, exchange, bounds, room, now))?;
        if let Some(before) = listening.filter(|before| *before != number) {
            self.enqueue_lingering(before);
        }
        Ok(resumed)
    }

    /// Pushes an event on a stream. Returns `None` if the stream has ended or has used up its
    /// numbers (2³² − 1 events), or the session was removed; the event is dropped then.
    ///
    /// `text` is stored as it is: a slice of a larger buffer would retain all of that.
    pub fn push(&mut self, number: u32, text: Bytes) -> Option<PushedEvent> {
        let SessionStore { limits, sessions, lingering, totals, .. } = &mut *self.store;
        // A lingering stream has most likely arrived: it is worth less than a new event.
        while totals.free_event_bytes(limits.event_bytes_max) < event_log::stored_bytes(&text)
            && lingering.remove_first(sessions, totals)
        {}
        let (room, log) = (totals.free_event_bytes(limits.event_bytes_max), limits.streams.log);
        totals.update(sessions, self.key, |streams| streams.push(number, text, log, room))?
    }

    /// Finishes the stream of a request; returns the exchange that must end when everything pushed
    /// is sent.
    pub fn finish(&mut self, number: u32, now: Instant) -> Option<ExchangeAddress> {
        let bounds = self.store.limits.streams;
        let exchange = self.update(|streams| streams.finish(number, bounds, now))?;
        self.enqueue_lingering(number);
        exchange
    }

    /// Detaches a stream from an exchange that has ended. If everything pushed was sent
    /// (`is_sent`), a finished stream lingers; otherwise it is retained for its client to resume.
    /// Returns `false` if it was not attached to that exchange.
    pub fn detach(
        &mut self,
        number: u32,
        exchange: ExchangeAddress,
        is_sent: bool,
        now: Instant,
    ) -> bool {
        let bounds = self.store.limits.streams;
        let detach =
            |streams: &mut SessionStreams| streams.detach(number, exchange, is_sent, bounds, now);
        let is_detached = self.update(detach).unwrap_or(false);
        if is_detached {
            self.enqueue_lingering(number);
        }
        self.store.idle.push_if_idle(&mut self.store.sessions, self.key, now);
        is_detached
    }

    /// Detaches an exchange that has ended from its stream, as [`KeyedStreams::detach`] does.
    pub fn detach_exchange(&mut self, exchange: ExchangeAddress, is_sent: bool, now: Instant) {
        let streams = self.store.streams(self.key);
        if let Some(number) = streams.and_then(|streams| streams.stream_of_exchange(exchange)) {
            self.detach(number, exchange, is_sent, now);
        }
    }

    /// Queues a stream, if it lingers; beyond the limit the first of the queue is removed.
    fn enqueue_lingering(&mut self, number: u32) {
        let SessionStore { limits, sessions, lingering, totals, .. } = &mut *self.store;
        lingering.push_if_lingering(sessions, self.key, number);
        while lingering.len() > limits.lingering_streams_max {
            lingering.remove_first(sessions, totals);
        }
    }

    /// Attaches a stream of the session, which is active then, unless `attach` fails.
    fn attach<T>(
        &mut self,
        attach: impl FnOnce(&mut SessionStreams) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        let attached = self.update(attach).ok_or(SessionError::UnknownSession)??;
        self.store.idle.remove(&mut self.store.sessions, self.key);
        Ok(attached)
    }

    fn update<T>(&mut self, change: impl FnOnce(&mut SessionStreams) -> T) -> Option<T> {
        self.store.totals.update(&mut self.store.sessions, self.key, change)
    }
}

/// Attached streams, and the bytes of all streams and of their events, over all sessions.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct StreamTotals {
    attached: usize,
    bytes: usize,
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
    pub(super) fn subtract(&mut self, streams: &SessionStreams) {
        self.bytes -= streams.heap_bytes();
        self.attached -= streams.attached() as usize;
        self.event_bytes -= streams.bytes();
    }

    fn add(&mut self, streams: &SessionStreams) {
        self.bytes += streams.heap_bytes();
        self.attached += streams.attached() as usize;
        self.event_bytes += streams.bytes();
    }

    /// Returns the number of attached streams.
    pub(super) const fn attached(&self) -> usize {
        self.attached
    }

    /// Returns the bytes that events may use beyond those used now.
    const fn free_event_bytes(&self, event_bytes_max: usize) -> usize {
        event_bytes_max.saturating_sub(self.event_bytes)
    }

    /// Returns the bytes of all streams and their events.
    pub(super) const fn held_bytes(&self) -> usize {
        self.bytes
    }

    /// Asserts that the totals are the sums over all sessions, and within the limit.
    #[cfg(test)]
    pub(super) fn check_invariants<S>(
        &self,
        sessions: &Slab<StoredSession<S>>,
        event_bytes_max: usize,
    ) {
        let (mut bytes, mut attached, mut event_bytes) = (0, 0, 0);
        for (_, held) in sessions.iter() {
            bytes += held.streams.recount_bytes();
            attached += held.streams.exchanges().count();
            event_bytes += held.streams.bytes();
        }
        assert_eq!(*self, Self { attached, bytes, event_bytes });
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
    fn push_if_lingering<S>(&mut self, sessions: &Slab<StoredSession<S>>, key: Key, number: u32) {
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

    /// Returns the bytes of the queue.
    pub(super) fn allocated_bytes(&self) -> usize {
        self.streams.capacity() * size_of::<(Instant, Key, u32)>()
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
