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
use corelane_engine::ring::Shortage;

use crate::connection::{CloseReason, Codec, Connection};
use crate::server::acceptance::{ListenerKind, count_close, eviction_error};
use crate::server::connection_state::{ConnectionState, Standing};
use crate::server::outbox::Effect;
use crate::server::shard::Shard;
use crate::telemetry::event::Event;
use crate::telemetry::label::{RefusalReason, Transport};

/// Different samples of connections, one after the other.
const SAMPLES: u64 = 8191;

impl Shard {
    /// Counts a new connection. If it is not served, it may stay open for an error response, or
    /// until its first request decides about it; returns its standing, and why it is rejected.
    ///
    /// # Errors
    ///
    /// The reason to close it without a response.
    pub(super) fn admit_connection(
        &mut self,
        kind: ListenerKind,
        client: Option<ClientAddress>,
        shortage: Option<Shortage>,
    ) -> Result<(Standing, Option<RefusalReason>), RefusalReason> {
        let transport = kind.transport();
        let admitted = self.transports.acceptor.admit(kind, client, shortage, self.now);
        let admitted = match admitted {
            Err(reached) if self.evict_idle(transport, client, reached) => {
                self.transports.acceptor.acquire(transport, client)
            }
            admitted => admitted,
        };
        admitted.map(|standing| (standing, None)).or_else(|reason| {
            let connections = &self.transports.connections;
            let holder = |key| connections.table.get(key).and_then(|it| uncounted(key, it));
            let acceptor = &mut self.transports.acceptor;
            if let Some(excess) = acceptor.excess_uncounted(kind, reason, shortage, holder) {
                self.evict(excess);
            }
            self.transports.acceptor.admit_uncounted(kind, reason, shortage)
        })
    }

    /// Notes an open connection that no limit counts.
    pub(super) fn note_uncounted(&mut self, key: Key) {
        let connections = &self.transports.connections;
        let holder = |key| connections.table.get(key).and_then(|it| uncounted(key, it));
        self.transports.acceptor.note_uncounted(key, holder);
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
        let needs_token = self.dispatcher.auth.requires_tokens();
        let start = u32::try_from(self.now.milliseconds() % SAMPLES).unwrap_or_default();
        loop {
            let connections = &self.transports.connections;
            let input_pool = &self.transports.input_pool;
            let holder =
                |key, it| counted(key, it, transport, needs_token, input_pool.is_waiting(key));
            let holders = |of: Option<ClientAddress>| {
                let listed = connections.table.sample(HOLDERS_MAX, start);
                let holders = listed.filter_map(move |(key, it)| holder(key, it));
                holders.filter(move |it| of.is_none() || it.client == of)
            };
            let (acceptor, now) = (&mut self.transports.acceptor, self.now);
            let next = acceptor.next_eviction(transport, client, reached, now, holders);
            let Some(place) = next else { return false };
            // It may have been of use since.
            let known = connections.table.get(place.key).and_then(|it| holder(place.key, it));
            if place.is_free(known.and_then(|it| it.idle), now) {
                self.evict(place.key);
                return true;
            }
        }
    }

    /// Takes the place of a connection. It gets an error if there is room for that.
    fn evict(&mut self, key: Key) {
        let Some(connection) = self.transports.connections.table.get_mut(key) else { return };
        let (codec, peer) = (connection.codec(), connection.record.peer());
        let state = &mut connection.state;
        let (transport, is_counted) = (state.transport, state.standing.is_counted());
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

/// Returns the place of a connection that counts against the limits of `transport`, unless its
/// client is authenticated. With `needs_token` others are of no use. One that `waits` for room for
/// its message does nothing.
fn counted(
    key: Key,
    connection: &Connection<ConnectionState>,
    transport: Transport,
    needs_token: bool,
    waits: bool,
) -> Option<Holder<Key>> {
    let state = &connection.state;
    if state.transport != transport
        || state.standing != Standing::Served
        || state.principal().is_some()
    {
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
        Standing::Undecided | Standing::Surplus | Standing::Rejected => Usage::None,
        Standing::Exempt => Usage::Served,
        Standing::Served | Standing::Operator | Standing::Evicted => return None,
    };
    let idle = match usage {
        Usage::Served => connection.idle_since().filter(|_| state.exchange.is_none()),
        _ => Some(connection.record.opened_at()),
    };
    let idle = idle.filter(|_| !connection.is_closed()).map(|since| Idle { usage, since });
    Some(Holder { key, client: state.counted_address(), idle })
}
