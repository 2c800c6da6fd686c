//! The streams of one session: what is sent on each, over which exchange, and what is still owed.
//!
//! Stream 0 is the one that a client opens by GET to hear what belongs to no request; the others
//! are answers to a POST, counted from 1. A stream outlives the exchange that carries it: a client
//! that comes back with the id of the last event it saw goes on where it stood.
//!
//! ```text
//!           open, listen                  finish
//!   nothing ────────────→ attached ──────────────────→ finished, attached
//!                         │      ↑                     │                ↑
//!                  detach │      │ resume       detach │                │ resume
//!                         ↓      │                     ↓                │
//!                         detached ──────────────────→ kept, or lingers ┘
//!                                    finish
//! ```
//!
//! What it keeps true:
//!
//! - A stream is attached to one exchange at most. While stream 0 is, another GET is refused
//!   (conflict, 409, as the official TypeScript and Python SDKs do). Who resumes a stream has lost
//!   its connection, whether we have heard of that or not: it takes the stream over.
//! - A finished stream of which some was not sent is kept, until it is resumed and sent or there
//!   are newer ones enough. One that was sent lingers: a send is over when the kernel has the
//!   bytes, and a connection that breaks then takes them along, so its client may still come back.
//!   It goes after a while, or before any that is kept, whichever is sooner. A stream whose request
//!   is not answered yet is never forgotten.
//! - Stream 0 never ends before its session. What was pushed while nobody listened is for the next
//!   who does; what was handed to a client is replayed only on request.
//!
//! Source: 2025-11-25, basic/transports, "Listening for Messages from the Server", "Multiple
//! Connections", "Resumability and Redelivery".

use bytes::Bytes;

use super::log::{EventLog, LogBounds};
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::engine::mesh::ShardId;

/// The stream that a client opens by GET.
pub(in crate::server) const LISTENING: u32 = 0;

/// Where an exchange is: a request and its response on a connection of any shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct ExchangeAddress {
    /// The shard of the connection.
    pub(in crate::server) shard: ShardId,
    /// The connection.
    pub(in crate::server) connection: Key,
    /// Which of its exchanges, one after another.
    pub(in crate::server) serial: u32,
}

/// How much one session may have of streams.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct StreamBounds {
    /// Streams of requests, attached or not finished.
    pub(in crate::server) streams_max: usize,
    /// Finished streams that their client may come back for.
    pub(in crate::server) streams_kept_max: usize,
    /// What is kept of each.
    pub(in crate::server) log: LogBounds,
}

/// Why something about a session or its streams is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) enum Refusal {
    /// No name for a session can be drawn: 500.
    Chance,
    /// Somebody listens already: 409.
    Conflict,
    /// The event that the client saw last is none of this session's, or its stream has been
    /// forgotten: 400. (Not 404, by which the client would give up the session.)
    Event,
    /// There are as many sessions as may be, and none of them is idle: 503 with `Retry-After`.
    Full,
    /// There is no such session: 404.
    Session,
    /// The session has this many streams already: the request is answered without one, or refused.
    Streams(usize),
}

/// An event that was taken in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct Pushed {
    /// Its number in the stream.
    pub(in crate::server) number: u32,
    /// Whether it can be replayed. Where it cannot and no exchange is there, it is lost.
    pub(in crate::server) is_kept: bool,
    /// Where it is to be sent.
    pub(in crate::server) exchange: Option<ExchangeAddress>,
}

/// A stream that was attached to another exchange.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct Resumed {
    /// The exchange that carried it until then: it is over, and need not be detached.
    pub(in crate::server) replaced: Option<ExchangeAddress>,
    /// Events that the client did not see and that are not kept any more.
    pub(in crate::server) missing: u32,
    /// Nothing will follow what is replayed.
    pub(in crate::server) is_finished: bool,
}

#[derive(Debug)]
struct Stream {
    number: u32,
    /// The last event that was given to an exchange.
    handed: u32,
    log: EventLog,
    exchange: Option<ExchangeAddress>,
    is_finished: bool,
    /// Something was pushed since an exchange ended with everything sent.
    is_owed: bool,
    /// Since when it lingers, or did last.
    since: Moment,
}

impl Stream {
    const fn is_kept(&self) -> bool {
        self.is_finished && self.exchange.is_none()
    }

    const fn lingers(&self) -> bool {
        self.is_kept() && !self.is_owed
    }
}

