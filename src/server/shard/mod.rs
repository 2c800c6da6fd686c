//! The shard: the components of one thread.
//!
//! The steps of its turn stand in `turn`; what input passes through on its way to a handler in
//! `input`; what peers are sent in `peers`; the effects of components in `effects`.

mod half_closed;
mod large_work;
mod phase;

mod transports;

mod broadcaster;

use std::fmt;
use std::sync::Arc;

use corelane_base::client_address::ClientAddress;
use corelane_base::holders::Holder;
use corelane_base::time::{Instant, WallClock};
use corelane_engine::mesh::{Inbox, ShardId};
use corelane_protocol::json::Parser;

pub(super) use self::broadcaster::{Broadcaster, Recipients};
pub(super) use self::half_closed::{HalfClose, HalfClosed, half_close_refused, half_close_timeout};
pub(super) use self::large_work::{LargeWork, NextWork};
pub(super) use self::phase::ShardPhase;
pub(super) use self::transports::Transports;
use super::connection_state::{ConnectionState, HttpSession, Standing};
use super::dispatch::{DeferredWork, Dispatcher};
use super::handlers::HandlerEvent;
use super::http::ExchangePath;
use super::outbox::Outbox;
use super::parity::ParityPath;
use super::shard_message::{ShardLimits, ShardMessage};
use crate::connection::Connection;
use crate::telemetry::counters::Counters;
use crate::telemetry::event::Event;
use crate::telemetry::open_work::{HeldMemory, HeldPlace, MemoryReport, OpenWork, PlaceKind};
use crate::telemetry::throttle::EventThrottle;

/// One shard of a server, built by [`super::ShardBuilder::build`] and run by its shard loop.
pub struct Shard {
    pub(super) id: ShardId,
    pub(super) transports: Transports,
    pub(super) parser: Parser,
    pub(super) dispatcher: Dispatcher,
    pub(super) broadcaster: Broadcaster,
    pub(super) phase: ShardPhase,
    pub(super) inbox: Inbox<ShardMessage>,
    pub(super) outbox: Outbox,
    pub(super) unsent_messages: UnsentMessages,
    /// Buffers for reuse.
    pub(super) messages: Vec<ShardMessage>,
    pub(super) events: Vec<HandlerEvent>,
    /// The limits while memory is not short.
    pub(super) limits: Arc<ShardLimits>,
    /// Time of the step of the turn that runs.
    pub(super) now: Instant,
}

impl Shard {
    /// Sets the clock of timestamps.
    pub(super) const fn set_wall_clock(&mut self, wall_clock: WallClock) {
        self.transports.http.set_wall_clock(wall_clock);
        self.dispatcher.deferred.wall_clock = wall_clock;
        self.dispatcher.deferred.tasks.wall_clock = wall_clock;
    }

    /// Returns the number of objects held on behalf of clients.
    pub fn open_work(&self) -> OpenWork {
        let mut open_work = OpenWork::default();
        self.transports.count_open(&mut open_work);
        self.dispatcher.count_open(&mut open_work);
        open_work
    }

    /// Returns the places that are taken. Cost: one pass over everything that has one.
    pub fn held_places(&self) -> Vec<HeldPlace> {
        let Self { transports, dispatcher, .. } = self;
        let of_client = |kind, client: Option<ClientAddress>| {
            let holder = client.map_or(Holder::Exempt, Holder::Address);
            HeldPlace { kind, holder }
        };
        let connections = transports.connections.table.iter().map(|(_, it)| &it.state);
        let served = connections.filter(|it| it.standing == Standing::Served);
        let served = served.map(|it| of_client(PlaceKind::Connection(it.transport), it.client));
        let sessions = transports.http.sessions.iter();
        let sessions = sessions.map(|it| of_client(PlaceKind::Session, it.state.client));
        let parity = transports.parity.clients();
        let parity = parity.map(|it| of_client(PlaceKind::ParitySession, it));
        let tasks = dispatcher.deferred.tasks.table.holders();
        let tasks = tasks.map(|holder| HeldPlace { kind: PlaceKind::Task, holder });
        served.chain(sessions).chain(parity).chain(tasks).collect()
    }

    /// Returns the counters of this shard.
    pub fn counters(&self) -> Counters {
        let mut counters = self.outbox.counters.clone();
        self.transports.add_counters(&mut counters);
        self.dispatcher.add_counters(&mut counters);
        let (messages, shard) = (self.inbox.counts(), &mut counters.shard);
        (shard.messages_received, shard.messages_sent) = (messages.received, messages.sent);
        shard.messages_refused = messages.channel_full + messages.inbox_full;
        counters
    }

    /// Returns the exchanges of this shard with what their output passes through.
    pub(super) const fn exchanges(&mut self) -> ExchangePath<'_> {
        let Self { transports: Transports { http, connections, .. }, outbox, now, .. } = self;
        http.exchange_path(connections, outbox, *now)
    }

    /// Returns the sessions of the parity dialect with what their messages pass through.
    pub(super) const fn parity_path(&mut self) -> ParityPath<'_> {
        let Self { transports, dispatcher, outbox, now, .. } = self;
        transports.parity_path(dispatcher, outbox, *now)
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let open_work = self.open_work();
        write!(formatter, "Shard {{ id: {:?}, open_work: {open_work:?}, .. }}", self.id)
    }
}

