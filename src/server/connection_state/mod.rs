//! The state that the server holds for one peer.

mod http_exchange;
mod peer_facts;

use std::sync::Arc;

use corelane_base::client_address::ClientAddress;
use corelane_base::heap_bytes;
use corelane_base::heap_bytes::{ALLOCATION_BYTES, HeapBytes};
use corelane_base::principal::{Principal, is_same_caller};
use corelane_base::time::Instant;
use corelane_protocol::eras::{Lifecycle, LoggingLevel};
use corelane_protocol::error::Error;
use corelane_protocol::in_flight::RequestsInFlight;
use corelane_protocol::model::LeftOutTexts;
use corelane_transport::http::request_id::RequestIdBuf;

pub(super) use self::http_exchange::{
    EchoedFields, HttpExchange, RETRY_AFTER_SECONDS, ResponseFormat, ResponseHead, ResponseOwner,
};
pub(super) use self::peer_facts::FactsMemory;
use self::peer_facts::KeptFacts;
use super::extension_slot::ExtensionSlot;
use super::outbox::Outbox;
use super::owner_id::SessionId;
use super::reply_to::{Outcome, RefusalFields};
use super::shard_message::SessionCaller;
use super::subscriptions::ConnectionSubscriptions;
use crate::connection::{CloseReason, PeerAddress, PendingWork};
use crate::telemetry::label::Transport;

/// The state of one connection above the transport, or of one legacy HTTP session.
#[derive(Debug)]
pub(super) struct ConnectionState {
    /// The transport, which decides the framing and the labels of events.
    pub(super) transport: Transport,
    /// The address that counts against the shares: that of the connection, or of the current
    /// request of a proxy. `None` if it is exempt.
    pub(super) client: Option<ClientAddress>,
    pub(super) dialect: PeerDialect,
    /// State of the legacy handshake; modern requests ignore it.
    pub(super) lifecycle: Lifecycle,
    /// Minimum level of log messages; modern requests carry their own.
    pub(super) log_level: LoggingLevel,
    /// Requests that are answered later, by id.
    pub(super) in_flight: RequestsInFlight,
    pub(super) subscriptions: ConnectionSubscriptions,
    /// Why the connection closes once the error is sent that is written: the peer violated a limit,
    /// or its credential is not valid.
    pub(super) violation: Option<CloseReason>,
    /// The HTTP request whose response is incomplete.
    pub(super) exchange: Option<Box<HttpExchange>>,
    /// What is kept of the peer for its handlers, if anything.
    facts: KeptFacts,
    /// The connection closes after the response in progress. WebSocket: the peer has sent a close
    /// frame.
    pub(super) is_closing: bool,
    /// How it is counted.
    pub(super) standing: Standing,
    /// It is counted as that of an authenticated client.
    pub(super) is_proven: bool,
}

/// The dialect of a peer, which decides what reads its messages.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum PeerDialect {
    /// MCP. Before a handshake, a message of the parity dialect selects that one.
    #[default]
    Mcp,
    /// MCP, as before. The time of a handshake runs since the first byte of the first message.
    Begun,
    /// The parity dialect. The connection closes unless its next message is a handshake.
    ParityHandshake,
    /// The parity dialect.
    Parity,
}

impl PeerDialect {
    /// Returns whether it is the parity dialect.
    #[inline]
    pub(super) const fn is_parity(self) -> bool {
        matches!(self, Self::ParityHandshake | Self::Parity)
    }
}

/// How a connection is counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Standing {
    /// Not yet: no byte has arrived.
    Silent,
    /// Against the limits of its transport and its address.
    Served,
    /// Not at all: the limit is reached, and its first request decides whether it is served; over
    /// TCP its first message.
    Undecided,
    /// Not at all: descriptors are short, and its first request decides whether it is one of an
    /// operator or is refused.
    Surplus,
    /// Not against the limits: its requests so far are those of an operator.
    Exempt,
    /// Against the limit of the listener of operators.
    Operator,
    /// Not at all: it is open for an error response.
    Rejected,
    /// Not at all: another connection has got its place.
    Evicted,
}

impl Standing {
    /// Returns whether the counters of accepted and closed connections include it. A silent one is
    /// counted as accepted once it is served or has closed.
    pub(super) const fn is_counted(self) -> bool {
        matches!(self, Self::Silent | Self::Served | Self::Exempt | Self::Operator)
    }
}

impl ConnectionState {
    pub(super) fn new(
        transport: Transport,
        client: Option<ClientAddress>,
        standing: Standing,
    ) -> Self {
        let lifecycle = Lifecycle::default();
        Self {
            transport,
            client,
            dialect: PeerDialect::default(),
            lifecycle,
            // The specification leaves the level to the server until `logging/setLevel`.
            log_level: LoggingLevel::Info,
            in_flight: RequestsInFlight::new(),
            subscriptions: ConnectionSubscriptions::default(),
            violation: None,
            exchange: None,
            facts: KeptFacts::None,
            is_closing: false,
            standing,
            is_proven: false,
        }
    }