/// The streams of one session. A session that never had one holds nothing but this.
#[derive(Debug, Default)]
pub(super) struct Streams {
    /// In the order of their numbers.
    held: Vec<Stream>,
    /// The number of the newest stream of a request.
    opened: u32,
    /// How many have an exchange.
    attached: u32,
    /// Bytes of all their events.
    bytes: usize,
}

impl Streams {
    /// Begins the stream of a request that `exchange` carries, and gives its number.
    pub(super) fn open(
        &mut self,
        exchange: ExchangeAddress,
        bounds: StreamBounds,
    ) -> Result<u32, Refusal> {
        let number = self.upcoming(bounds)?;
        self.opened = number;
        self.enter(self.held.len(), number).exchange = Some(exchange);
        self.attached += 1;
        Ok(number)
    }

    /// Has `exchange` carry stream 0 and gives the number after which it is to be replayed: that of
    /// the last event which some exchange before was given.
    pub(super) fn listen(&mut self, exchange: ExchangeAddress) -> Result<u32, Refusal> {
        let stream = self.listening();
        if stream.exchange.is_some() {
            return Err(Refusal::Conflict);
        }
        stream.exchange = Some(exchange);
        let after = std::mem::replace(&mut stream.handed, stream.log.last());
        self.attached += 1;
        Ok(after)
    }

    /// Has `exchange` carry a stream whose event `after` the client saw last (0: none). What
    /// followed is to be replayed.
    pub(super) fn resume(
        &mut self,
        number: u32,
        after: u32,
        exchange: ExchangeAddress,
    ) -> Result<Resumed, Refusal> {
        let stream = self.stream(number).filter(|stream| after <= stream.handed);
        let stream = stream.ok_or(Refusal::Event)?;
        let replaced = stream.exchange.replace(exchange);
        stream.handed = stream.log.last();
        // The replayed events are owed to the exchange that carries them from here on.
        stream.is_owed |= after < stream.handed;
        let missing = stream.log.missing(after);
        let is_finished = stream.is_finished;
        self.attached += u32::from(replaced.is_none());
        Ok(Resumed { replaced, missing, is_finished })
    }

    /// Takes in an event. `room` is how many bytes the streams may hold beyond those that they
    /// hold now. `None` where the stream has ended, or has had 2³² − 1 events.
    pub(super) fn push(
        &mut self,
        number: u32,
        text: Bytes,
        bounds: LogBounds,
        room: usize,
    ) -> Option<Pushed> {
        if number == LISTENING {
            self.listening();
        }
        let stream = self.stream(number).filter(|stream| !stream.is_finished)?;
        let bytes = stream.log.bytes();
        let entry = stream.log.push(text, bounds, room)?;
        let exchange = stream.exchange;
        if exchange.is_some() {
            stream.handed = entry.number;
        }
        stream.is_owed = true;
        let bytes_left = stream.log.bytes();
        self.bytes = self.bytes - bytes + bytes_left;
        Some(Pushed { number: entry.number, is_kept: entry.is_kept, exchange })
    }

    /// Nothing will follow on the stream of a request; gives the exchange that is to end after what
    /// was pushed. Stream 0 goes on.
    pub(super) fn finish(
        &mut self,
        number: u32,
        bounds: StreamBounds,
        now: Moment,
    ) -> Option<ExchangeAddress> {
        let stream = self.stream(number).filter(|stream| stream.number != LISTENING)?;
        stream.is_finished = true;
        let exchange = stream.exchange;
        if stream.is_kept() {
            self.keep(number, bounds.streams_kept_max, now);
        }
        exchange
    }

    /// The exchange that carried a stream is over, with everything sent or not; `false` where
    /// another one carries it, or the stream is gone.
    pub(super) fn detach(
        &mut self,
        number: u32,
        exchange: ExchangeAddress,
        is_sent: bool,
        bounds: StreamBounds,
        now: Moment,
    ) -> bool {
        let stream = self.stream(number).filter(|stream| stream.exchange == Some(exchange));
        let Some(stream) = stream else { return false };
        stream.exchange = None;
        stream.is_owed &= !is_sent;
        let is_kept = stream.is_kept();
        self.attached -= 1;
        if is_kept {
            self.keep(number, bounds.streams_kept_max, now);
        }
        true
    }

    /// Since when a stream lingers, where it does.
    pub(super) fn lingers_since(&self, number: u32) -> Option<Moment> {
        let stream = &self.held[self.place(number)?];
        stream.lingers().then_some(stream.since)
    }

