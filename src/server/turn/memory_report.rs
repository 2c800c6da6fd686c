//! The memory account of a shard beside what it stores, for tests.

use crate::connection::Connection;
use crate::server::connection_state::ConnectionState;
use crate::server::shard::{Shard, freeable_bytes, held_memory};
use crate::telemetry::open_work::{HeldMemory, MemoryReport};

impl From<&Shard> for MemoryReport {
    /// Cost: one pass over everything that is stored.
    fn from(shard: &Shard) -> Self {
        let Shard { transports, dispatcher, .. } = shard;
        let connections = || transports.connections.table.iter().map(|(_, it)| it);
        let is_closed = |it: &&Connection<ConnectionState>| {
            it.is_closed() || it.is_discarding() && it.state.violation.is_some()
        };
        let freeable = connections().filter(|it| !is_closed(it));
        let freeable = freeable.map(|it| freeable_bytes(it, &dispatcher.deferred)).sum();
        let closed = connections().filter(is_closed);
        let closed = closed.map(|it| it.held_bytes() + it.state.facts_bytes()).sum();
        let of_connections = connections().map(|it| it.state.facts_bytes());
        let of_sessions = transports.http.sessions.iter().map(|it| it.state.facts_bytes());
        let (parity_sessions, parity_facts) = transports.parity.recount_bytes();
        let (handlers, task_results) = dispatcher.deferred.recount_bytes();
        let stored = HeldMemory {
            connections: connections().map(Connection::held_bytes).sum(),
            sessions: transports.http.sessions.recount_bytes() + parity_sessions,
            handlers,
            // No blocking handlers run in the simulator.
            blocking_results: 0,
            task_results,
            subscriptions: dispatcher.subscriptions.recount_bytes(),
            facts: of_connections.chain(of_sessions).sum::<usize>() + parity_facts,
        };
        let bytes_max = dispatcher.handlers.memory.limit().bytes_max();
        let accounted = held_memory(transports, dispatcher);
        Self { accounted, stored, closed, freeable, bytes_max }
    }
}
