//! The connections of a shard and the state of the transports that they carry.

use std::collections::VecDeque;

use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::ring::Completion;
use corelane_protocol::in_flight::RequestsInFlight;
use corelane_protocol::json::{LARGE_TEXT_BYTES, Parser};

use super::half_closed::HalfClosed;
use super::large_work::LargeWork;
use crate::connection::tls::TlsCounters;
use crate::connection::{
    Codec, Connection, ConnectionStatistics, Connections, LARGE_OUTPUT_BYTES, PendingWork,
};
use crate::server::acceptance::Acceptor;
use crate::server::connection_state::ConnectionState;
use crate::server::dispatch::Dispatcher;
use crate::server::http::{GaugeTotals, HttpTransport};
use crate::server::memory::HolderSearch;
use crate::server::memory::input_pool::InputPool;
use crate::server::outbox::Outbox;
use crate::server::parity::{ParityPath, ParitySessions};
use crate::server::parse_threads::LargeMessages;
use crate::server::reply_to::{Outcome, PeerId};
use crate::server::shard_message::ShardLimits;
use crate::server::websocket::WebSocketTransport;
use crate::telemetry::counters::Counters;
use crate::telemetry::metrics::{Gauges, OverloadGauges};
use crate::telemetry::open_work::{OpenWork, QueueDepths};

/// Connections, listeners, HTTP and WebSocket state of one shard.
pub struct Transports {
    pub connections: Connections<ConnectionState>,
    /// What the TLS of the connections holds, below them.
    pub tls_bytes: usize,
    pub acceptor: Acceptor,
    pub half_closed: HalfClosed,
    pub http: HttpTransport,
    pub websockets: WebSocketTransport,
    pub holder_search: HolderSearch,
    pub large_work: LargeWork,
    pub large_messages: LargeMessages,
    /// Incomplete messages of unproven peers.
    pub input_pool: InputPool,
    /// Begins and ends of connections that are handled behind the input of open ones.
    pub late_completions: VecDeque<Completion>,
    pub parity: ParitySessions,
}

impl Transports {
    /// Applies new limits. Connections that exceed one already stay open.
    pub fn set_limits(&mut self, limits: &ShardLimits) {
        self.acceptor.set_limits(limits);
        self.half_closed.set_limits(limits.half_close);
        self.input_pool.set_limits(limits.input);
        self.connections.shared.options = limits.connections;
        self.http.set_limits(limits.http_request, limits.http_timeouts, limits.sessions);
        self.websockets.rules = limits.websocket;
    }

    /// Returns the sessions of all kinds.
    pub fn session_peers(&mut self) -> Vec<PeerId> {
        let legacy = self.http.sessions.iter_mut().map(|(key, _)| PeerId::HttpSession(key));
        legacy.chain(self.parity.session_keys().map(PeerId::Parity)).collect()
    }

    /// Returns the state and pending work of a peer, or `None` if it is gone.
    pub fn peer_mut(
        &mut self,
        peer_id: PeerId,
    ) -> Option<(&mut ConnectionState, &mut PendingWork)> {
        match peer_id {
            PeerId::Connection(key) => {
                let connection = self.connections.table.get_mut(key)?;
                Some((&mut connection.state, &mut connection.pending_work))
            }
            PeerId::HttpSession(key) => {
                let session = self.http.sessions.get_mut(key)?;
                Some((&mut session.state, &mut session.pending_work))
            }
            PeerId::Parity(key) => {
                let session = self.parity.get_mut(key)?;
                Some((&mut session.state, &mut session.pending_work))
            }
        }
    }

    /// Returns the requests of a peer in flight, or `None` if it is gone.
    pub fn in_flight(&mut self, peer_id: PeerId) -> Option<&RequestsInFlight> {
        self.peer_mut(peer_id).map(|(state, _)| &state.in_flight)
    }

    /// Returns the connection of a peer, or `None` for a session that has none of its own.
    pub fn connection_of(&self, peer_id: PeerId) -> Option<Key> {
        match peer_id {
            PeerId::Connection(key) => Some(key),
            PeerId::Parity(session) => self.parity.connection_of(session),
            PeerId::HttpSession(_) => None,
        }
    }

    /// Writes a message to a connection, and counts it. Returns whether the connection accepts
    /// output; what an HTTP exchange does not take is dropped.
    #[inline]
    pub fn write_message(
        &mut self,
        key: Key,
        outcome: Outcome,
        outbox: &mut Outbox,
        now: Instant,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let Self { connections, http, .. } = self;
        let Some(entry) = connections.entry(key) else { return false };
        if entry.connection.codec() == Codec::Http {
            http.exchange_path(connections, outbox, now).write_message(key, outcome, None, write);
            return true;
        }
        let Some(message) = entry.begin_message() else { return false };
        message.write(write);
        outbox.count_outcome(outcome);
        true
    }

