//! Acceptance: listeners, connection limits, refusals.
//!
//! Invariants: a served connection is counted once against the limits of its transport and of its
//! address, over all shards; a rejected one is never counted there, and takes no place of a served
//! one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use crate::base::time::Instant;
use crate::connection::CloseReason;
use crate::engine::mesh::ShardId;
use crate::engine::ring::{Listener, Operation, Ring};
use crate::protocol::error::Error;
use crate::server::client_address::ClientAddress;
use crate::server::connection_count::{ConnectionCount, ConnectionLimit};
use crate::server::connection_state::ConnectionState;
use crate::server::outbox::Outbox;
use crate::server::shard_message::ShardLimits;
use crate::telemetry::event::Event;
use crate::telemetry::label::{RefusalReason, Transport};
use crate::telemetry::throttle::EventThrottle;

/// A listener and the transport of its connections.
#[derive(Clone, Copy, Debug)]
pub(in crate::server) struct ListenerEntry {
    pub(in crate::server) listener: Listener,
    pub(in crate::server) transport: Transport,
}

/// Why a connection is not served, and how it ends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct Refusal {
    pub(in crate::server) reason: RefusalReason,
    /// It receives an error response first, and is counted until it has closed.
    pub(in crate::server) has_response: bool,
}

/// Connections of a shard that may be open for their error response. Others are closed without one.
pub(in crate::server) const REJECTED_CONNECTIONS_MAX: u32 = 64;

/// The listeners of one shard, and the connection counts of all shards.
#[derive(Debug)]
pub(in crate::server) struct Acceptor {
    shard: ShardId,
    listeners: Vec<ListenerEntry>,
    tcp: TransportConnections,
    /// HTTP connections, WebSocket included.
    http: TransportConnections,
    /// Number of open connections of this shard that were rejected.
    rejected: u32,
    /// The listeners are closed: connections that were accepted before are rejected.
    is_closed: bool,
    events: EventThrottle,
}

/// The connections of one transport over all shards, and their limits.
#[derive(Debug)]
struct TransportConnections {
    count: Arc<ConnectionCount>,
    limit: ConnectionLimit,
}

impl Acceptor {
    pub(in crate::server) fn new(
        shard: ShardId,
        tcp_connections: Arc<ConnectionCount>,
        http_connections: Arc<ConnectionCount>,
        limits: &ShardLimits,
    ) -> Self {
        let [tcp, http] = connection_limits(limits);
        Self {
            shard,
            listeners: Vec::new(),
            tcp: TransportConnections { count: tcp_connections, limit: tcp },
            http: TransportConnections { count: http_connections, limit: http },
            rejected: 0,
            is_closed: false,
            events: EventThrottle::default(),
        }
    }

    /// Applies new limits. Connections that exceed one already stay open.
    pub(in crate::server) const fn set_limits(&mut self, limits: &ShardLimits) {
        [self.tcp.limit, self.http.limit] = connection_limits(limits);
    }

    /// Accepts connections of `listener`.
    pub(in crate::server) fn listen<R: Ring>(&mut self, ring: &mut R, entry: ListenerEntry) {
        self.listeners.push(entry);
        ring.submit(Operation::Accept(entry.listener));
    }

    /// Closes the listeners.
    pub(in crate::server) fn close<R: Ring>(&mut self, ring: &mut R) {
        self.is_closed = true;
        for entry in self.listeners.drain(..) {
            ring.submit(Operation::CloseListener(entry.listener));
        }
    }

    /// Returns the id of this shard.
    pub(in crate::server) const fn shard(&self) -> ShardId {
        self.shard
    }

    /// Returns the transport of the connections of `listener`.
    pub(in crate::server) fn transport_of(&self, listener: Listener) -> Transport {
        let entry = self.listeners.iter().find(|entry| entry.listener == listener);
        entry.map_or(Transport::Tcp, |entry| entry.transport)
    }

