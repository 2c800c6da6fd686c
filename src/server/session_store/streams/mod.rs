//! Streams of one session: their events, the exchanges they are attached to, undelivered output.
//!
//! A client opens a listening stream by GET for messages that belong to no request; the first one
//! is stream 0. The other streams carry responses to a POST. A stream outlives its exchange: a
//! client that reconnects with the id of the last event it received resumes it.
//!
//! ```text
//!           open, listen                  finish
//!   nothing ────────────→ attached ──────────────────→ finished, attached
//!                         │      ↑                     │                ↑
//!                  detach │      │ resume       detach │                │ resume
//!                         ↓      │                     ↓                │
//!                         detached ──────────────────→ retained, or lingering
//!                                    finish
//! ```
//!
//! Invariants:
//!
//! - A stream is attached to one exchange at most. A client that resumes a stream has lost its
//!   connection, even if this is not known yet: the new exchange takes the stream over.
//! - One listening stream is the current one: events are pushed on it only, so that each message is
//!   sent on one stream. While it is attached, another GET gets status 409, as in the official
//!   TypeScript and Python SDKs, or a new stream, which is the current one from then on and may
//!   replace the other ([`SessionStreams::attach_listening`]). When the current one is detached, an
//!   attached one becomes current if there is one. A listening stream that is neither current nor
//!   attached is finished; a client that resumes it makes it the current one again.
//! - A finished stream with undelivered events is retained until it is resumed and delivered, or
//!   displaced by newer ones. A delivered stream lingers: a send completes when the kernel has the
//!   bytes, and a connection that breaks then loses them, so its client may still reconnect. It is
//!   removed after a while, and before any retained one. A stream whose request has no response yet
//!   is never removed.
//! - The current listening stream ends with its session. Events pushed while it was detached go to
//!   the next exchange of a listening stream; events given to an exchange are replayed only on
//!   request, to a client that resumes their stream.
//!
//! Source: MCP 2025-11-25, basic/transports, "Listening for Messages from the Server", "Multiple
//! Connections", "Resumability and Redelivery".

use bytes::Bytes;
use corelane_base::heap_bytes;
use corelane_base::heap_bytes::{ALLOCATION_BYTES, HeapBytes};
use corelane_base::time::Instant;

use super::event_log::EventLog;
use crate::server::options::SecondStream;
use crate::server::shard_message::{EventLogLimits, ExchangeAddress, StreamLimits};

/// Number of the first stream that a client opens by GET. As the stream of a message it stands for
/// the current listening stream.
pub const LISTENING_STREAM: u32 = 0;

/// Why an operation on a session or its streams failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum SessionError {
    /// No session id can be generated: 500.
    NoEntropy,
    /// A listening stream is attached already, and another one is refused: 409.
    Conflict,
    /// The last event id is unknown to the session, or its stream was removed: 400. (Not 404, on
    /// which a client gives up the session.)
    UnknownEvent,
    /// The limit of sessions is reached and none is idle: 503 with `Retry-After`.
    SessionLimit,
    /// The session is unknown: 404.
    UnknownSession,
    /// The session has this many streams already: the request gets a JSON response, or an error.
    StreamLimit(usize),
}

/// A listening stream that was attached by GET.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ListeningStream {
    pub number: u32,
    /// Number after which it must be replayed: that of the last event given to an exchange.
    pub after: u32,
    /// Exchange of the listening stream that it replaces, which must end.
    pub replaced_listener: Option<ExchangeAddress>,
}

/// An event that was pushed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PushedEvent {
    /// Number in the stream.
    pub number: u32,
    /// Whether it was stored. If not, and without an exchange, it is lost.
    pub is_stored: bool,
    /// Exchange to which it must be sent.
    pub exchange: Option<ExchangeAddress>,
}

/// A stream that was attached to another exchange.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ResumedStream {
    /// Exchange it was attached to before, which must end and need not be detached.
    pub replaced_exchange: Option<ExchangeAddress>,
    /// Exchange of the listening stream that it replaces, which must end.
    pub replaced_listener: Option<ExchangeAddress>,
    /// Events that the client did not receive and that are not stored any more.
    pub missing_events: u32,
    /// Whether no event will follow the replayed ones.
    pub is_finished: bool,
}

#[derive(Debug)]
struct SessionStream {
    number: u32,
    /// Number of the last event given to an exchange.
    last_delivered: u32,
    log: EventLog,
    exchange: Option<ExchangeAddress>,
    /// Whether it was opened by GET.
    is_listening: bool,
    is_finished: bool,
    /// Whether an event was pushed since an exchange ended with everything sent.
    has_undelivered: bool,
    /// Since when it lingers, or did last.
    lingering_since: Instant,
}

