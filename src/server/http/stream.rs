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
//!                         detached ──────────────────→ kept ────────────┘
//!                                    finish
//! ```
//!
//! What it keeps true:
//!
//! - A stream is attached to one exchange at most. While stream 0 is, another GET is refused
//!   (conflict, 409, as the official TypeScript and Python SDKs do). Who resumes a stream has lost
//!   its connection, whether we have heard of that or not: it takes the stream over.
//! - A finished stream is kept only while some of it was not sent, until it is resumed and sent or
//!   there are newer ones enough. A stream whose request is not answered yet is never forgotten.
//! - Stream 0 never ends before its session. What was pushed while nobody listened is for the next
//!   who does; what was handed to a client is replayed only on request.
//!
//! Source: 2025-11-25, basic/transports, "Listening for Messages from the Server", "Multiple
//! Connections", "Resumability and Redelivery".

use bytes::Bytes;

use super::log::{EventLog, LogBounds};
use crate::base::slab::Key;
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
    /// Finished streams that were not sent to their end.
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
}

impl Stream {
    const fn is_kept(&self) -> bool {
        self.is_finished && self.exchange.is_none()
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
        let is_open = |stream: &&Stream| stream.number != LISTENING && !stream.is_kept();
        let open = self.held.iter().filter(is_open).count();
        let number = self.opened.checked_add(1).filter(|_| open < bounds.streams_max);
        let number = number.ok_or(Refusal::Streams(open))?;
        self.opened = number;
        self.enter(self.held.len(), number).exchange = Some(exchange);
        self.attached += 1;
        Ok(number)
    }