    /// Forgets a stream that has lingered since then, unless its client has come back for it.
    pub(super) fn let_go(&mut self, number: u32, since: Moment) {
        if self.lingers_since(number) == Some(since) {
            self.forget(number);
        }
    }

    /// The events of a stream after number `after` that are kept.
    pub(super) fn replay(&self, number: u32, after: u32) -> impl Iterator<Item = (u32, &Bytes)> {
        let stream = self.place(number).map(|place| &self.held[place]);
        stream.into_iter().flat_map(move |stream| stream.log.replay(after))
    }

    /// The number that the next stream of a request will get.
    pub(super) fn upcoming(&self, bounds: StreamBounds) -> Result<u32, Refusal> {
        let is_open = |stream: &&Stream| stream.number != LISTENING && !stream.is_kept();
        let open = self.held.iter().filter(is_open).count();
        let number = self.opened.checked_add(1).filter(|_| open < bounds.streams_max);
        number.ok_or(Refusal::Streams(open))
    }

    /// Whether anything was ever pushed on a stream.
    pub(super) fn has_events(&self, number: u32) -> bool {
        self.place(number).is_some_and(|place| self.held[place].log.last() > 0)
    }

    /// The stream that an exchange carries.
    pub(super) fn carried_by(&self, exchange: ExchangeAddress) -> Option<u32> {
        let carried = |stream: &&Stream| stream.exchange == Some(exchange);
        self.held.iter().find(carried).map(|stream| stream.number)
    }

    /// The exchange that carries a stream.
    pub(super) fn exchange(&self, number: u32) -> Option<ExchangeAddress> {
        self.held[self.place(number)?].exchange
    }

    /// Every exchange that carries one of the streams.
    pub(super) fn exchanges(&self) -> impl Iterator<Item = ExchangeAddress> {
        self.held.iter().filter_map(|stream| stream.exchange)
    }

    /// How many streams there are, kept ones included.
    pub(super) const fn len(&self) -> usize {
        self.held.len()
    }

    /// How many of them are carried by an exchange.
    pub(super) const fn attached(&self) -> u32 {
        self.attached
    }

    /// Bytes of all their events.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// A stream has come to its end without an exchange. It goes where nobody could come back for
    /// anything; where there are too many others, the oldest go, and first of all what was sent.
    fn keep(&mut self, number: u32, kept_max: usize, now: Moment) {
        let Some(stream) = self.stream(number) else { return };
        stream.since = now;
        if stream.lingers() && stream.log.bytes() == 0 {
            self.forget(number);
            return;
        }
        let kept = self.held.iter().filter(|stream| stream.is_kept()).count();
        for _ in kept_max..kept {
            let lingering = self.held.iter().find(|stream| stream.lingers());
            let oldest = lingering.or_else(|| self.held.iter().find(|stream| stream.is_kept()));
            if let Some(oldest) = oldest {
                self.forget(oldest.number);
            }
        }
    }

    fn forget(&mut self, number: u32) {
        let Some(place) = self.place(number) else { return };
        let stream = self.held.remove(place);
        self.bytes -= stream.log.bytes();
        if self.held.is_empty() {
            self.held = Vec::new();
        }
    }

    fn listening(&mut self) -> &mut Stream {
        if self.held.first().is_none_or(|stream| stream.number != LISTENING) {
            return self.enter(0, LISTENING);
        }
        &mut self.held[0]
    }

    fn enter(&mut self, place: usize, number: u32) -> &mut Stream {
        let log = EventLog::default();
        let (exchange, since) = (None, Moment::ORIGIN);
        let (is_finished, is_owed) = (false, false);
        let stream = Stream { number, handed: 0, log, exchange, is_finished, is_owed, since };
        // Most sessions have one stream or two: room for four at once would be wasted.
        if self.held.len() == self.held.capacity() {
            self.held.reserve_exact(self.held.len().max(1));
        }
        self.held.insert(place, stream);
        &mut self.held[place]
    }

    fn stream(&mut self, number: u32) -> Option<&mut Stream> {
        let place = self.place(number)?;
        Some(&mut self.held[place])
    }

    fn place(&self, number: u32) -> Option<usize> {
        self.held.binary_search_by_key(&number, |stream| stream.number).ok()
    }
}

/// Bytes that one stream holds at most, its events not counted: its place, which may be in half of
/// a table that has just doubled.
pub(super) const STREAM_BYTES: usize = 2 * size_of::<Stream>();

const _: () = assert!(STREAM_BYTES <= 192, "a stream without events holds at most 192 bytes");

#[cfg(test)]
mod tests;