heap_bytes!(
    SessionStream { log }
    inline {
        number, last_delivered, exchange, is_listening, is_finished, has_undelivered,
        lingering_since,
    }
);

impl SessionStream {
    const fn is_retained(&self) -> bool {
        self.is_finished && self.exchange.is_none()
    }

    const fn is_lingering(&self) -> bool {
        self.is_retained() && !self.has_undelivered
    }

    /// Returns whether events could be pushed on it as the current listening stream.
    const fn is_open_listener(&self) -> bool {
        self.is_listening && self.exchange.is_some() && !self.is_finished
    }
}

/// The streams of one session. Allocates nothing before the first one.
#[derive(Debug, Default)]
pub struct SessionStreams {
    /// In the order of their numbers.
    streams: Vec<SessionStream>,
    /// Number of the newest stream.
    last_opened: u32,
    /// Number of the current listening stream.
    listening: u32,
    /// Number of streams with an exchange.
    attached: u32,
    /// Bytes of the stored events of all streams.
    bytes: usize,
}

heap_bytes!(
    SessionStreams {}
    counted { streams: Self::stream_bytes }
    inline { last_opened, listening, attached, bytes }
);

impl SessionStreams {
    /// Opens the stream of a request, attached to `exchange`; returns its number.
    pub fn open(
        &mut self,
        exchange: ExchangeAddress,
        bounds: StreamLimits,
    ) -> Result<u32, SessionError> {
        let number = self.next_number(bounds)?;
        self.last_opened = number;
        self.insert(self.streams.len(), number).exchange = Some(exchange);
        self.attached += 1;
        Ok(number)
    }

    /// Attaches a stream to `exchange`; its client received event `after` last (0: none), and later
    /// events must be replayed. `room` is the number of bytes that streams may use beyond those
    /// used now.
    pub fn resume(
        &mut self,
        number: u32,
        after: u32,
        exchange: ExchangeAddress,
        bounds: StreamLimits,
        room: usize,
        now: Instant,
    ) -> Result<ResumedStream, SessionError> {
        let stream = self.get_mut(number).filter(|stream| after <= stream.last_delivered);
        let stream = stream.ok_or(SessionError::UnknownEvent)?;
        let replaced_exchange = stream.exchange.replace(exchange);
        stream.last_delivered = stream.log.last_number();
        // The replayed events count as undelivered on their new exchange.
        stream.has_undelivered |= after < stream.last_delivered;
        let missing_events = stream.log.missing_after(after);
        stream.is_finished &= !stream.is_listening;
        let (is_finished, is_listening) = (stream.is_finished, stream.is_listening);
        self.attached += u32::from(replaced_exchange.is_none());
        let is_new = is_listening && number != self.listening;
        let replaced_listener =
            if is_new { self.make_current(number, bounds, room, now) } else { None };
        Ok(ResumedStream { replaced_exchange, replaced_listener, missing_events, is_finished })
    }

    /// Pushes an event. `room` is the number of bytes that streams may use beyond those used now.
    /// Returns `None` if the stream has ended, or has had 2³² − 1 events.
    pub fn push(
        &mut self,
        number: u32,
        text: Bytes,
        bounds: EventLogLimits,
        room: usize,
    ) -> Option<PushedEvent> {
        if number == self.listening {
            self.listening_stream();
        }
        let stream = self.get_mut(number).filter(|stream| !stream.is_finished)?;
        let bytes = stream.log.bytes();
        let entry = stream.log.push(text, bounds, room)?;
        let exchange = stream.exchange;
        if exchange.is_some() {
            stream.last_delivered = entry.number;
        }
        stream.has_undelivered = true;
        let bytes_left = stream.log.bytes();
        self.bytes = self.bytes - bytes + bytes_left;
        Some(PushedEvent { number: entry.number, is_stored: entry.is_stored, exchange })
    }

    /// Finishes the stream of a request; returns the exchange that must end after what was pushed.
    /// A listening stream is not changed.
    pub fn finish(
        &mut self,
        number: u32,
        bounds: StreamLimits,
        now: Instant,
    ) -> Option<ExchangeAddress> {
        let stream = self.get_mut(number).filter(|stream| !stream.is_listening)?;
        stream.is_finished = true;
        let exchange = stream.exchange;
        if stream.is_retained() {
            self.retain_finished(number, bounds.retained_streams_max, now);
        }
        exchange
    }

