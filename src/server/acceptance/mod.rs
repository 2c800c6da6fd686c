//! Acceptance: listeners, connection limits, refusals.
//!
//! Invariants: a served connection is counted once against the limits of its transport and of its
//! address, over all shards; one that is rejected or sends requests of operators only is never
//! counted there, and takes no place of a served one. Served connections leave descriptors for
//! error responses to others and for the files of handlers.
//!
//! A connection takes its place with its first byte. At a limit it gets that of an idle one of this
//! shard, if there is one that may lose it; at those of silent and of uncounted ones, always.

mod connection_count;
mod errors;
mod uncounted;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use corelane_base::client_address::ClientAddress;
use corelane_base::eviction::{Evictions, FoundPlace, Holder, Scope};
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_base::trusted_proxies::TrustedProxies;
use corelane_engine::mesh::ShardId;
use corelane_engine::ring::{Listener, Operation, Ring, SPARE_SOCKETS_MAX, Shortage, SocketLimit};
use corelane_transport::http::forwarded::ForwardedField;

pub(super) use self::connection_count::ConnectionCount;
use self::connection_count::ConnectionLimit;
pub(super) use self::errors::{eviction_error, refusal_error};
use self::uncounted::Uncounted;
use super::connection_state::{ConnectionState, Standing};
use super::outbox::Outbox;
use super::rate::RateSource;
use super::shard_message::{ConnectionsMax, ShardLimits};
use crate::connection::{CloseReason, Codec, ConnectionRecord};
use crate::guard::pressure::PressureStep;
use crate::telemetry::event::Event;
use crate::telemetry::label::{RefusalReason, Transport};
use crate::telemetry::throttle::{EventThrottle, MinuteThrottle};

/// The connections that a listener accepts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ListenerKind {
    /// Clients over this transport.
    Clients(Transport),
    /// Operators, over HTTP.
    Operators,
}

/// Which proxies are trusted, and where they name the clients of HTTP requests.
#[derive(Clone, Debug)]
pub(super) struct ProxyRules {
    pub trusted: TrustedProxies,
    pub field: ForwardedField,
}

/// A listener and the connections that it accepts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListenerEntry {
    pub listener: Listener,
    pub kind: ListenerKind,
    /// The codec of the connections.
    pub codec: Codec,
}

/// The numbers of connections of all shards.
#[derive(Clone, Debug, Default)]
pub(super) struct ConnectionCounts {
    pub tcp: Arc<ConnectionCount>,
    pub http: Arc<ConnectionCount>,
    pub websocket: Arc<ConnectionCount>,
}

/// Connections of a shard that may be open beyond the limits, for requests of operators or an error
/// response. Others are closed without one.
const UNCOUNTED_CONNECTIONS_MAX: u32 = 64;

/// Connections of a shard that its listener of operators may have open.
const OPERATOR_CONNECTIONS_MAX: u32 = 64;

/// Connections of a shard that may be open beyond the limits, those included that are about to be
/// closed without a response.
pub(super) const SPARE_CONNECTIONS_MAX: u32 =
    2 * UNCOUNTED_CONNECTIONS_MAX + OPERATOR_CONNECTIONS_MAX;

const _: () = assert!(SPARE_CONNECTIONS_MAX == SPARE_SOCKETS_MAX);

/// The listeners of one shard, and the connection counts of all shards.
#[derive(Debug)]
pub(super) struct Acceptor {
    shard: ShardId,
    listeners: Vec<ListenerEntry>,
    tcp: TransportConnections,
    http: TransportConnections,
    websocket: TransportConnections,
    /// Number of silent connections of this shard.
    silent: usize,
    /// Which of them ends for a new one.
    silent_evictions: Evictions<Key>,
    /// The open connections of this shard that no limit of a transport counts.
    uncounted: Uncounted,
    /// Number of open connections of the listener of operators.
    operators: u32,
    /// The listeners are closed: connections that were accepted before are rejected.
    is_closed: bool,
    /// Connections are refused while memory is short.
    pressure: PressureStep,
    rates: Arc<RateSource>,
    pub proxies: ProxyRules,
    /// When the ages of connections are looked at, if they have a limit.
    pub age_check_at: Instant,
    events: EventThrottle,
    close_events: EventThrottle,
    descriptor_events: MinuteThrottle,
    failure_events: MinuteThrottle,
}

