//! What a shard holds on behalf of clients, from the accounts of its components.

use super::transports::Transports;
use crate::server::dispatch::Dispatcher;
use crate::telemetry::held_memory::HeldMemory;

/// Returns what the shard of these components holds on behalf of clients.
#[inline]
pub(in crate::server) fn held_memory(
    transports: &Transports,
    dispatcher: &Dispatcher,
) -> HeldMemory {
    let Transports { connections, http, .. } = transports;
    let Dispatcher { handlers, deferred, subscriptions, facts, .. } = dispatcher;
    HeldMemory {
        connections: connections.memory.held_bytes(),
        sessions: http.sessions.held_bytes(),
        handlers: handlers.memory.held_bytes(),
        blocking_results: handlers.results.held_bytes(),
        task_results: deferred.tasks.table.usage().result_bytes,
        subscriptions: subscriptions.held_bytes(),
        facts: facts.held_bytes(),
    }
}
