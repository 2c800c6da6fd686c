//! Places of connections: at a limit a new connection gets that of an idle one.
//!
//! Invariants: a connection keeps its place while it is busy, while its client is authenticated,
//! and for a second after it was last of use; for a second after it has begun unless its network
//! has many that were of no use. What was evicted counts against no
//! limit, and nothing of it is on the path of requests: connections are looked at when a place is
//! missing.

use corelane_base::client_address::ClientAddress;
use corelane_base::eviction::{GRACE, HOLDERS_MAX, Holder, Idle, Usage};
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::ring::Shortage;

use crate::connection::{CloseReason, Codec, Connection, Connections};
use crate::server::acceptance::{Acceptor, ListenerKind, count_close, eviction_error};
use crate::server::connection_state::{ConnectionState, Standing};
use crate::server::memory::input_pool::InputPool;
use crate::server::outbox::Effect;
use crate::server::parity::ParitySessions;
use crate::server::shard::{Shard, Transports};
use crate::telemetry::event::Event;
use crate::telemetry::label::{RefusalReason, Transport};

/// Different samples of connections, one after the other.
const SAMPLES: u64 = 8191;

impl Shard {
    /// Notes an open connection that no limit counts.
    pub(super) fn note_uncounted(&mut self, key: Key) {
        let connections = &self.transports.connections;
        let holder = |key| connections.table.get(key).and_then(|it| uncounted(key, it));
        self.transports.acceptor.note_uncounted(key, holder);
    }

    /// Returns the connection that has to end for one that is not served for `reason`.
    pub(super) fn excess_uncounted(
        &mut self,
        kind: ListenerKind,
        reason: RefusalReason,
        shortage: Option<Shortage>,
        needs_token: bool,
    ) -> Option<Key> {
        let connections = &self.transports.connections;
        let holder = |key| connections.table.get(key).and_then(|it| uncounted(key, it));
        let acceptor = &mut self.transports.acceptor;
        acceptor.excess_uncounted(kind, reason, shortage, needs_token, holder)
    }

    /// Evicts an idle connection for a new one of `client` that has `reached` a limit. Returns
    /// whether a place is free.
    #[cold]
    pub(super) fn evict_idle(
        &mut self,
        transport: Transport,
        client: Option<ClientAddress>,
        reached: RefusalReason,
    ) -> bool {
        let now = self.now;
        loop {
            let (acceptor, search) = self.place_search(transport);
            let holders = |of| search.holders(of);
            let next = acceptor.next_eviction(transport, client, reached, now, holders);
            let Some(place) = next else { return false };
            // It may have been of use since.
            let known = search.holder(place.key);
            if place.is_free(known.and_then(|it| it.idle), now) {
                self.evict(place.key);
                return true;
            }
        }
    }

    /// Returns whether [`Shard::evict_idle`] finds a connection.
    #[cold]
    pub(super) fn has_idle(
        &mut self,
        transport: Transport,
        client: Option<ClientAddress>,
        reached: RefusalReason,
    ) -> bool {
        let now = self.now;
        let (acceptor, search) = self.place_search(transport);
        acceptor.has_eviction(transport, client, reached, now, |of| search.holders(of))
    }

    fn place_search(&mut self, transport: Transport) -> (&mut Acceptor, PlaceSearch<'_>) {
        let Transports { connections, acceptor, input_pool, parity, .. } = &mut self.transports;
        let needs_token = self.dispatcher.auth.requires_tokens();
        let start = sample_at(self.now);
        let search = PlaceSearch { connections, input_pool, parity, transport, needs_token, start };
        (acceptor, search)
    }

    /// Evicts a silent connection for a new one of `client`. Returns whether there was one.
    #[cold]
    pub(super) fn evict_silent(&mut self, client: Option<ClientAddress>) -> bool {
        let (now, start) = (self.now, sample_at(self.now));
        loop {
            let Transports { connections, acceptor, .. } = &mut self.transports;
            let table = &connections.table;
            let holders =
                |_| table.sample(HOLDERS_MAX, start).filter_map(|(key, it)| silent(key, it));
            let Some(place) = acceptor.next_silent_eviction(client, now, holders) else {
                return false;
            };
            if table.get(place.key).is_some_and(|it| silent(place.key, it).is_some()) {
                self.evict(place.key);
                return true;
            }
        }
    }