/// The connections of one transport over all shards, and their limits.
#[derive(Debug)]
struct TransportConnections {
    count: Arc<ConnectionCount>,
    limit: ConnectionLimit,
    evictions: Evictions<Key>,
}

impl TransportConnections {
    fn new(count: Arc<ConnectionCount>, limit: ConnectionLimit) -> Self {
        Self { count, limit, evictions: Evictions::default() }
    }
}

impl ListenerKind {
    /// Returns the transport of the connections.
    pub const fn transport(self) -> Transport {
        match self {
            Self::Clients(transport) => transport,
            Self::Operators => Transport::Http,
        }
    }
}

impl Acceptor {
    pub fn new(
        shard: ShardId,
        counts: ConnectionCounts,
        rates: Arc<RateSource>,
        proxies: ProxyRules,
        limits: &ShardLimits,
    ) -> Self {
        let [tcp, http, websocket] = connection_limits(limits);
        Self {
            shard,
            listeners: Vec::new(),
            tcp: TransportConnections::new(counts.tcp, tcp),
            http: TransportConnections::new(counts.http, http),
            websocket: TransportConnections::new(counts.websocket, websocket),
            silent: 0,
            silent_evictions: Evictions::default(),
            uncounted: Uncounted::default(),
            operators: 0,
            is_closed: false,
            pressure: PressureStep::None,
            rates,
            proxies,
            age_check_at: Instant::ORIGIN,
            events: EventThrottle::default(),
            close_events: EventThrottle::default(),
            descriptor_events: MinuteThrottle::default(),
            failure_events: MinuteThrottle::default(),
        }
    }

    /// Applies new limits. Connections that exceed one already stay open.
    pub const fn set_limits(&mut self, limits: &ShardLimits) {
        [self.tcp.limit, self.http.limit, self.websocket.limit] = connection_limits(limits);
    }

    /// Accepts connections of `listener`.
    pub fn listen<R: Ring>(&mut self, ring: &mut R, entry: ListenerEntry) {
        self.listeners.push(entry);
        ring.submit(Operation::Accept(entry.listener));
    }

    /// Closes the listeners, once. Their entries stay: a connection that was accepted before and is
    /// opened later is rejected over the transport of its listener.
    pub fn close<R: Ring>(&mut self, ring: &mut R) {
        self.is_closed = true;
        for entry in &self.listeners {
            ring.submit(Operation::CloseListener(entry.listener));
        }
    }

    /// Sets the step of memory pressure.
    pub const fn set_pressure(&mut self, step: PressureStep) {
        self.pressure = step;
    }

    /// Returns the step of memory pressure.
    pub const fn pressure(&self) -> PressureStep {
        self.pressure
    }

    fn is_short_of_memory(&self) -> bool {
        self.pressure >= PressureStep::RefuseConnections
    }

    /// Returns the id of this shard.
    pub const fn shard(&self) -> ShardId {
        self.shard
    }

    /// Returns the entry of `listener`, also once it is closed.
    pub fn entry_of(&self, listener: Listener) -> ListenerEntry {
        let entry = self.listeners.iter().find(|entry| entry.listener == listener);
        debug_assert!(entry.is_some(), "a ring accepts for listeners of its shard only");
        let kind = ListenerKind::Clients(Transport::Tcp);
        entry.copied().unwrap_or(ListenerEntry { listener, kind, codec: Codec::Ndjson })
    }

