//! Operations on the streams of sessions, by session key.
//!
//! Invariants: the totals of the store are the sums over its sessions, a session is in the list of
//! idle ones exactly while it is idle, and a lingering stream is in the queue of those.

use bytes::Bytes;

use super::SessionStore;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::server::http::sessions::event_log;
use crate::server::http::sessions::streams::{
    LISTENING_STREAM, PushedEvent, ResumedStream, SessionError, SessionStreams,
};
use crate::server::shard_message::ExchangeAddress;

impl<S> SessionStore<S> {
    /// Opens the stream of a request, attached to `exchange`; returns its number.
    ///
    /// # Errors
    ///
    /// [`SessionError::UnknownSession`], [`SessionError::StreamLimit`]; nothing is changed then.
    pub(in crate::server) fn open_stream(
        &mut self,
        key: Key,
        exchange: ExchangeAddress,
    ) -> Result<u32, SessionError> {
        let bounds = self.limits.streams;
        self.attach_stream(key, |streams| streams.open(exchange, bounds))
    }

    /// Attaches stream 0, requested by GET, to `exchange`; returns the number after which it must
    /// be replayed.
    ///
    /// # Errors
    ///
    /// [`SessionError::UnknownSession`], [`SessionError::Conflict`]; nothing is changed then.
    pub(in crate::server) fn attach_listener(
        &mut self,
        key: Key,
        exchange: ExchangeAddress,
    ) -> Result<u32, SessionError> {
        self.attach_stream(key, |streams| streams.listen(exchange))
    }

    /// Attaches a stream, requested by `Last-Event-ID`, to `exchange`; its client received event
    /// `after` last (0: none), and later events must be replayed.
    ///
    /// # Errors
    ///
    /// [`SessionError::UnknownSession`], [`SessionError::UnknownEvent`]; nothing is changed then.
    pub(in crate::server) fn resume_stream(
        &mut self,
        key: Key,
        number: u32,
        after: u32,
        exchange: ExchangeAddress,
    ) -> Result<ResumedStream, SessionError> {
        self.attach_stream(key, |streams| streams.resume(number, after, exchange))
    }

    /// Pushes an event on a stream. Returns `None` if the stream has ended or has used up its
    /// numbers (2³² − 1 events), or the session was removed; the event is dropped then.
    ///
    /// `text` is stored as it is: a slice of a larger buffer would retain all of that.
    pub(in crate::server) fn push_event(
        &mut self,
        key: Key,
        number: u32,
        text: Bytes,
    ) -> Option<PushedEvent> {
        // A lingering stream has most likely arrived: it is worth less than a new event.
        while self.free_event_bytes() < event_log::stored_bytes(&text)
            && self.remove_first_lingering()
        {}
        let (room, log) = (self.free_event_bytes(), self.limits.streams.log);
        self.update_streams(key, |streams| streams.push(number, text, log, room))?
    }

    /// Returns the bytes that events may use beyond those used now.
    const fn free_event_bytes(&self) -> usize {
        self.limits.event_bytes_max.saturating_sub(self.event_bytes)
    }

    /// Finishes the stream of a request; returns the exchange that must end when everything pushed
    /// is sent.
    pub(in crate::server) fn finish_stream(
        &mut self,
        key: Key,
        number: u32,
        now: Instant,
    ) -> Option<ExchangeAddress> {
        let bounds = self.limits.streams;
        let exchange = self.update_streams(key, |streams| streams.finish(number, bounds, now))?;
        self.enqueue_lingering(key, number);
        exchange
    }

    /// Detaches a stream from an exchange that has ended. If everything pushed was sent
    /// (`is_sent`), a finished stream lingers; otherwise it is retained for its client to resume.
    /// Returns `false` if it was not attached to that exchange.
    pub(in crate::server) fn detach_stream(
        &mut self,
        key: Key,
        number: u32,
        exchange: ExchangeAddress,
        is_sent: bool,
        now: Instant,
    ) -> bool {
        let bounds = self.limits.streams;
        let detach =
            |streams: &mut SessionStreams| streams.detach(number, exchange, is_sent, bounds, now);
        let is_detached = self.update_streams(key, detach).unwrap_or(false);
        if is_detached {
            self.enqueue_lingering(key, number);
        }
        self.enqueue_idle(key, now);
        is_detached
    }

