//! Acceptance: listeners, connection limits, refusals.
//!
//! Invariants: a served connection is counted once against the limit of its transport, over all
//! shards; a rejected one is never counted.

use std::io;
use std::sync::Arc;

use crate::base::time::Instant;
use crate::connection::CloseReason;
use crate::engine::mesh::{ShardId, SharedCounter};
use crate::engine::ring::{Listener, Operation, Ring};
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

/// The listeners of one shard, and the connection counts of all shards.
#[derive(Debug)]
pub(in crate::server) struct Acceptor {
    shard: ShardId,
    listeners: Vec<ListenerEntry>,
    /// Number of TCP connections of all shards.
    tcp_connections: Arc<SharedCounter>,
    /// Number of HTTP connections of all shards, WebSocket included.
    http_connections: Arc<SharedCounter>,
    tcp_connections_max: usize,
    http_connections_max: usize,
    /// The listeners are closed: connections that were accepted before are rejected.
    is_closed: bool,
    events: EventThrottle,
}

impl Acceptor {
    pub(in crate::server) fn new(
        shard: ShardId,
        tcp_connections: Arc<SharedCounter>,
        http_connections: Arc<SharedCounter>,
        limits: &ShardLimits,
    ) -> Self {
        Self {
            shard,
            listeners: Vec::new(),
            tcp_connections,
            http_connections,
            tcp_connections_max: limits.connections_max,
            http_connections_max: limits.http_connections_max,
            is_closed: false,
            events: EventThrottle::default(),
        }
    }

    /// Applies new limits. Connections that exceed one already stay open.
    pub(in crate::server) const fn set_limits(&mut self, limits: &ShardLimits) {
        self.tcp_connections_max = limits.connections_max;
        self.http_connections_max = limits.http_connections_max;
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

    /// Counts a new connection against the limit of its transport.
    ///
    /// # Errors
    ///
    /// The reason to reject the connection, which is not counted.
    pub(in crate::server) fn admit(&self, transport: Transport) -> Result<(), RefusalReason> {
        if self.is_closed {
            return Err(RefusalReason::Draining);
        }
        let is_counted = match transport {
            Transport::Http | Transport::WebSocket => {
                self.http_connections.try_acquire(self.http_connections_max)
            }
            _ => self.tcp_connections.try_acquire(self.tcp_connections_max),
        };
        is_counted.then_some(()).ok_or(RefusalReason::ConnectionLimit)
    }

    /// Releases the count of a connection that has closed.
    pub(in crate::server) fn release(&self, is_counted: bool, transport: Transport) {
        match transport {
            _ if !is_counted => {}
            Transport::Http | Transport::WebSocket => self.http_connections.release(),
            _ => self.tcp_connections.release(),
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

    /// Emits an event unless too many were emitted lately.
    pub(in crate::server) fn log(&mut self, event: &Event<'_>, now: Instant) {
        event.emit_within(&mut self.events, now);
    }

    /// Returns the number of events that were not emitted.
    pub(in crate::server) const fn events_suppressed(&self) -> u64 {
        self.events.suppressed_total()
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
        CloseReason::IdleTimeout => connections.closed_idle_timeout += 1,
        CloseReason::MessageTimeout => connections.closed_message_timeout += 1,
        CloseReason::PeerClosed => connections.closed_by_peer += 1,
        // Rejected connections are counted when they are rejected.
        CloseReason::Refused => {}
    }
}