    /// Gives up the number that the next stream of a request would have got: something goes by it
    /// already.
    pub(super) const fn pass_over(&mut self) {
        self.opened = self.upcoming();
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
    pub(super) fn finish(&mut self, number: u32, bounds: StreamBounds) -> Option<ExchangeAddress> {
        let stream = self.stream(number).filter(|stream| stream.number != LISTENING)?;
        stream.is_finished = true;
        let exchange = stream.exchange;
        if stream.is_kept() {
            self.keep(number, bounds.streams_kept_max);
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
    ) -> bool {
        let stream = self.stream(number).filter(|stream| stream.exchange == Some(exchange));
        let Some(stream) = stream else { return false };
        stream.exchange = None;
        stream.is_owed &= !is_sent;
        let is_kept = stream.is_kept();
        self.attached -= 1;
        if is_kept {
            self.keep(number, bounds.streams_kept_max);
        }
        true
    }

    /// The events of a stream after number `after` that are kept.
    pub(super) fn replay(&self, number: u32, after: u32) -> impl Iterator<Item = (u32, &Bytes)> {
        let stream = self.place(number).map(|place| &self.held[place]);
        stream.into_iter().flat_map(move |stream| stream.log.replay(after))
    }

    /// The number that the next stream of a request will get.
    pub(super) const fn upcoming(&self) -> u32 {
        self.opened.saturating_add(1)
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

    /// A stream has come to its end without an exchange. It goes where nothing of it is owed, and
    /// the oldest of those that are kept go where there are too many.
    fn keep(&mut self, number: u32, kept_max: usize) {
        if self.stream(number).is_some_and(|stream| !stream.is_owed) {
            self.forget(number);
            return;
        }
        let kept = self.held.iter().filter(|stream| stream.is_kept()).count();
        for _ in kept_max..kept {
            if let Some(oldest) = self.held.iter().find(|stream| stream.is_kept()) {
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
        let stream =
            Stream { number, handed: 0, log, exchange: None, is_finished: false, is_owed: false };
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
mod tests {
    use super::*;

    const BOUNDS: StreamBounds = StreamBounds {
        streams_max: 4,
        streams_kept_max: 2,
        log: LogBounds { events_max: 3, bytes_max: 10_000 },
    };

    fn exchange(serial: u32) -> ExchangeAddress {
        ExchangeAddress { shard: ShardId(1), connection: Key::from_bits(7), serial }
    }

    fn push(streams: &mut Streams, number: u32) -> Pushed {
        streams.push(number, Bytes::from_static(b"{}"), BOUNDS.log, usize::MAX).unwrap()
    }

    fn replayed(streams: &Streams, number: u32, after: u32) -> Vec<u32> {
        streams.replay(number, after).map(|(number, _)| number).collect()
    }

    #[test]
    fn streams_of_requests_are_open_side_by_side_and_hear_only_of_their_own() {
        let mut streams = Streams::default();
        let (one, other) = (exchange(1), exchange(2));
        assert_eq!(streams.open(one, BOUNDS), Ok(1));
        assert_eq!(streams.open(other, BOUNDS), Ok(2));
        assert_eq!(push(&mut streams, 2).exchange, Some(other));
        assert_eq!((replayed(&streams, 1, 0), replayed(&streams, 2, 0)), (vec![], vec![1]));
        assert_eq!(streams.finish(1, BOUNDS), Some(one));
        assert!(streams.detach(1, one, true, BOUNDS));
        assert_eq!((streams.len(), streams.attached()), (1, 1));
        assert_eq!(streams.push(1, Bytes::new(), BOUNDS.log, usize::MAX), None);
    }

    #[test]
    fn a_second_listener_is_refused_until_the_first_has_gone() {
        let mut streams = Streams::default();
        assert_eq!(streams.listen(exchange(1)), Ok(0));
        assert_eq!(streams.listen(exchange(2)), Err(Refusal::Conflict));
        assert!(streams.detach(LISTENING, exchange(1), true, BOUNDS));
        assert_eq!(streams.listen(exchange(2)), Ok(0));
        assert_eq!(streams.finish(LISTENING, BOUNDS), None);
    }

    #[test]
    fn what_nobody_heard_waits_for_the_next_listener_and_is_told_once() {
        let mut streams = Streams::default();
        assert_eq!(push(&mut streams, LISTENING).exchange, None);
        assert_eq!(streams.listen(exchange(1)), Ok(0));
        assert_eq!(replayed(&streams, LISTENING, 0), [1]);
        push(&mut streams, LISTENING);
        assert!(streams.detach(LISTENING, exchange(1), false, BOUNDS));
        push(&mut streams, LISTENING);
        assert_eq!(streams.listen(exchange(2)), Ok(2));
        assert_eq!(replayed(&streams, LISTENING, 2), [3]);
    }

    #[test]
    fn a_client_that_comes_back_goes_on_where_it_stood() {
        let mut streams = Streams::default();
        streams.open(exchange(1), BOUNDS).unwrap();
        push(&mut streams, 1);
        push(&mut streams, 1);
        assert!(streams.detach(1, exchange(1), true, BOUNDS));
        assert_eq!(push(&mut streams, 1).exchange, None);
        let resumed = streams.resume(1, 1, exchange(2)).unwrap();
        assert_eq!(resumed, Resumed { replaced: None, missing: 0, is_finished: false });
        assert_eq!(replayed(&streams, 1, 1), [2, 3]);
        assert_eq!(push(&mut streams, 1).exchange, Some(exchange(2)));
        // Three are kept: the first has gone.
        assert_eq!(streams.resume(1, 0, exchange(3)).unwrap().missing, 1);
    }

    #[test]
    fn who_resumes_takes_over_and_the_exchange_before_has_no_more_say() {
        let mut streams = Streams::default();
        streams.open(exchange(1), BOUNDS).unwrap();
        let resumed = streams.resume(1, 0, exchange(2)).unwrap();
        assert_eq!(resumed.replaced, Some(exchange(1)));
        assert!(!streams.detach(1, exchange(1), false, BOUNDS));
        assert_eq!((streams.exchange(1), streams.attached()), (Some(exchange(2)), 1));
    }

    #[test]
    fn an_event_that_was_never_sent_resumes_nothing() {
        let mut streams = Streams::default();
        streams.open(exchange(1), BOUNDS).unwrap();
        push(&mut streams, 1);
        for (number, after) in [(1, 2), (1, u32::MAX), (2, 0), (LISTENING, 0)] {
            assert_eq!(streams.resume(number, after, exchange(2)), Err(Refusal::Event));
        }
        assert_eq!(streams.exchange(1), Some(exchange(1)));
    }

    #[test]
    fn a_finished_stream_is_kept_until_it_has_been_sent() {
        let mut streams = Streams::default();
        streams.open(exchange(1), BOUNDS).unwrap();
        push(&mut streams, 1);
        assert_eq!(streams.finish(1, BOUNDS), Some(exchange(1)));
        assert!(streams.detach(1, exchange(1), false, BOUNDS));
        assert_eq!((streams.len(), streams.attached()), (1, 0));
        assert!(streams.resume(1, 0, exchange(2)).unwrap().is_finished);
        assert_eq!(replayed(&streams, 1, 0), [1]);
        assert!(streams.detach(1, exchange(2), true, BOUNDS));
        assert_eq!((streams.len(), streams.bytes(), streams.held.capacity()), (0, 0, 0));
        assert_eq!(streams.resume(1, 0, exchange(3)), Err(Refusal::Event));
    }

    #[test]
    fn an_answer_that_comes_while_nobody_is_there_waits() {
        let mut streams = Streams::default();
        for number in [1, 2] {
            streams.open(exchange(number), BOUNDS).unwrap();
            assert!(streams.detach(number, exchange(number), true, BOUNDS));
        }
        push(&mut streams, 1);
        assert_eq!(streams.finish(1, BOUNDS), None);
        // The other request was cancelled: there is nothing to wait for.
        assert_eq!(streams.finish(2, BOUNDS), None);
        assert_eq!(streams.len(), 1);
        assert!(streams.resume(1, 0, exchange(3)).is_ok());
    }

    #[test]
    fn what_is_replayed_is_owed_again() {
        let mut streams = Streams::default();
        streams.open(exchange(1), BOUNDS).unwrap();
        push(&mut streams, 1);
        assert!(streams.detach(1, exchange(1), true, BOUNDS));
        // Sent, but not seen: the answer that the client comes back for may break off once more.
        streams.resume(1, 0, exchange(2)).unwrap();
        assert_eq!(streams.finish(1, BOUNDS), Some(exchange(2)));
        assert!(streams.detach(1, exchange(2), false, BOUNDS));
        assert_eq!(replayed(&streams, 1, 0), [1]);
        assert!(streams.resume(1, 0, exchange(3)).is_ok());
    }

    #[test]
    fn streams_that_nobody_comes_back_for_are_bounded_and_the_oldest_goes_first() {
        let mut streams = Streams::default();
        for number in 1..=10_000 {
            assert_eq!(streams.open(exchange(number), BOUNDS), Ok(number));
            push(&mut streams, number);
            streams.finish(number, BOUNDS);
            assert!(streams.detach(number, exchange(number), false, BOUNDS));
            assert!(streams.len() <= BOUNDS.streams_kept_max);
        }
        assert_eq!(streams.resume(9_998, 0, exchange(0)), Err(Refusal::Event));
        assert!(streams.resume(9_999, 0, exchange(0)).is_ok());
    }

    #[test]
    fn streams_of_requests_that_run_are_bounded_and_never_forgotten() {
        let mut streams = Streams::default();
        for number in 1..=4 {
            streams.open(exchange(number), BOUNDS).unwrap();
            assert!(streams.detach(number, exchange(number), true, BOUNDS));
        }
        assert_eq!(streams.open(exchange(5), BOUNDS), Err(Refusal::Streams(4)));
        assert!(streams.listen(exchange(5)).is_ok());
        assert!((1..=4).all(|number| streams.resume(number, 0, exchange(6)).is_ok()));
    }

    #[test]
    fn a_session_that_has_given_every_number_opens_no_more_streams() {
        let mut streams = Streams { opened: u32::MAX - 1, ..Streams::default() };
        assert_eq!(streams.open(exchange(1), BOUNDS), Ok(u32::MAX));
        assert!(streams.open(exchange(2), BOUNDS).is_err());
    }
}