    /// Takes the place of a connection. It gets an error if there is room for that.
    pub(super) fn evict(&mut self, key: Key) {
        let Some(connection) = self.transports.connections.table.get_mut(key) else { return };
        let (codec, peer) = (connection.codec(), connection.record.peer());
        let state = &mut connection.state;
        let (transport, is_counted) = (state.transport, state.standing.is_counted());
        self.outbox.counters.connections.accepted += u64::from(state.standing == Standing::Silent);
        let acceptor = &mut self.transports.acceptor;
        let may_respond = acceptor.evict(state);
        let reason = CloseReason::Evicted;
        if is_counted {
            count_close(reason, &mut self.outbox);
            let shard = acceptor.shard().0;
            acceptor.log(&Event::ConnectionEvicted { shard, transport, peer }, self.now);
        }
        if !may_respond {
            return self.outbox.push(Effect::Cut { key, reason });
        }
        if codec == Codec::Ndjson {
            self.send_error(key, &eviction_error());
        }
        self.note_uncounted(key);
        self.outbox.push(Effect::Close { key, reason });
    }
}

/// What a search of connections with a place looks at.
struct PlaceSearch<'a> {
    connections: &'a Connections<ConnectionState>,
    input_pool: &'a InputPool,
    parity: &'a ParitySessions,
    transport: Transport,
    needs_token: bool,
    start: u32,
}

impl<'a> PlaceSearch<'a> {
    /// Lists connections with a place: those of the address, if there is one.
    fn holders(
        &self,
        of: Option<ClientAddress>,
    ) -> impl Iterator<Item = Holder<Key>> + use<'_, 'a> {
        let listed = self.connections.table.sample(HOLDERS_MAX, self.start);
        let holders = listed.filter_map(|(key, it)| self.holder_of(key, it));
        holders.filter(move |it| of.is_none() || it.client == of)
    }

    fn holder(&self, key: Key) -> Option<Holder<Key>> {
        self.holder_of(key, self.connections.table.get(key)?)
    }

    fn holder_of(&self, key: Key, connection: &Connection<ConnectionState>) -> Option<Holder<Key>> {
        let is_authenticated = self.parity.is_authenticated(&connection.state);
        let waits = self.input_pool.is_waiting(key);
        (!is_authenticated)
            .then(|| counted(key, connection, self.transport, self.needs_token, waits))
            .flatten()
    }
}

/// Returns where a search begins that looks at some of the connections.
fn sample_at(now: Instant) -> u32 {
    u32::try_from(now.milliseconds() % SAMPLES).unwrap_or_default()
}

/// Returns a connection from which no byte has arrived.
fn silent(key: Key, connection: &Connection<ConnectionState>) -> Option<Holder<Key>> {
    let state = &connection.state;
    let since = connection.idle_since().filter(|_| state.standing == Standing::Silent)?;
    let idle = Some(Idle { usage: Usage::None, since });
    Some(Holder { key, client: state.counted_address(), idle })
}

/// Returns the place of a connection that counts against the limits of `transport`; its client is
/// not authenticated. With `needs_token` others are of no use. One that `waits` for room for
/// its message does nothing.
fn counted(
    key: Key,
    connection: &Connection<ConnectionState>,
    transport: Transport,
    needs_token: bool,
    waits: bool,
) -> Option<Holder<Key>> {
    let state = &connection.state;
    if state.transport != transport || state.standing != Standing::Served {
        return None;
    }
    let is_busy = state.exchange.is_some() || !state.in_flight.is_empty();
    let opened = connection.record.opened_at();
    let idle_since = if waits { Some(opened) } else { connection.idle_since() };
    let idle = idle_since.filter(|_| !is_busy).map(|active| {
        // The upgrade is not one of the messages of a WebSocket.
        let upgrades = u64::from(transport == Transport::WebSocket);
        let is_served = connection.record.traffic.messages_in > upgrades && !needs_token;
        let usage = match (is_served, connection.is_inside_message()) {
            (true, _) => Usage::Served,
            (false, true) => Usage::Begun,
            (false, false) => Usage::None,
        };
        // What is refused makes it no younger.
        Idle { usage, since: if is_served { active } else { active.min(opened.after(GRACE)) } }
    });
    Some(Holder { key, client: state.counted_address(), idle })
}

/// Returns the place of a connection that no limit counts.
fn uncounted(key: Key, connection: &Connection<ConnectionState>) -> Option<Holder<Key>> {
    let state = &connection.state;
    let usage = match state.standing {
        // An authorization server is asked about its token.
        Standing::Undecided if connection.holds_complete_request() => Usage::Begun,
        Standing::Undecided | Standing::Surplus | Standing::Rejected => Usage::None,
        Standing::Exempt => Usage::Served,
        Standing::Silent | Standing::Served | Standing::Operator | Standing::Evicted => {
            return None;
        }
    };
    let idle = match usage {
        Usage::Served => connection.idle_since().filter(|_| state.exchange.is_none()),
        _ => Some(connection.record.opened_at()),
    };
    let idle = idle.filter(|_| !connection.is_closed()).map(|since| Idle { usage, since });
    Some(Holder { key, client: state.counted_address(), idle })
}