    /// Returns the path of messages of the parity dialect.
    pub const fn parity_path<'a>(
        &'a mut self,
        dispatcher: &'a mut Dispatcher,
        outbox: &'a mut Outbox,
        now: Instant,
    ) -> ParityPath<'a> {
        let Self { connections, websockets, parity, .. } = self;
        ParityPath { parity, connections, websockets, dispatcher, outbox, now }
    }

    /// Returns the next deadline of connections, their calls, exchanges and sessions.
    pub fn next_deadline(&self) -> Option<Instant> {
        let http = self.http.is_active().then(|| self.http.next_deadline()).flatten();
        let large_work = self.large_work.next_deadline();
        let parity = self.parity.next_deadline();
        let input = self.input_pool.next_deadline();
        let (connections, half_closed) =
            (self.connections.deadline(), self.half_closed.next_deadline());
        Instant::earliest([connections, half_closed, http, large_work, parity, input])
    }

    /// Has the input of a connection in the middle of a large message wait, if other large work
    /// was done lately and other clients send small messages. Returns whether it waits.
    #[inline]
    pub fn postpones_input(&mut self, key: Key, now: Instant) -> bool {
        let Self { connections, large_work, .. } = self;
        let postpones = large_work.is_active(now)
            && connections.table.get(key).is_some_and(|it| it.input_bytes() > LARGE_TEXT_BYTES)
            && large_work.postpone_input(key, now);
        if postpones {
            connections.table.hold_input(key);
            connections.shared.statistics.read_pauses += 1;
        }
        postpones
    }

    /// Has the rest of the input of a connection wait for a later turn, if it is read.
    #[cold]
    pub fn hold_rest(&mut self, key: Key) {
        let Self { connections, large_work, .. } = self;
        if connections.table.get(key).is_some_and(Connection::is_read) {
            connections.table.hold_input(key);
            large_work.push_rest(key);
        }
    }

    /// Records what `parser` has read from a connection.
    #[inline]
    pub fn record_read(&mut self, key: Key, parser: &mut Parser, now: Instant) {
        let Self { connections, large_work, .. } = self;
        if parser.take_is_large() {
            self.record_large_work(parser, now);
        } else if large_work.is_active(now)
            && connections.table.get(key).is_some_and(|it| it.input_bytes() == 0)
        {
            large_work.record_other(now);
        }
    }

    /// Records that this turn has done large work, and keeps memory for the next one.
    #[cold]
    pub fn record_large_work(&mut self, parser: &mut Parser, now: Instant) {
        let Connections { shared, .. } = &mut self.connections;
        let bytes_max = shared.options.large_buffers_bytes_max;
        shared.pool.keep_large(bytes_max);
        parser.keep_large(bytes_max / 4);
        self.large_work.record(now);
        self.large_work.keep_memory(parser.large_bytes());
    }

    /// Prepares the output of a connection for the response to a message of `bytes` bytes, or for
    /// one of such a length.
    #[inline]
    pub fn enlarge_output(&mut self, key: Key, bytes: usize) {
        if bytes >= LARGE_OUTPUT_BYTES
            && let Some(mut entry) = self.connections.entry(key)
        {
            entry.enlarge_output(bytes);
        }
    }

    /// Ends what [`Transports::enlarge_output`] began, once the response is written.
    #[inline]
    pub fn reduce_output(&mut self, key: Key, bytes: usize) {
        if bytes >= LARGE_OUTPUT_BYTES
            && let Some(mut entry) = self.connections.entry(key)
        {
            entry.reduce_output();
        }
    }

    /// Frees the memory that is kept for large messages.
    #[cold]
    pub fn free_kept_memory(&mut self, parser: &mut Parser) {
        self.connections.shared.pool.free_large();
        parser.free_large();
        self.large_work.free_memory();
    }

    /// Returns the bytes of large messages apart from their connections, and those that are kept
    /// for the next ones.
    #[inline]
    pub const fn kept_bytes(&self) -> usize {
        let kept = self.connections.shared.pool.large_bytes() + self.large_work.parser_bytes();
        kept + self.large_messages.held_bytes()
    }

    /// Records the end of a turn that began at `now`.
    #[inline]
    pub const fn end_turn(&mut self, now: Instant) {
        self.large_work.end_turn(self.connections.shared.statistics.bytes_in, now);
    }

    /// Counts connections, exchanges and sessions.
    pub const fn count_open(&self, open: &mut OpenWork) {
        open.connections = self.connections.table.len();
        open.exchanges = self.http.open_exchanges();
        open.sessions = self.http.sessions.len() + self.parity.len();
    }

    /// Returns the numbers of all shards that are no counters, of a server with `shards` that have
    /// `rate_keys` together.
    pub fn gauges(
        &self,
        shards: u16,
        rate_keys: usize,
        overload: OverloadGauges,
        queues: Vec<QueueDepths>,
    ) -> Gauges {
        let GaugeTotals { sessions, streams, .. } = self.http.gauges();
        let connections = self.acceptor.open_connections();
        let tls = self.http.tls();
        let tls_handshakes = tls.map(|it| it.results().collect()).unwrap_or_default();
        let proxy_headers = self.http.proxies().map(|it| it.results().collect());
        let tls_certificates = tls.map(TlsCounters::certificates).unwrap_or_default();
        Gauges {
            connections,
            sessions,
            streams,
            proxy_headers: proxy_headers.unwrap_or_default(),
            tls_handshakes,
            tls_certificates,
            rate_keys,
            shards,
            overload,
            queues,
            reloads: self.http.reloads(),
            traces: self.http.traces(),
            log_lines_lost: self.http.log_lines_lost(),
            credentials_read: self.http.credentials_read(),
        }
    }

    pub const fn add_counters(&self, counters: &mut Counters) {
        let ConnectionStatistics { read_pauses, sends, bytes_in, bytes_out, websocket } =
            &self.connections.shared.statistics;
        let traffic = &mut counters.traffic;
        (traffic.bytes_in, traffic.bytes_out) = (*bytes_in, *bytes_out);
        (traffic.sends, traffic.read_pauses) = (*sends, *read_pauses);
        counters.websockets = self.websockets.all_counters(websocket);
        counters.shard.events_suppressed = self.acceptor.events_suppressed();
    }
}
