//! Flush and completed sends: the next send, the next phase of closing, or the next read.

use std::io;

use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, Ring, Socket};

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
    let pending = connection.sending_bytes;
    let is_closing = connection.close_state.phase() == Phase::Closing;
    match *result {
        // No progress and no error: a retry would loop forever.
        Ok(0) if pending > 0 && !is_closing => return fail(entry, ring, buffer),
        Ok(bytes) if bytes < pending && !is_closing => {
            // Partial send: submit the rest before anything else.
            entry.shared.statistics.bytes_out += bytes as u64;
            connection.record.traffic.bytes_out += bytes as u64;
            connection.sending_bytes = pending - bytes;
            connection.last_activity = now;
            entry.account_memory();
            let from = buffer.len() - (pending - bytes);
            entry.shared.statistics.sends += 1;
            ring.submit(Operation::Send { socket, buffer, offset: from });
            return ConnectionEvent::None;
        }
        Ok(bytes) => {
            entry.shared.statistics.bytes_out += bytes as u64;
            connection.record.traffic.bytes_out += bytes as u64;
        }
        Err(_) if is_closing => {}
        Err(_) => return fail(entry, ring, buffer),
    }
    connection.sending_bytes = 0;
    connection.last_activity = now;
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
    entry.connection.sending_bytes = 0;
    entry.shared.pool.put(buffer);
    entry.connection.close(ring, CloseReason::SocketError);
    entry.account_memory();
    ConnectionEvent::Failed(entry.key)
}