    /// Returns the address that limits of connections count. Those of a proxy carry requests of
    /// many clients, and are exempt.
    pub(super) fn counted_address(&self) -> Option<ClientAddress> {
        self.client.filter(|_| self.proxy().is_none())
    }

    /// Returns the caller of what comes with this connection from `peer_addr`, for a session of
    /// another shard.
    pub(super) fn session_caller(&self, peer_addr: Option<PeerAddress>) -> SessionCaller {
        SessionCaller {
            principal: self.principal().cloned(),
            client: self.client,
            peer_addr,
            extensions: self.extension_slot().cloned(),
            ..SessionCaller::default()
        }
    }
}

heap_bytes!(
    ConnectionState { facts }
    inline {
        transport, client, dialect, lifecycle, log_level, violation, is_closing, standing,
        is_proven,
    }
    // The table of subscriptions; the places, with the table of calls, which has the ids.
    elsewhere { in_flight, subscriptions, exchange }
);

impl ConnectionState {
    /// Returns the bytes of what is limited by number: the table of requests in flight, without
    /// their ids, and the exchange.
    pub(super) fn place_bytes(&self) -> usize {
        self.in_flight.allocated_bytes() + self.exchange.heap_bytes()
    }
}

/// Streams of batches with outstanding responses, and the number of those responses.
#[derive(Debug, Default)]
struct OutstandingBatches(Vec<(u32, u32)>);

/// A legacy HTTP session (2024-11-05 to 2025-11-25).
#[derive(Debug)]
pub(super) struct HttpSession {
    pub(super) state: ConnectionState,
    pub(super) pending_work: PendingWork,
    /// The client uses HTTP with SSE (2024-11-05): every message goes to its one stream.
    pub(super) is_legacy_sse: bool,
    /// Boxed, because few sessions have any.
    batches: Option<Box<OutstandingBatches>>,
    /// Time of its `initialize`, or of its stream with HTTP with SSE.
    pub(super) created_at: Instant,
}

heap_bytes!(
    HttpSession {}
    counted { batches: Self::batch_bytes }
    inline { pending_work, is_legacy_sse, created_at }
    // What is kept of its client has an account of its own.
    elsewhere { state }
);

impl HttpSession {
    fn batch_bytes(&self) -> usize {
        let structs = ALLOCATION_BYTES + size_of::<OutstandingBatches>();
        self.batches.as_ref().map_or(0, |it| structs + it.0.capacity() * size_of::<(u32, u32)>())
    }

    /// Returns the bytes of what is limited by number: the table of requests in flight, and the
    /// batches.
    pub(super) fn place_bytes(&self) -> usize {
        self.heap_bytes() + self.state.place_bytes()
    }

    /// A session that a client at `client` begins.
    pub(super) fn new(client: Option<ClientAddress>, created_at: Instant) -> Self {
        let state = ConnectionState::new(Transport::Http, client, Standing::Served);
        let pending_work = PendingWork::default();
        Self { state, pending_work, is_legacy_sse: false, batches: None, created_at }
    }

    /// Returns whether a response to this client of HTTP with SSE (2024-11-05) is outstanding.
    pub(super) const fn owes_legacy_sse_response(&self) -> bool {
        self.is_legacy_sse && self.pending_work.pending_responses > 0
    }

    /// Returns whether `caller` has begun the session.
    #[inline]
    pub(super) fn is_of_caller(&self, caller: Option<&Arc<Principal>>) -> bool {
        let [owner, caller] = [self.state.principal(), caller].map(|it| it.map(|it| &**it));
        is_same_caller(owner, caller)
    }

    /// Returns whether its event streams may carry events without data, and may end early.
    pub(super) fn has_priming_events(&self) -> bool {
        self.state.lifecycle.revision().is_some_and(|it| it.dialect().priming_events)
    }

    /// Adds a batch whose responses, `outstanding` ones, go to `stream`.
    pub(super) fn add_batch(&mut self, stream: u32, outstanding: u32) {
        self.batches.get_or_insert_default().0.push((stream, outstanding));
    }

    /// Counts `outcome` against the batch of `stream`, if any. Returns whether responses are still
    /// outstanding.
    pub(super) fn track_batch_response(&mut self, stream: u32, outcome: Outcome) -> bool {
        let Some(OutstandingBatches(batches)) = self.batches.as_deref_mut() else { return false };
        let Some(index) = batches.iter().position(|(number, _)| *number == stream) else {
            return false;
        };
        let outstanding = &mut batches[index].1;
        *outstanding -= u32::from(outcome.is_response());
        if *outstanding > 0 {
            return true;
        }
        batches.swap_remove(index);
        if batches.is_empty() {
            self.batches = None;
        }
        false
    }
}