    /// Returns the standing of a new connection of `client`: one of a client is silent, and counted
    /// with its first byte.
    ///
    /// # Errors
    ///
    /// Why it is not served.
    pub fn admit(
        &mut self,
        kind: ListenerKind,
        client: Option<ClientAddress>,
        shortage: Option<Shortage>,
        now: Instant,
    ) -> Result<Standing, RefusalReason> {
        match kind {
            _ if self.is_closed => Err(RefusalReason::Draining),
            ListenerKind::Operators if self.operators < OPERATOR_CONNECTIONS_MAX => {
                self.operators += 1;
                Ok(Standing::Operator)
            }
            ListenerKind::Operators => Err(RefusalReason::ConnectionLimit),
            ListenerKind::Clients(_) if self.is_short_of_memory() => Err(RefusalReason::Memory),
            ListenerKind::Clients(_) if self.exceeds_rate(client, now) => Err(RefusalReason::Rate),
            ListenerKind::Clients(_) if shortage.is_some() => Err(RefusalReason::Descriptors),
            ListenerKind::Clients(_) => Ok(Standing::Silent),
        }
    }

    /// Counts a connection of `client`, which `is_proven` if it is authenticated, against the
    /// limits of its transport.
    ///
    /// # Errors
    ///
    /// The limit that is reached.
    pub fn acquire(
        &self,
        transport: Transport,
        client: Option<ClientAddress>,
        is_proven: bool,
    ) -> Result<(), RefusalReason> {
        let TransportConnections { count, limit, .. } = self.connections_of(transport);
        count.acquire(client, is_proven, *limit)
    }

    /// Returns whether a connection of `client`, which is not authenticated, finds a place.
    ///
    /// # Errors
    ///
    /// The limit that is reached.
    pub fn check(
        &self,
        transport: Transport,
        client: Option<ClientAddress>,
    ) -> Result<(), RefusalReason> {
        let TransportConnections { count, limit, .. } = self.connections_of(transport);
        count.check(client, *limit)
    }

    /// Returns the number of silent connections of this shard.
    pub const fn silent(&self) -> usize {
        self.silent
    }

    /// Counts a silent connection that is opened.
    pub const fn begin_silent(&mut self) {
        self.silent += 1;
    }

    /// Ends the count of a silent connection, whose first byte has arrived.
    pub const fn end_silent(&mut self) {
        self.silent -= 1;
    }

    /// Counts a served connection as that of an authenticated client from now on.
    #[cold]
    pub fn prove(&self, state: &mut ConnectionState) {
        debug_assert_eq!((state.standing, state.is_proven), (Standing::Served, false));
        self.connections_of(state.transport).count.prove();
        state.is_proven = true;
    }

    /// Decides about a new connection that is not served for `reason`. Returns its standing, and
    /// the reason if it is rejected; otherwise its first request decides: operators are served
    /// beyond the limits, and where `needs_token` clients with one from the reserve. Such a
    /// connection may have one too many open without a count: end [`Acceptor::excess_uncounted`]
    /// before.
    ///
    /// # Errors
    ///
    /// The reason, if the connection is to be closed without a response.
    pub fn admit_uncounted(
        &mut self,
        kind: ListenerKind,
        reason: RefusalReason,
        shortage: Option<Shortage>,
        needs_token: bool,
    ) -> Result<(Standing, Option<RefusalReason>), RefusalReason> {
        let is_limit_of_operators =
            kind == ListenerKind::Operators && reason == RefusalReason::ConnectionLimit;
        if self.uncounted.is_full() || is_limit_of_operators {
            return Err(reason);
        }
        self.uncounted.acquire();
        let standing = undecided(kind, reason, shortage, needs_token);
        Ok(standing.map_or((Standing::Rejected, Some(reason)), |standing| (standing, None)))
    }

    /// Returns the connection that has to end for one that is not served for `reason`, but whose
    /// first request decides: one that is not counted, if there are too many.
    pub fn excess_uncounted(
        &mut self,
        kind: ListenerKind,
        reason: RefusalReason,
        shortage: Option<Shortage>,
        needs_token: bool,
        holder: impl Fn(Key) -> Option<Holder<Key>>,
    ) -> Option<Key> {
        let is_undecided = undecided(kind, reason, shortage, needs_token).is_some();
        if is_undecided && self.uncounted.is_full() { self.uncounted.first(holder) } else { None }
    }

    /// Notes the key of an open connection that is not counted.
    pub fn note_uncounted(&mut self, key: Key, holder: impl Fn(Key) -> Option<Holder<Key>>) {
        self.uncounted.push(key, holder);
    }