impl Shard {
    /// Returns a shard without work.
    pub(super) fn new(
        id: ShardId,
        transports: Transports,
        dispatcher: Dispatcher,
        parser: Parser,
        limits: Arc<ShardLimits>,
        inbox: Inbox<ShardMessage>,
        outbox: Outbox,
    ) -> Self {
        Self {
            id,
            transports,
            parser,
            dispatcher,
            broadcaster: Broadcaster::default(),
            phase: ShardPhase::new(limits.drain),
            inbox,
            outbox,
            unsent_messages: UnsentMessages::default(),
            messages: Vec::new(),
            events: Vec::new(),
            limits,
            now: Instant::ORIGIN,
        }
    }
}

/// Logs how many messages were refused, at the end of a turn.
#[derive(Debug, Default)]
pub(super) struct UnsentMessages {
    /// The count that was logged last.
    logged: u64,
    throttle: EventThrottle,
}

impl UnsentMessages {
    /// Logs what was added to `total`, the messages refused since the start.
    #[inline]
    pub fn report(&mut self, ShardId(shard): ShardId, total: u64, now: Instant) {
        if total != self.logged {
            let refused = total - self.logged;
            self.logged = total;
            Event::MessagesNotSent { shard, refused }.emit_within(&mut self.throttle, now);
        }
    }
}

/// Returns what the shard of these components holds on behalf of clients.
#[inline]
pub(super) fn held_memory(transports: &Transports, dispatcher: &Dispatcher) -> HeldMemory {
    let Transports { connections, http, parity, .. } = transports;
    let Dispatcher { handlers, deferred, subscriptions, facts, auth, .. } = dispatcher;
    HeldMemory {
        connections: connections.shared.memory.held_bytes(),
        tls: transports.tls_bytes,
        sessions: http.sessions.held_bytes() + parity.held_bytes(),
        handlers: handlers.memory.held_bytes(),
        blocking_results: handlers.results.held_bytes(),
        task_results: deferred.tasks.table.usage().result_bytes,
        tasks: deferred.tasks.table.held_bytes(),
        subscriptions: subscriptions.held_bytes(),
        facts: facts.held_bytes(),
        tokens: auth.held_bytes(),
        kept: transports.kept_bytes(),
    }
}

/// Returns the bytes of tables and of buffers for reuse that are not accounted. Cost: a pass over
/// everything that is stored.
fn place_bytes(transports: &Transports, dispatcher: &Dispatcher) -> usize {
    let Transports { connections, http, parity, .. } = transports;
    let DeferredWork { calls, tasks, client_requests, .. } = &dispatcher.deferred;
    let of_connections = connections.table.iter().map(|(_, it)| it.state.place_bytes());
    let of_sessions = http.sessions.iter().map(HttpSession::place_bytes);
    let tables = [
        connections.place_bytes(),
        http.sessions.place_bytes(),
        parity.place_bytes(),
        calls.place_bytes(),
        tasks.table.place_bytes(),
        client_requests.place_bytes(),
    ];
    of_connections.chain(of_sessions).chain(tables).sum()
}

/// Returns what closing a connection frees: its input and output, what is kept of its peer, and
/// what the handlers of its calls hold.
pub(super) fn freeable_bytes(
    connection: &Connection<ConnectionState>,
    deferred: &DeferredWork,
) -> usize {
    let handlers = deferred.handler_bytes(&connection.state.in_flight);
    let facts = connection.state.facts_bytes();
    let facts = if facts > FACTS_BYTES_MIN { facts } else { 0 };
    connection.held_bytes() + facts + handlers
}

/// What is kept of a peer counts above this, which the handshakes of common clients do not reach:
/// a connection that holds nothing else is not closed, because that frees next to nothing.
const FACTS_BYTES_MIN: usize = 1 << 10;

impl From<&Shard> for MemoryReport {
    /// Cost: one pass over everything that is stored.
    fn from(shard: &Shard) -> Self {
        let Shard { transports, dispatcher, .. } = shard;
        let connections = || transports.connections.table.iter().map(|(_, it)| it);
        let is_closed = |it: &&Connection<ConnectionState>| {
            it.is_closed() || it.is_discarding() && it.state.violation.is_some()
        };
        let freeable = connections().filter(|it| !is_closed(it));
        let freeable = freeable.map(|it| freeable_bytes(it, &dispatcher.deferred));
        let detached = transports.parity.detached_holders().map(|holder| holder.bytes);
        let freeable = freeable.chain(detached).sum();
        let closed = connections().filter(is_closed);
        let closed = closed.map(|it| it.held_bytes() + it.state.facts_bytes()).sum();
        let of_connections = connections().map(|it| it.state.facts_bytes());
        let of_sessions = transports.http.sessions.iter().map(|it| it.state.facts_bytes());
        let (parity_sessions, parity_facts) = transports.parity.recount_bytes();
        let [handlers, task_results, tasks] = dispatcher.deferred.recount_bytes();
        let waiting = dispatcher.waiting.recount_bytes() + dispatcher.held.recount_bytes();
        let stored = HeldMemory {
            connections: connections().map(Connection::held_bytes).sum(),
            // The simulator has no TLS.
            tls: 0,
            sessions: transports.http.sessions.recount_bytes() + parity_sessions,
            handlers: handlers + waiting,
            // No blocking handlers run in the simulator.
            blocking_results: 0,
            task_results,
            tasks,
            subscriptions: dispatcher.subscriptions.recount_bytes(),
            facts: of_connections.chain(of_sessions).sum::<usize>() + parity_facts,
            tokens: dispatcher.auth.recount_bytes(),
            kept: transports.connections.shared.pool.large_bytes()
                + shard.parser.large_bytes()
                + transports.large_messages.held_bytes(),
        };
        let bytes_max = dispatcher.handlers.memory.limit().bytes_max();
        let accounted = held_memory(transports, dispatcher);
        let places = place_bytes(transports, dispatcher);
        Self { accounted, stored, places, closed, freeable, bytes_max }
    }
}
