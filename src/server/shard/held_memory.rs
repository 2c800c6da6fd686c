//! What a shard holds on behalf of clients, from the accounts of its components.

use super::transports::Transports;
use crate::connection::Connection;
use crate::server::connection_state::ConnectionState;
use crate::server::dispatch::{DeferredWork, Dispatcher};
use crate::telemetry::open_work::HeldMemory;

/// Returns what the shard of these components holds on behalf of clients.
#[inline]
pub fn held_memory(transports: &Transports, dispatcher: &Dispatcher) -> HeldMemory {
    let Transports { connections, http, parity, .. } = transports;
    let Dispatcher { handlers, deferred, subscriptions, facts, .. } = dispatcher;
    HeldMemory {
        connections: connections.shared.memory.held_bytes(),
        sessions: http.sessions.held_bytes() + parity.held_bytes(),
        handlers: handlers.memory.held_bytes(),
        blocking_results: handlers.results.held_bytes(),
        task_results: deferred.tasks.table.usage().result_bytes,
        subscriptions: subscriptions.held_bytes(),
        facts: facts.held_bytes(),
    }
}

/// Returns what closing a connection frees: its input and output, what is kept of its peer, and
/// what the handlers of its calls hold.
pub fn freeable_bytes(connection: &Connection<ConnectionState>, deferred: &DeferredWork) -> usize {
    let handlers = deferred.handler_bytes(&connection.state.in_flight);
    let facts = connection.state.facts_bytes();
    let facts = if facts > FACTS_BYTES_MIN { facts } else { 0 };
    connection.held_bytes() + facts + handlers
}

/// What is kept of a peer counts above this, which the handshakes of common clients do not reach:
/// a connection that holds nothing else is not closed, because that frees next to nothing.
const FACTS_BYTES_MIN: usize = 1 << 10;