    /// Returns a connection whose place a new one of `client` over `transport` gets, if it gets
    /// one. `holders` lists those with a place, of the address if there is one.
    pub fn next_eviction<I: Iterator<Item = Holder<Key>>>(
        &mut self,
        transport: Transport,
        client: Option<ClientAddress>,
        reached: RefusalReason,
        now: Instant,
        holders: impl FnOnce(Option<ClientAddress>) -> I,
    ) -> Option<FoundPlace<Key>> {
        let (evictions, scope) = self.evictions_at(transport, reached)?;
        evictions.next(client, scope, now, holders)
    }

    /// Returns whether [`Acceptor::next_eviction`] returns a connection.
    pub fn has_eviction<I: Iterator<Item = Holder<Key>>>(
        &mut self,
        transport: Transport,
        client: Option<ClientAddress>,
        reached: RefusalReason,
        now: Instant,
        holders: impl FnOnce(Option<ClientAddress>) -> I,
    ) -> bool {
        let evictions = self.evictions_at(transport, reached);
        evictions.is_some_and(|(it, scope)| it.has_next(client, scope, now, holders))
    }

    /// Returns the silent connection that ends for a new one of `client`.
    pub fn next_silent_eviction<I: Iterator<Item = Holder<Key>>>(
        &mut self,
        client: Option<ClientAddress>,
        now: Instant,
        holders: impl FnOnce(Option<ClientAddress>) -> I,
    ) -> Option<FoundPlace<Key>> {
        self.silent_evictions.next(client, Scope::Unused, now, holders)
    }

    /// Returns which connections lose their places at a limit, if any do.
    fn evictions_at(
        &mut self,
        transport: Transport,
        reached: RefusalReason,
    ) -> Option<(&mut Evictions<Key>, Scope)> {
        let scope = match reached {
            RefusalReason::ConnectionLimit => Scope::All,
            RefusalReason::AddressShare => Scope::Address,
            RefusalReason::Descriptors
            | RefusalReason::Draining
            | RefusalReason::Memory
            | RefusalReason::Rate => return None,
        };
        let TransportConnections { count, limit, evictions } = self.connections_of_mut(transport);
        // Connections stay open that a lowered limit no longer allows.
        (!count.exceeds(*limit)).then_some((evictions, scope))
    }

    /// Releases the count of a connection that is evicted. Returns whether it may stay open for an
    /// error response.
    pub fn evict(&mut self, state: &mut ConnectionState) -> bool {
        self.release(state);
        let may_respond = state.standing == Standing::Served && !self.uncounted.is_full();
        state.standing = if may_respond {
            self.uncounted.acquire();
            Standing::Rejected
        } else {
            Standing::Evicted
        };
        may_respond
    }

    /// Counts a connection against the rate of its address. Returns whether it exceeds the rate.
    fn exceeds_rate(&self, client: Option<ClientAddress>, now: Instant) -> bool {
        client.is_some_and(|client| self.rates.admit_connection(client, now).is_err())
    }

    /// Counts a connection against the limits of its transport, before its first request of a
    /// client, which `is_proven` if it is authenticated.
    ///
    /// # Errors
    ///
    /// The limit that is reached.
    pub fn serve(
        &mut self,
        state: &mut ConnectionState,
        is_proven: bool,
    ) -> Result<(), RefusalReason> {
        if state.standing == Standing::Surplus {
            return Err(RefusalReason::Descriptors);
        }
        if matches!(state.standing, Standing::Undecided | Standing::Exempt) {
            if self.is_short_of_memory() {
                return Err(RefusalReason::Memory);
            }
            self.acquire(state.transport, state.counted_address(), is_proven)?;
            (state.standing, state.is_proven) = (Standing::Served, is_proven);
            self.uncounted.release();
        }
        Ok(())
    }