    /// Removes the streams whose linger time is over.
    pub(in crate::server) fn expire_lingering(&mut self, now: Instant) {
        let is_over = |since: Instant| since.after(self.limits.linger_timeout) <= now;
        let over = self.lingering.iter().take_while(|(since, ..)| is_over(*since)).count();
        for _ in 0..over {
            self.remove_first_lingering();
        }
    }

    /// Removes the stream that has lingered longest; returns `false` if none does.
    fn remove_first_lingering(&mut self) -> bool {
        let Some((since, key, number)) = self.lingering.pop_front() else { return false };
        self.update_streams(key, |streams| streams.expire_lingering(number, since));
        true
    }

    /// Queues a stream that lingers. Queued streams that were resumed or removed meanwhile are
    /// skipped when they come first.
    fn enqueue_lingering(&mut self, key: Key, number: u32) {
        let held = self.slab.get(key);
        let Some(since) = held.and_then(|held| held.streams.lingering_since(number)) else {
            return;
        };
        self.lingering.push_back((since, key, number));
        while self.lingering.len() > self.limits.lingering_streams_max {
            self.remove_first_lingering();
        }
    }

    /// Detaches an exchange that has ended from its stream, as [`SessionStore::detach_stream`]
    /// does.
    pub(in crate::server) fn detach_exchange(
        &mut self,
        key: Key,
        exchange: ExchangeAddress,
        is_sent: bool,
        now: Instant,
    ) {
        if let Some(number) = self.stream_of_exchange(key, exchange) {
            self.detach_stream(key, number, exchange, is_sent, now);
        }
    }

    /// Returns the stream attached to `exchange`.
    pub(in crate::server) fn stream_of_exchange(
        &self,
        key: Key,
        exchange: ExchangeAddress,
    ) -> Option<u32> {
        self.slab.get(key)?.streams.stream_of_exchange(exchange)
    }

    /// Returns the number of the next stream of a request; `None` if the limit is reached or the
    /// session was removed.
    pub(in crate::server) fn next_stream_number(&self, key: Key) -> Option<u32> {
        self.slab.get(key)?.streams.next_number(self.limits.streams).ok()
    }

    /// Returns whether an event was ever pushed on a stream.
    pub(in crate::server) fn has_events(&self, key: Key, number: u32) -> bool {
        self.slab.get(key).is_some_and(|held| held.streams.has_events(number))
    }

    /// Returns the stored events of a stream after number `after`, the oldest first.
    pub(in crate::server) fn replay(
        &self,
        key: Key,
        number: u32,
        after: u32,
    ) -> impl Iterator<Item = (u32, &Bytes)> {
        let held = self.slab.get(key);
        held.into_iter().flat_map(move |held| held.streams.replay(number, after))
    }

    /// Returns the exchange of a stream.
    pub(in crate::server) fn exchange_of_stream(
        &self,
        key: Key,
        number: u32,
    ) -> Option<ExchangeAddress> {
        self.slab.get(key)?.streams.exchange(number)
    }

    /// Returns whether the listening stream is attached.
    pub(in crate::server) fn has_listener(&self, key: Key) -> bool {
        self.exchange_of_stream(key, LISTENING_STREAM).is_some()
    }

    /// Attaches a stream of a session, which is active then, unless `attach` fails.
    fn attach_stream<T>(
        &mut self,
        key: Key,
        attach: impl FnOnce(&mut SessionStreams) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        let attached = self.update_streams(key, attach).ok_or(SessionError::UnknownSession)??;
        self.dequeue_idle(key);
        Ok(attached)
    }

    /// Changes the streams of a session and updates the totals, but not the list of idle sessions.
    fn update_streams<T>(
        &mut self,
        key: Key,
        change: impl FnOnce(&mut SessionStreams) -> T,
    ) -> Option<T> {
        let streams = &mut self.slab.get_mut(key)?.streams;
        self.streams -= streams.len();
        self.attached_streams -= streams.attached() as usize;
        self.event_bytes -= streams.bytes();
        let changed = change(streams);
        self.streams += streams.len();
        self.attached_streams += streams.attached() as usize;
        self.event_bytes += streams.bytes();
        Some(changed)
    }
}
