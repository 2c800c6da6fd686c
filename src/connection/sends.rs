//! Flush and completed sends: the next send, the next phase of closing, or the next read.

use std::io;

use corelane_base::time::Instant;
use corelane_engine::ring::{Ring, Socket};
use corelane_engine::stream::Sent;

use super::entry::Entry;
use super::state::{CloseReason, Phase};
use super::{ConnectionEvent, backpressure, closing, output};

/// Sends the output buffered in this turn.
#[inline]
pub(super) fn flush<S, R: Ring>(entry: &mut Entry<'_, S>, ring: &mut R, now: Instant) {
    let has_unaccounted = entry.connection.start_flush();
    let is_closing = entry.connection.is_discarding();
    output::submit(entry, ring, now);
    if is_closing {
        closing::advance(entry, ring, now);
    }
    if is_closing || has_unaccounted {
        entry.account_memory();
    }
}

/// Handles a completed send: returns its buffer to the pool and schedules the next send.
#[inline]
pub(super) fn handle<S, R: Ring>(
    entry: &mut Entry<'_, S>,
    ring: &mut R,
    socket: Socket,
    buffer: Vec<u8>,
    result: &io::Result<usize>,
    now: Instant,
) -> ConnectionEvent {
    let connection = &mut *entry.connection;
    let is_closing = connection.close_state.phase() == Phase::Closing;
    let bytes = result.as_ref().copied().unwrap_or_default() as u64;
    entry.shared.statistics.bytes_out += bytes;
    connection.record.traffic.bytes_out += bytes;
    connection.last_activity = now;
    let buffer = match connection.sending.handle_sent(ring, socket, buffer, result, is_closing) {
        Sent::All(buffer) => buffer,
        Sent::Part => {
            entry.shared.statistics.sends += 1;
            entry.account_memory();
            return ConnectionEvent::None;
        }
        Sent::Failed(buffer) if is_closing => buffer,
        Sent::Failed(buffer) => return fail(entry, ring, buffer),
    };
    let is_idle = connection.is_read() && !connection.input.has_pending();
    entry.shared.pool.put(buffer);
    if !entry.connection.outgoing.is_empty() {
        entry.schedule_flush();
    }
    entry.account_memory();
    if is_idle {
        // Neither closing nor waiting to resume reading.
        return ConnectionEvent::None;
    }
    closing::advance(entry, ring, now);
    backpressure::try_resume(entry)
}

fn fail<S, R: Ring>(entry: &mut Entry<'_, S>, ring: &mut R, buffer: Vec<u8>) -> ConnectionEvent {
    entry.shared.pool.put(buffer);
    entry.connection.close(ring, CloseReason::SocketError);
    entry.account_memory();
    ConnectionEvent::Failed(entry.key)
}