    /// Counts a served HTTP connection as a WebSocket connection instead: one of the client of the
    /// upgrade, if it is of a proxy.
    ///
    /// # Errors
    ///
    /// The limit that is reached. The connection stays HTTP.
    pub fn upgrade(&self, state: &mut ConnectionState) -> Result<(), RefusalReason> {
        debug_assert_eq!((state.transport, state.standing), (Transport::Http, Standing::Served));
        self.websocket.count.acquire(state.client, state.is_proven, self.websocket.limit)?;
        self.http.count.release(state.counted_address(), state.is_proven);
        state.transport = Transport::WebSocket;
        Ok(())
    }

    /// Releases the count of a connection that sends a request of an operator, if there is space
    /// for one that is not counted.
    ///
    /// A connection that was counted is to be noted by [`Acceptor::note_uncounted`].
    pub fn exempt(&mut self, state: &mut ConnectionState) {
        match state.standing {
            Standing::Undecided | Standing::Surplus => state.standing = Standing::Exempt,
            Standing::Served if !self.uncounted.is_full() => {
                let count = &self.connections_of(state.transport).count;
                count.release(state.counted_address(), state.is_proven);
                self.uncounted.acquire();
                (state.standing, state.is_proven) = (Standing::Exempt, false);
            }
            Standing::Silent
            | Standing::Served
            | Standing::Exempt
            | Standing::Operator
            | Standing::Rejected
            | Standing::Evicted => {}
        }
    }

    /// Logs a connection that has closed.
    #[cold]
    pub fn log_close(
        &mut self,
        transport: Transport,
        record: &ConnectionRecord,
        reason: CloseReason,
        now: Instant,
    ) {
        let event = Event::ConnectionClosed {
            shard: self.shard.0,
            transport,
            reason: reason.as_str(),
            peer: record.peer(),
            open: now.since(record.opened_at()),
            traffic: record.traffic,
        };
        event.emit_within(&mut self.close_events, now);
    }

    /// Releases the count of a connection that has closed or was not opened.
    pub fn release(&mut self, state: &ConnectionState) {
        match (state.transport, state.standing) {
            // Never admitted, or released when it lost its place.
            (Transport::InProcess | Transport::Stdio, _) | (_, Standing::Evicted) => {}
            (_, Standing::Silent) => self.end_silent(),
            (transport, Standing::Served) => {
                let count = &self.connections_of(transport).count;
                count.release(state.counted_address(), state.is_proven);
            }
            (_, Standing::Operator) => self.operators -= 1,
            (
                _,
                Standing::Undecided | Standing::Surplus | Standing::Exempt | Standing::Rejected,
            ) => self.uncounted.release(),
        }
    }

    /// Returns the numbers of connections of all shards that count against the limits.
    pub fn open_connections(&self) -> [(Transport, usize); 3] {
        [Transport::Tcp, Transport::Http, Transport::WebSocket]
            .map(|transport| (transport, self.connections_of(transport).count.total()))
    }

    const fn connections_of(&self, transport: Transport) -> &TransportConnections {
        match transport {
            Transport::Http => &self.http,
            Transport::WebSocket => &self.websocket,
            Transport::InProcess | Transport::Stdio | Transport::Tcp => &self.tcp,
        }
    }

    const fn connections_of_mut(&mut self, transport: Transport) -> &mut TransportConnections {
        match transport {
            Transport::Http => &mut self.http,
            Transport::WebSocket => &mut self.websocket,
            Transport::InProcess | Transport::Stdio | Transport::Tcp => &mut self.tcp,
        }
    }

    /// Counts a failed accept, and logs one a minute: it is tried again until it succeeds.
    pub fn record_failure(
        &mut self,
        transport: Transport,
        error: &io::Error,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        outbox.counters.connections.accept_failed += 1;
        if let Some(suppressed) = self.failure_events.admit(now) {
            let shard = self.shard.0;
            Event::AcceptFailed { shard, transport, error }.emit_suppressed(suppressed);
        }
    }

