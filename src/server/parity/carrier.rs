//! What carries a session: a connection, HTTP requests, a connection of another shard; where a
//! message came from, and where its answer goes.
//!
//! Invariants: a session has one carrier.

use std::collections::{HashMap, VecDeque};

use corelane_base::slab::Key;
use corelane_engine::mesh::ShardId;

use crate::connection::PeerAddress;
use crate::server::connection_state::OriginDetails;
use crate::server::outbox::Outbox;
use crate::server::owner_id::SessionId;
use crate::server::shard_message::{
    CHUNK_EVENT, CarrierAddress, ExchangeAddress, FrontAddress, ParityHttpOutput, SessionCaller,
    SessionMessage,
};

/// What a message came with.
#[derive(Clone, Copy, Debug)]
pub(super) enum Carrier<'a> {
    /// A connection of this shard that carries the session.
    Connection(Key),
    /// An HTTP request, on any shard.
    Exchange {
        address: ExchangeAddress,
        caller: &'a SessionCaller,
        response: ResponseKind,
        /// Why the client does not continue where it was, if it has asked for that.
        restart: Option<&'static str>,
    },
    /// The connection of another shard that carries the session.
    Remote,
}

impl<'a> Carrier<'a> {
    /// Returns what handlers can read of a message to `session` beside its connection.
    pub(super) fn origin_details(self, session: SessionId) -> OriginDetails<'a> {
        match self {
            Carrier::Exchange { caller, .. } => OriginDetails::of_caller(caller, session),
            Carrier::Connection(_) | Carrier::Remote => OriginDetails::default(),
        }
    }

    /// Returns why the client does not continue where it was, if it has asked for that without a
    /// token.
    pub(super) const fn restart(self) -> Option<&'static str> {
        match self {
            Carrier::Exchange { restart, .. } => restart,
            Carrier::Connection(_) | Carrier::Remote => None,
        }
    }
}

/// What the response to an HTTP request is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ResponseKind {
    Message,
    /// One message, or the chunks of a stream.
    Chunks,
    /// The event stream of the session.
    Events {
        /// Whether the ids of its events name the session: its client does not send that.
        names_session: bool,
    },
}

/// What carries a session to its client.
#[derive(Debug, Default)]
pub(super) enum SessionCarrier {
    /// Nothing: its client may resume it.
    #[default]
    None,
    /// A connection of this shard.
    Connection(Key),
    /// HTTP requests, on any shard.
    Http(Box<HttpCarrier>),
    /// A connection of another shard, behind a front there.
    Remote(Box<RemoteConnection>),
    /// A connection of this shard, for the session of another one: this session is its front.
    Front(Box<Front>),
}

impl SessionCarrier {
    /// Returns the connection of this shard.
    pub(super) fn connection(&self) -> Option<Key> {
        match self {
            Self::Connection(key) => Some(*key),
            Self::Front(front) => Some(front.connection),
            Self::None | Self::Http(_) | Self::Remote(_) => None,
        }
    }

    pub(super) fn http(&self) -> Option<&HttpCarrier> {
        if let Self::Http(http) = self { Some(http) } else { None }
    }

    pub(super) fn http_mut(&mut self) -> Option<&mut HttpCarrier> {
        if let Self::Http(http) = self { Some(http) } else { None }
    }

    /// Has an HTTP exchange wait for the response to a call, or carry the chunks of a stream.
    pub(super) fn add_exchange(&mut self, number: u32, exchange: ExchangeAddress) {
        if let Self::Http(http) = self {
            http.exchanges.push((number, exchange));
        }
    }

    pub(super) fn remote(&self) -> Option<&RemoteConnection> {
        if let Self::Remote(remote) = self { Some(remote) } else { None }
    }

    pub(super) fn remote_mut(&mut self) -> Option<&mut RemoteConnection> {
        if let Self::Remote(remote) = self { Some(remote) } else { None }
    }

    pub(super) fn front(&self) -> Option<&Front> {
        if let Self::Front(front) = self { Some(front) } else { None }
    }

    pub(super) fn front_mut(&mut self) -> Option<&mut Front> {
        if let Self::Front(front) = self { Some(front) } else { None }
    }
}

/// What carries a session over HTTP.
#[derive(Debug, Default)]
pub(super) struct HttpCarrier {
    /// The event stream.
    pub(super) events: Option<ExchangeAddress>,
    /// The exchanges that wait for the response to a call, or carry the chunks of a stream, with
    /// the numbers of these.
    pub(super) exchanges: Vec<(u32, ExchangeAddress)>,
    /// The chunks that were written while there was no event stream.
    queue: VecDeque<QueuedChunk>,
    queued_bytes: usize,
    /// Bytes of chunks that are not known to be sent, by exchange.
    unsent: Vec<(ExchangeAddress, usize)>,
    /// The last chunks that were sent as events, for a client that returns.
    sent: SentEvents,
    /// The streams that began on the response to their request, each with the number of the last
    /// chunk there, 0 for none.
    posted: HashMap<u32, u64>,
}

