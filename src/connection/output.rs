//! Output of connections: buffered during the turn, sent once at its end. A peer that does not read
//! its responses is not read (backpressure).
//!
//! Reading stops while the output exceeds its limit and resumes once half of that is sent. A
//! WebSocket has a send timeout meanwhile, also if it is not read for another reason.

use std::mem::take;

use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, Ring};

use super::ConnectionEvent;
use super::state::{Connection, Phase};
use super::table::Entry;

/// Input that is stored for the time after the request in progress. The end of the stream is
/// noticed behind that many bytes.
const SUSPENDED_INPUT_MAX: usize = 64 << 10;

/// Stops reading a connection of lines or requests whose output exceeds its limit.
#[inline]
pub(super) fn apply_backpressure<S>(entry: &mut Entry<'_, S>) {
    let connection = &mut *entry.connection;
    let is_over_limit = connection.queued_bytes() > entry.shared.options.outgoing_bytes_max;
    if is_over_limit && connection.is_read() && !connection.is_websocket() {
        connection.reading.set_paused(true);
        entry.shared.statistics.read_pauses += 1;
    }
}

impl<S> Entry<'_, S> {
    /// Stops the receive of a paused connection, of a suspended one that has stored
    /// [`SUSPENDED_INPUT_MAX`], and of a closing one whose peer goes on to send; `received` bytes
    /// have arrived.
    pub fn limit_unread_input<R: Ring>(&mut self, ring: &mut R, received: usize) {
        let connection = &mut *self.connection;
        connection.stop_paused_receive(ring);
        if connection.is_discarding() {
            return limit_discarded_input(connection, ring, received);
        }
        let is_over_limit = connection.input.pending_bytes() > SUSPENDED_INPUT_MAX;
        if is_over_limit && connection.reading.is_suspended() && !connection.reading.is_paused() {
            connection.reading.set_paused(true);
            self.shared.statistics.read_pauses += 1;
            ring.submit(Operation::StopReceive(connection.sockets.receive));
        }
    }
}

/// Counts discarded input of a closing connection, and stops its receive at the limit.
#[cold]
fn limit_discarded_input<S, R: Ring>(
    connection: &mut Connection<S>,
    ring: &mut R,
    received: usize,
) {
    connection.reading.record_discarded(received);
    if connection.reading.has_discarded_most() && !connection.is_closed() {
        ring.submit(Operation::StopReceive(connection.sockets.receive));
    }
}

/// Applies backpressure to the peer of a WebSocket that sends nothing but reads responses too
/// slowly. Counts only output queued behind the send in flight, which may have any size.
fn limit_queued_output<S, R: Ring>(entry: &mut Entry<'_, S>, ring: &mut R, now: Instant) {
    let bytes_max = entry.shared.options.websocket.outgoing_bytes_max;
    let connection = &mut *entry.connection;
    let is_over_limit = connection.outgoing.len() > bytes_max && !connection.is_discarding();
    if !is_over_limit || connection.has_send_timeout() {
        return;
    }
    let was_paused = connection.reading.is_paused();
    start_backpressure(entry, now);
    if !was_paused {
        entry.connection.stop_paused_receive(ring);
    }
}

/// Stops reading a WebSocket until half of the output is sent, and starts the send timeout unless
/// it runs.
#[cold]
pub(super) fn start_backpressure<S>(entry: &mut Entry<'_, S>, now: Instant) {
    let options = &entry.shared.options.websocket;
    let multiples = entry.connection.queued_bytes() / options.outgoing_bytes_max.max(1);
    let multiples = u32::try_from(multiples).unwrap_or(u32::MAX).max(1);
    let span = options.send_timeout.saturating_mul(multiples);
    let until = now.after(span.min(options.idle_timeout.max(options.send_timeout)));
    entry.connection.reading.set_paused(true);
    if let Some(frames) = entry.connection.input.websocket() {
        frames.start_backpressure(now, until);
    }
    entry.shared.statistics.read_pauses += 1;
    entry.arm_timer(until);
}

/// Resumes reading a paused or suspended connection if its output allows. Ends its send timeout
/// then, also if it is not read for another reason.
pub(super) fn try_resume<S>(entry: &mut Entry<'_, S>, now: Instant) -> ConnectionEvent {
    let connection = &mut *entry.connection;
    let is_drained = connection.is_drained(&entry.shared.options);
    if is_drained && let Some(frames) = connection.input.websocket() {
        frames.end_backpressure(now);
    }
    if !connection.waits_to_be_read() || !is_drained {
        return ConnectionEvent::None;
    }
    connection.reading.set_paused(false);
    ConnectionEvent::Resume(entry.key)
}

/// Resumes reading a connection whose input was held for another reason than its output, unless
/// that exceeds the limit.
pub(super) fn end_hold<S>(entry: &mut Entry<'_, S>, now: Instant) -> ConnectionEvent {
    let connection = &mut *entry.connection;
    if !connection.waits_to_be_read() {
        return ConnectionEvent::None;
    }
    connection.reading.set_paused(false);
    if connection.queued_bytes() <= connection.queue_bytes_max(&entry.shared.options) {
        return ConnectionEvent::Resume(entry.key);
    }
    if connection.is_websocket() {
        start_backpressure(entry, now);
    } else {
        apply_backpressure(entry);
    }
    ConnectionEvent::None
}

/// Submits the buffered output of one connection, unless a send is in flight.
pub(super) fn submit<S, R: Ring>(entry: &mut Entry<'_, S>, ring: &mut R, now: Instant) {
    let connection = &mut *entry.connection;
    if !connection.sending.is_idle() || connection.close_state.phase() == Phase::Closing {
        if connection.is_websocket() {
            limit_queued_output(entry, ring, now);
        }
        if entry.connection.outgoing.is_empty() {
            entry.shared.pool.put(take(&mut entry.connection.outgoing));
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