    /// Counts a new connection of `client` against the limits of its transport, or as a rejected
    /// one.
    ///
    /// # Errors
    ///
    /// The reason not to serve it.
    pub(in crate::server) fn admit(
        &mut self,
        transport: Transport,
        client: Option<ClientAddress>,
    ) -> Result<(), Refusal> {
        let TransportConnections { count, limit } = self.connections_of(transport);
        let admission = if self.is_closed {
            Err(RefusalReason::Draining)
        } else {
            count.acquire(client, *limit)
        };
        admission.map_err(|reason| {
            let has_response = self.rejected < REJECTED_CONNECTIONS_MAX;
            self.rejected += u32::from(has_response);
            Refusal { reason, has_response }
        })
    }

    /// Releases the count of a connection that has closed or was not opened.
    pub(in crate::server) fn release(&mut self, state: &ConnectionState) {
        match state.transport {
            // Never admitted.
            Transport::Stdio => {}
            transport if state.is_counted => {
                self.connections_of(transport).count.release(state.client);
            }
            _ => self.rejected -= 1,
        }
    }

    const fn connections_of(&self, transport: Transport) -> &TransportConnections {
        match transport {
            Transport::Http | Transport::WebSocket => &self.http,
            Transport::Tcp | Transport::Stdio => &self.tcp,
        }
    }

    /// Counts and logs a failed accept.
    pub(in crate::server) fn record_failure(
        &mut self,
        listener: Listener,
        error: &io::Error,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        outbox.counters.connections.accept_failed += 1;
        let transport = self.transport_of(listener);
        self.log(&Event::AcceptFailed { shard: self.shard.0, transport, error: error.kind() }, now);
    }

    /// Counts and logs a connection that is refused.
    pub(in crate::server) fn record_refusal(
        &mut self,
        reason: RefusalReason,
        (transport, peer): (Transport, Option<SocketAddr>),
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let counters = &mut outbox.counters.connections;
        match reason {
            RefusalReason::ConnectionLimit => counters.refused_limit += 1,
            RefusalReason::AddressShare => counters.refused_address_share += 1,
            RefusalReason::Draining => counters.refused_draining += 1,
        }
        let shard = self.shard.0;
        self.log(&Event::ConnectionRefused { shard, transport, reason, peer }, now);
    }

    /// Emits an event unless too many were emitted lately.
    pub(in crate::server) fn log(&mut self, event: &Event<'_>, now: Instant) {
        event.emit_within(&mut self.events, now);
    }

    /// Returns the number of events that were not emitted.
    pub(in crate::server) const fn events_suppressed(&self) -> u64 {
        self.events.suppressed_total()
    }
}

/// Returns the limits of TCP and HTTP connections.
const fn connection_limits(limits: &ShardLimits) -> [ConnectionLimit; 2] {
    [
        ConnectionLimit::new(limits.connections_max, limits.address_share),
        ConnectionLimit::new(limits.http_connections_max, limits.address_share),
    ]
}

/// Returns the error that a connection gets that is refused for `reason`.
pub(in crate::server) fn refusal_error(reason: RefusalReason) -> Error {
    match reason {
        RefusalReason::AddressShare => Error::address_connection_limit(),
        RefusalReason::ConnectionLimit => Error::connection_limit(),
        RefusalReason::Draining => Error::draining(),
    }
}

/// Counts a connection that has closed.
pub(in crate::server) const fn count_close(reason: CloseReason, outbox: &mut Outbox) {
    let connections = &mut outbox.counters.connections;
    connections.closed += 1;
    match reason {
        CloseReason::Drain => connections.closed_draining += 1,
        CloseReason::SocketError => connections.closed_socket_error += 1,
        CloseReason::ProtocolViolation => connections.closed_protocol_violation += 1,
        CloseReason::MemoryLimit => connections.closed_memory_limit += 1,
        CloseReason::IdleTimeout => connections.closed_idle_timeout += 1,
        CloseReason::MessageTimeout => connections.closed_message_timeout += 1,
        CloseReason::PeerClosed => connections.closed_by_peer += 1,
        // Rejected connections are counted when they are rejected.
        CloseReason::Refused => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_has_its_own_error() {
        let texts = [
            (RefusalReason::ConnectionLimit, "connection limit of the server reached"),
            (RefusalReason::AddressShare, "too many connections from this address"),
            (RefusalReason::Draining, "the server is shutting down"),
        ];
        for (reason, text) in texts {
            let error = refusal_error(reason);
            assert!(error.message.starts_with(text), "{error:?}");
            assert_eq!(error.code, 1001);
        }
    }
}
