//! Output of connections: buffered during the turn, sent once at its end.

use std::mem::take;

use corelane_base::time::Instant;
use corelane_engine::ring::Ring;

use super::backpressure;
use super::entry::Entry;
use super::state::Phase;

/// Submits the buffered output of one connection, unless a send is in flight.
pub(super) fn submit<S, R: Ring>(entry: &mut Entry<'_, S>, ring: &mut R, now: Instant) {
    let connection = &mut *entry.connection;
    if !connection.sending.is_idle() || connection.close_state.phase() == Phase::Closing {
        if connection.is_websocket() {
            backpressure::limit_queued_output(entry, ring, now);
        }
        return;
    }
    let buffer = take(&mut connection.outgoing);
    if buffer.is_empty() {
        entry.shared.pool.put(buffer);
        return;
    }
    entry.shared.statistics.sends += 1;
    connection.sending.submit(ring, connection.sockets.send, buffer);
}