    /// Detaches a stream from an exchange that has ended; returns `false` if it is attached to
    /// another exchange or was removed. `is_sent` is whether everything pushed was sent.
    pub fn detach(
        &mut self,
        number: u32,
        exchange: ExchangeAddress,
        is_sent: bool,
        bounds: StreamLimits,
        now: Instant,
    ) -> bool {
        let stream = self.get_mut(number).filter(|stream| stream.exchange == Some(exchange));
        let Some(stream) = stream else { return false };
        stream.exchange = None;
        stream.has_undelivered &= !is_sent;
        self.attached -= 1;
        self.finish_detached(number);
        if self.get_mut(number).is_some_and(|stream| stream.is_retained()) {
            self.retain_finished(number, bounds.retained_streams_max, now);
        }
        true
    }

    /// Returns the number of the current listening stream.
    pub const fn listening(&self) -> u32 {
        self.listening
    }

    /// Returns whether a stream was opened by GET.
    pub fn is_listening(&self, number: u32) -> bool {
        self.index_of(number).is_some_and(|place| self.streams[place].is_listening)
    }

    /// Returns since when a stream lingers, if it does.
    pub fn lingering_since(&self, number: u32) -> Option<Instant> {
        let stream = &self.streams[self.index_of(number)?];
        stream.is_lingering().then_some(stream.lingering_since)
    }

    /// Removes a stream that has lingered since `since`, unless it was resumed.
    pub fn expire_lingering(&mut self, number: u32, since: Instant) {
        if self.lingering_since(number) == Some(since) {
            self.remove(number);
        }
    }

    /// Returns the stored events of a stream after number `after`.
    pub fn replay(&self, number: u32, after: u32) -> impl Iterator<Item = (u32, &Bytes)> {
        let stream = self.index_of(number).map(|place| &self.streams[place]);
        stream.into_iter().flat_map(move |stream| stream.log.replay(after))
    }

    /// Returns the number of the next stream.
    pub fn next_number(&self, bounds: StreamLimits) -> Result<u32, SessionError> {
        let is_open =
            |stream: &&SessionStream| stream.number != LISTENING_STREAM && !stream.is_retained();
        let open = self.streams.iter().filter(is_open).count();
        let number = self.last_opened.checked_add(1).filter(|_| open < bounds.streams_max);
        number.ok_or(SessionError::StreamLimit(open))
    }

    /// Returns whether an event was ever pushed on a stream.
    pub fn has_events(&self, number: u32) -> bool {
        self.index_of(number).is_some_and(|place| self.streams[place].log.last_number() > 0)
    }

    /// Returns the stream attached to `exchange`.
    pub fn stream_of_exchange(&self, exchange: ExchangeAddress) -> Option<u32> {
        let carried = |stream: &&SessionStream| stream.exchange == Some(exchange);
        self.streams.iter().find(carried).map(|stream| stream.number)
    }

    /// Returns the exchange of a stream.
    pub fn exchange(&self, number: u32) -> Option<ExchangeAddress> {
        self.streams[self.index_of(number)?].exchange
    }

    /// Returns all exchanges with a stream attached.
    pub fn exchanges(&self) -> impl Iterator<Item = ExchangeAddress> {
        self.streams.iter().filter_map(|stream| stream.exchange)
    }

    /// Returns the number of streams, retained ones included.
    pub const fn len(&self) -> usize {
        self.streams.len()
    }

    /// Returns the number of attached streams.
    pub const fn attached(&self) -> u32 {
        self.attached
    }

    /// Returns the bytes of the stored events of all streams.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes of all streams with their stored events.
    const fn stream_bytes(&self) -> usize {
        self.place_bytes() + self.bytes
    }

    const fn place_bytes(&self) -> usize {
        match self.streams.capacity() {
            0 => 0,
            capacity => ALLOCATION_BYTES + capacity * size_of::<SessionStream>(),
        }
    }

    /// Returns the bytes of all streams with their stored events, from the events.
    pub fn recount_bytes(&self) -> usize {
        let counted = |stream: &SessionStream| {
            stream.heap_bytes() - stream.log.bytes() + stream.log.recount_bytes()
        };
        self.place_bytes() + self.streams.iter().map(counted).sum::<usize>()
    }

    /// Retains a finished, detached stream; removes it if it has nothing to replay. Beyond
    /// `kept_max` streams, lingering ones are removed first, then the oldest.
    fn retain_finished(&mut self, number: u32, kept_max: usize, now: Instant) {
        let Some(stream) = self.get_mut(number) else { return };
        stream.lingering_since = now;
        if stream.is_lingering() && stream.log.bytes() == 0 {
            self.remove(number);
            return;
        }
        let kept = self.streams.iter().filter(|stream| stream.is_retained()).count();
        for _ in kept_max..kept {
            let lingering = self.streams.iter().find(|stream| stream.is_lingering());
            let oldest =
                lingering.or_else(|| self.streams.iter().find(|stream| stream.is_retained()));
            if let Some(oldest) = oldest {
                self.remove(oldest.number);
            }
        }
    }