/// The last chunks of a session that were sent on its event stream, in order.
#[derive(Debug, Default)]
struct SentEvents {
    /// Numbers of the streams and of their chunks.
    places: VecDeque<(u32, u64)>,
    /// Whether earlier ones were forgotten.
    has_forgotten: bool,
    /// Whether the ids of events name the session.
    names_session: bool,
}

/// A chunk that waits for an event stream.
#[derive(Debug)]
pub(super) struct QueuedChunk {
    /// The id of its event.
    pub(super) id: Box<str>,
    /// The numbers of its stream and of itself.
    pub(super) place: (u32, u64),
    pub(super) text: Vec<u8>,
}

impl QueuedChunk {
    /// Returns it as an event of a session.
    pub(super) fn into_event(self, session: SessionId) -> ParityHttpOutput {
        let Self { id, text, .. } = self;
        ParityHttpOutput::Event { session, name: CHUNK_EVENT, id: Some(id), data: text }
    }
}

impl HttpCarrier {
    /// Records that the chunks of a stream begin on the response to its request. `is_kept` returns
    /// whether the session still has a stream.
    pub(super) fn begin_posted(&mut self, number: u32, is_kept: impl Fn(u32) -> bool) {
        self.posted.retain(|known, _| is_kept(*known));
        self.posted.insert(number, 0);
    }

    /// Records a chunk that is sent on the response to the request of its stream.
    pub(super) fn record_posted(&mut self, number: u32, seq: u64) {
        self.posted.insert(number, seq);
    }

    /// Returns whether a chunk was sent on the response to the request of its stream; number 0
    /// stands for the response before the first chunk.
    pub(super) fn was_posted(&self, number: u32, seq: u64) -> bool {
        self.posted.get(&number).is_some_and(|last| seq <= *last)
    }

    /// Forgets the chunks of a stream that were sent on the event stream: they are sent again.
    pub(super) fn forget_events_of(&mut self, number: u32) {
        self.sent.places.retain(|(known, _)| *known != number);
    }

    /// Returns whether the client has an event stream or an exchange open.
    pub(super) const fn is_open(&self) -> bool {
        self.events.is_some() || !self.exchanges.is_empty()
    }

    /// Takes the exchange of a call or stream.
    pub(super) fn take_exchange(&mut self, number: u32) -> Option<ExchangeAddress> {
        let index = self.exchanges.iter().position(|(known, _)| *known == number)?;
        let exchange = self.exchanges.swap_remove(index).1;
        self.unsent.retain(|(known, _)| *known != exchange);
        Some(exchange)
    }

    /// Returns the bytes of the chunks that wait for an event stream.
    pub(super) const fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// Returns the bytes of chunks to an exchange that are not known to be sent.
    pub(super) fn unsent_bytes(&self, exchange: ExchangeAddress) -> usize {
        let of_exchange = self.unsent.iter().find(|(known, _)| *known == exchange);
        of_exchange.map_or(0, |(_, bytes)| *bytes)
    }

    /// Records the bytes of a chunk to an exchange.
    pub(super) fn add_unsent(&mut self, exchange: ExchangeAddress, bytes: usize) {
        match self.unsent.iter_mut().find(|(known, _)| *known == exchange) {
            Some((_, unsent)) => *unsent += bytes,
            None => self.unsent.push((exchange, bytes)),
        }
    }

    /// Records that chunks to an exchange are sent.
    pub(super) fn confirm_sent(&mut self, exchange: ExchangeAddress, bytes: usize) {
        let of_exchange = self.unsent.iter_mut().find(|(known, _)| *known == exchange);
        if let Some((_, unsent)) = of_exchange {
            *unsent = unsent.saturating_sub(bytes);
        }
    }

    /// Returns the exchange that carries the chunks of a stream: its own, or the event stream.
    pub(super) fn exchange_of(&self, number: u32) -> Option<ExchangeAddress> {
        let own = self.exchanges.iter().find(|(known, _)| *known == number);
        own.map(|(_, exchange)| *exchange).or(self.events)
    }

    /// Removes a closed exchange, and returns the number of its call or stream.
    pub(super) fn remove(&mut self, exchange: ExchangeAddress) -> Option<u32> {
        if self.events == Some(exchange) {
            self.events = None;
        }
        self.unsent.retain(|(known, _)| *known != exchange);
        let index = self.exchanges.iter().position(|(_, known)| *known == exchange)?;
        Some(self.exchanges.swap_remove(index).0)
    }

    /// Keeps a chunk for an event stream.
    pub(super) fn queue(&mut self, chunk: QueuedChunk) {
        self.queued_bytes += chunk.text.len();
        self.queue.push_back(chunk);
    }

    /// Puts chunks before those that wait for an event stream.
    pub(super) fn queue_before(&mut self, chunks: Vec<QueuedChunk>) {
        for chunk in chunks.into_iter().rev() {
            self.queued_bytes += chunk.text.len();
            self.queue.push_front(chunk);
        }
    }