    /// Logs that sockets are short, once a minute.
    #[cold]
    pub fn log_shortage(&mut self, shortage: Shortage, now: Instant) {
        let Some(suppressed) = self.descriptor_events.admit(now) else { return };
        let (limit, most, hint) = match shortage.limit {
            SocketLimit::OpenFiles(most) => {
                ("open files (RLIMIT_NOFILE)", most, "raise it: ulimit -n, LimitNOFILE=")
            }
            SocketLimit::SocketsMax(most) => ("ring.sockets_max", most, "raise the option"),
        };
        let shard = self.shard.0;
        Event::DescriptorsShort { shard, limit, most, hint }.emit_suppressed(suppressed);
    }

    /// Counts and logs a connection that is refused.
    pub fn record_refusal(
        &mut self,
        reason: RefusalReason,
        transport: Transport,
        peer: Option<SocketAddr>,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let counters = &mut outbox.counters.connections;
        match reason {
            RefusalReason::ConnectionLimit => counters.refused_limit += 1,
            RefusalReason::AddressShare => counters.refused_address_share += 1,
            RefusalReason::Descriptors => counters.refused_descriptors += 1,
            RefusalReason::Rate => counters.refused_rate += 1,
            RefusalReason::Draining => counters.refused_draining += 1,
            RefusalReason::Memory => outbox.counters.overload.refused_memory += 1,
        }
        let shard = self.shard.0;
        self.log(&Event::ConnectionRefused { shard, transport, reason, peer }, now);
    }

    /// Emits an event unless too many were emitted lately.
    pub fn log(&mut self, event: &Event<'_>, now: Instant) {
        event.emit_within(&mut self.events, now);
    }

    /// Returns the number of events that were not emitted.
    pub const fn events_suppressed(&self) -> u64 {
        self.events.suppressed_total()
    }
}

/// Returns the standing of a new connection that is not served for `reason` if its first request
/// decides about it, as an operator's would, or where each client `needs_token` one with a valid
/// one.
fn undecided(
    kind: ListenerKind,
    reason: RefusalReason,
    shortage: Option<Shortage>,
    needs_token: bool,
) -> Option<Standing> {
    let is_full = reason == RefusalReason::ConnectionLimit;
    match kind {
        ListenerKind::Clients(Transport::Http) => {}
        ListenerKind::Clients(Transport::Tcp) if needs_token && is_full => {}
        ListenerKind::Clients(_) | ListenerKind::Operators => return None,
    }
    match reason {
        RefusalReason::Draining | RefusalReason::Rate => None,
        RefusalReason::Descriptors if shortage.is_some_and(|it| it.is_severe) => None,
        RefusalReason::Descriptors => Some(Standing::Surplus),
        RefusalReason::AddressShare | RefusalReason::ConnectionLimit | RefusalReason::Memory => {
            Some(Standing::Undecided)
        }
    }
}

/// Returns the limits of TCP, HTTP and WebSocket connections.
const fn connection_limits(limits: &ShardLimits) -> [ConnectionLimit; 3] {
    let ConnectionsMax { tcp, http, websocket, per_address } = limits.connections_max;
    let share = limits.address_share;
    [
        ConnectionLimit::new(tcp, share, per_address),
        ConnectionLimit::new(http, share, per_address),
        ConnectionLimit::new(websocket, share, per_address),
    ]
}

/// Counts a connection that has closed.
pub(super) const fn count_close(reason: CloseReason, outbox: &mut Outbox) {
    let connections = &mut outbox.counters.connections;
    connections.closed += 1;
    match reason {
        CloseReason::Drain => connections.closed_draining += 1,
        CloseReason::SocketError => connections.closed_socket_error += 1,
        CloseReason::ProtocolViolation => connections.closed_protocol_violation += 1,
        CloseReason::MemoryLimit => connections.closed_memory_limit += 1,
        CloseReason::IdleTimeout => connections.closed_idle_timeout += 1,
        CloseReason::MessageTimeout => connections.closed_message_timeout += 1,
        CloseReason::InvalidCredential => connections.closed_invalid_credential += 1,
        CloseReason::Lifetime => connections.closed_lifetime += 1,
        CloseReason::Evicted => connections.closed_evicted += 1,
        CloseReason::PeerClosed => connections.closed_by_peer += 1,
        // Rejected connections are counted when they are rejected.
        CloseReason::Refused => {}
    }
}