    fn remove(&mut self, number: u32) {
        let Some(place) = self.index_of(number) else { return };
        let stream = self.streams.remove(place);
        self.bytes -= stream.log.bytes();
        if self.streams.is_empty() {
            self.streams = Vec::new();
        }
    }

    /// Returns the current listening stream. The first one begins to exist here.
    fn listening_stream(&mut self) -> &mut SessionStream {
        if let Some(place) = self.index_of(self.listening) {
            return &mut self.streams[place];
        }
        let stream = self.insert(0, LISTENING_STREAM);
        stream.is_listening = true;
        stream
    }

    fn insert(&mut self, place: usize, number: u32) -> &mut SessionStream {
        let log = EventLog::default();
        let (exchange, since) = (None, Instant::ORIGIN);
        let (is_finished, is_owed) = (false, false);
        let is_listening = false;
        let stream = SessionStream {
            number,
            last_delivered: 0,
            log,
            exchange,
            is_listening,
            is_finished,
            has_undelivered: is_owed,
            lingering_since: since,
        };
        // Most sessions have one or two streams: capacity for four would be wasted.
        if self.streams.len() == self.streams.capacity() {
            self.streams.reserve_exact(self.streams.len().max(1));
        }
        self.streams.insert(place, stream);
        &mut self.streams[place]
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut SessionStream> {
        let place = self.index_of(number)?;
        Some(&mut self.streams[place])
    }

    fn index_of(&self, number: u32) -> Option<usize> {
        self.streams.binary_search_by_key(&number, |stream| stream.number).ok()
    }
}

const _: () = assert!(size_of::<SessionStream>() <= 96, "a stream has at most 96 bytes");

impl SessionStreams {
    /// Attaches a listening stream to `exchange`: the current one, or a new one if that is
    /// attached.
    pub fn attach_listening(
        &mut self,
        exchange: ExchangeAddress,
        bounds: StreamLimits,
    ) -> Result<ListeningStream, SessionError> {
        let number = self.listening;
        let current = self.listening_stream();
        let Some(attached) = current.exchange else {
            current.exchange = Some(exchange);
            let after = std::mem::replace(&mut current.last_delivered, current.log.last_number());
            self.attached += 1;
            return Ok(ListeningStream { number, after, replaced_listener: None });
        };
        if bounds.second_stream == SecondStream::Refuse {
            return Err(SessionError::Conflict);
        }
        let number = self.next_number(bounds)?;
        let is_replaced = bounds.second_stream == SecondStream::Replace;
        self.listening_stream().is_finished = is_replaced;
        (self.last_opened, self.listening) = (number, number);
        let stream = self.insert(self.len(), number);
        (stream.exchange, stream.is_listening) = (Some(exchange), true);
        self.attached += 1;
        let replaced_listener = is_replaced.then_some(attached);
        Ok(ListeningStream { number, after: 0, replaced_listener })
    }

    /// Makes an attached listening stream the current one, with the events that wait for an
    /// exchange. Returns the exchange of the one that it replaces. `room` is that of
    /// [`SessionStreams::push`].
    fn make_current(
        &mut self,
        number: u32,
        bounds: StreamLimits,
        room: usize,
        now: Instant,
    ) -> Option<ExchangeAddress> {
        let bytes_max = self.bytes.saturating_add(room);
        let before = std::mem::replace(&mut self.listening, number);
        let stream = self.get_mut(before)?;
        if let Some(attached) = stream.exchange {
            let is_replaced = bounds.second_stream != SecondStream::Join;
            stream.is_finished = is_replaced;
            return is_replaced.then_some(attached);
        }
        stream.is_finished = true;
        let bytes = stream.log.bytes();
        let waiting = stream.log.take_after(stream.last_delivered);
        let bytes_left = stream.log.bytes();
        self.bytes = self.bytes - bytes + bytes_left;
        for text in waiting {
            self.push(number, text, bounds.log, bytes_max.saturating_sub(self.bytes));
        }
        self.retain_finished(before, bounds.retained_streams_max, now);
        None
    }

    /// Finishes a detached stream if it is a listening one, unless it is current and no other one
    /// is attached.
    fn finish_detached(&mut self, number: u32) {
        if number == self.listening {
            let newest = self.streams.iter().rev().find(|stream| stream.is_open_listener());
            let Some(newest) = newest else { return };
            self.listening = newest.number;
        }
        if let Some(stream) = self.get_mut(number).filter(|stream| stream.is_listening) {
            stream.is_finished = true;
        }
    }
}

#[cfg(test)]
mod tests;