    /// Begins another event stream. Returns whether its client needs an id before the first chunk.
    pub(super) fn attach_events(&mut self, names_session: bool) -> bool {
        self.sent.names_session = names_session;
        names_session && !self.sent.has_forgotten && self.sent.places.is_empty()
    }

    /// Records a chunk that is sent on the event stream, of which the last `count_max` are known,
    /// and completes its id.
    pub(super) fn record_event(
        &mut self,
        chunk: &mut QueuedChunk,
        session: SessionId,
        count_max: usize,
    ) {
        self.sent.places.push_back(chunk.place);
        if self.sent.places.len() > count_max {
            self.sent.places.pop_front();
            self.sent.has_forgotten = true;
        }
        if self.sent.names_session {
            chunk.id = format!("{}@{session}", chunk.id).into();
        }
    }

    /// Returns the chunks that were sent as events after `place`, `None` for all, and forgets them:
    /// they are sent again. Returns `None` if that is not known.
    pub(super) fn rewind_events(&mut self, place: Option<(u32, u64)>) -> Option<Vec<(u32, u64)>> {
        let kept = match place {
            Some(place) => self.sent.places.iter().position(|known| *known == place)? + 1,
            None if self.sent.has_forgotten => return None,
            None => 0,
        };
        Some(self.sent.places.split_off(kept).into())
    }

    /// Returns the number of the first chunk of each stream that waits for an event stream.
    pub(super) fn next_queued(&self) -> HashMap<u32, u64> {
        self.queue.iter().rev().map(|chunk| chunk.place).collect()
    }

    /// Takes the next chunk for the event stream.
    pub(super) fn pop_queued(&mut self) -> Option<QueuedChunk> {
        let chunk = self.queue.pop_front()?;
        self.queued_bytes -= chunk.text.len();
        Some(chunk)
    }
}

/// A session that stands for one of another shard, and carries its messages.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) connection: Key,
    /// The shard of the other session.
    pub(super) owner: ShardId,
    /// The other session.
    pub(super) session: SessionId,
    /// Whether the other session has been resumed. Until then its connection is not read.
    pub(super) is_open: bool,
    /// Messages of the client that the other session has not handled.
    pub(super) unhandled: u32,
    /// Responses that the other session owes, beside those to unhandled messages.
    pub(super) pending: u32,
    /// Bytes of output that the other session does not know to be sent.
    pub(super) unreported_bytes: usize,
}

/// Messages of a client that may wait for the shard of its session; at this number its connection
/// is not read until half of them are handled.
const UNHANDLED_MAX: u32 = 64;

impl Front {
    pub(super) const fn new(connection: Key, owner: ShardId, session: SessionId) -> Self {
        let (is_open, unhandled, pending, unreported_bytes) = (false, 0, 0, 0);
        Self { connection, owner, session, is_open, unhandled, pending, unreported_bytes }
    }

    /// Returns whether its connection must not be read.
    pub(super) const fn is_full(&self) -> bool {
        self.unhandled >= UNHANDLED_MAX
    }

    /// Returns whether its connection may be read again.
    pub(super) const fn has_room(&self) -> bool {
        self.is_open && self.unhandled <= UNHANDLED_MAX / 2
    }

    /// Returns the responses that its connection waits for.
    pub(super) const fn pending_responses(&self) -> u32 {
        self.pending + self.unhandled
    }

    /// Tells the other session that the connection of this front is gone.
    pub(super) fn report_closed(&self, front: FrontAddress, outbox: &mut Outbox) {
        let (session, carrier, is_sent) = (self.session, CarrierAddress::Front(front), false);
        outbox.forward(self.owner, SessionMessage::Closed { session, carrier, is_sent });
    }
}

/// A connection of another shard that carries a session.
#[derive(Debug)]
pub(super) struct RemoteConnection {
    /// The front of the session on the shard of the connection.
    pub(super) front: FrontAddress,
    /// The address of its peer, if known.
    pub(super) peer_address: Option<PeerAddress>,
    /// Bytes of output that are not known to be sent.
    pub(super) unsent_bytes: usize,
}

impl RemoteConnection {
    /// Sends texts to the client. `is_handled`: a message of the client is handled with that;
    /// `pending`: the responses that the session owes.
    pub(super) fn relay(
        &mut self,
        texts: Vec<Vec<u8>>,
        is_handled: bool,
        pending: u32,
        outbox: &mut Outbox,
    ) {
        self.unsent_bytes += texts.iter().map(Vec::len).sum::<usize>();
        let front = self.front;
        let message = SessionMessage::RelayOutput { front, texts, is_handled, pending };
        outbox.forward(front.shard, message);
    }

    /// Closes the connection; a WebSocket with this code.
    pub(super) fn close(&self, code: u16, reason: &'static str, outbox: &mut Outbox) {
        let front = self.front;
        outbox.forward(front.shard, SessionMessage::CloseFront { front, code, reason });
    }
}