/// Where a message comes from, as far as its handlers can read it.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageOrigin<'a> {
    /// Address of the peer, if known.
    pub(super) peer_addr: Option<&'a PeerAddress>,
    /// What is known beside the connection.
    pub(super) details: &'a OriginDetails<'a>,
}

/// The HTTP request and the session that a message came with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OriginDetails<'a> {
    /// Head of the HTTP request: the request line and the fields. Empty for other transports.
    pub(super) http_head: &'a [u8],
    /// The id of the HTTP request. Empty for other transports.
    pub(super) request_id: &'a [u8],
    /// The legacy HTTP session.
    pub(super) session_id: Option<SessionId>,
    /// The slot of the extensions of the connection, if the peer is a session.
    pub(super) extensions: Option<&'a ExtensionSlot>,
    /// The principal of the request, if the peer is a session.
    pub(super) principal: Option<&'a Arc<Principal>>,
    /// The trace that the message names beside its `_meta`.
    pub(super) traceparent: Option<&'a str>,
    /// Whether the client reads parts of the result ahead of it.
    pub(super) is_streamed: bool,
}

impl<'a> MessageOrigin<'a> {
    /// A message without HTTP request or session.
    #[inline]
    pub(super) const fn of_peer(peer_addr: Option<&'a PeerAddress>) -> Self {
        const NONE: &OriginDetails<'_> = &OriginDetails {
            http_head: &[],
            request_id: &[],
            session_id: None,
            extensions: None,
            principal: None,
            traceparent: None,
            is_streamed: false,
        };
        Self { peer_addr, details: NONE }
    }

    /// Returns a copy of the id of the HTTP request, if there is one.
    pub(super) fn request_id_buf(&self) -> Option<RequestIdBuf> {
        let id = self.details.request_id;
        (!id.is_empty()).then(|| id.into())
    }

    /// Returns the id of the HTTP request, if there is one.
    pub(super) fn request_id(&self) -> Option<&'a str> {
        str::from_utf8(self.details.request_id).ok().filter(|id| !id.is_empty())
    }
}

impl<'a> OriginDetails<'a> {
    /// Those of a message to a session, which its caller has sent as an HTTP request.
    pub(super) fn of_caller(caller: &'a SessionCaller, session: SessionId) -> Self {
        Self {
            http_head: &caller.http_head,
            request_id: caller.request_id.as_ref().map_or(&[], RequestIdBuf::as_bytes),
            session_id: Some(session),
            extensions: caller.extensions.as_ref(),
            principal: caller.principal.as_ref(),
            ..Self::default()
        }
    }
}

/// Mutable view of one peer while a message of it is dispatched.
#[derive(Debug)]
pub(super) struct PeerState<'a> {
    pub(super) origin: MessageOrigin<'a>,
    pub(super) state: &'a mut ConnectionState,
    pub(super) pending_work: &'a mut PendingWork,
    /// Buffer for immediate output: one message, unframed.
    pub(super) outgoing: &'a mut Vec<u8>,
    /// Effects of the message.
    pub(super) outbox: &'a mut Outbox,
    /// Header fields of the response, if the request is refused for lack of a scope or by a limit.
    pub(super) refusal: Option<RefusalFields>,
    /// Takes the error of a failed request, which is not written then: the dialect of the peer has
    /// errors of its own.
    pub(super) failure: Option<&'a mut Option<Error>>,
    /// Takes large texts of the message, which its response then lacks.
    pub(super) left_out: Option<&'a mut LeftOutTexts>,
}

impl<'a> PeerState<'a> {
    /// The peer of a message whose response is written whole, and whose errors are those of MCP.
    #[inline]
    pub(super) const fn new(
        origin: MessageOrigin<'a>,
        state: &'a mut ConnectionState,
        pending_work: &'a mut PendingWork,
        outgoing: &'a mut Vec<u8>,
        outbox: &'a mut Outbox,
    ) -> Self {
        Self {
            origin,
            state,
            pending_work,
            outgoing,
            outbox,
            refusal: None,
            failure: None,
            left_out: None,
        }
    }

    /// Returns the caller of the message.
    #[inline]
    pub(super) fn principal(&self) -> Option<&Arc<Principal>> {
        self.origin.details.principal.or_else(|| self.state.principal())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Connection;

    /// Tens of thousands are open at a time: each connection has one, each session of HTTP another.
    #[test]
    fn connection_and_session_stay_small() {
        assert!(size_of::<ConnectionState>() <= 96, "{}", size_of::<ConnectionState>());
        let connection = size_of::<Connection<ConnectionState>>();
        assert!(connection <= 248, "{connection}");
        assert!(size_of::<HttpSession>() <= 128, "{}", size_of::<HttpSession>());
    }

    /// An open event stream holds one, often for hours.
    #[test]
    fn http_exchange_stays_small() {
        assert!(size_of::<HttpExchange>() <= 120, "{}", size_of::<HttpExchange>());
    }
}
