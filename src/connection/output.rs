//! Output of connections: buffered during the turn, sent once at its end.

use std::io;

use super::state::{CloseReason, Phase};
use super::websocket_state::Backpressure;
use super::{ConnectionEvent, Connections};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::engine::ring::{Operation, Ring, Socket};

impl<S> Connections<S> {
    /// Returns the output buffer, for complete texts with their terminators. It is sent at the end
    /// of the turn. Returns `None` if the connection no longer accepts output.
    pub fn outgoing(&mut self, key: Key) -> Option<&mut Vec<u8>> {
        let connection = self.table.get_mut(key)?;
        if matches!(connection.phase, Phase::CloseFrameQueued | Phase::Lingering | Phase::Closing) {
            return None;
        }
        if connection.outgoing.capacity() == 0 {
            connection.outgoing = self.pool.take();
        }
        if connection.schedule_flush() {
            self.flush_queue.push(key);
        }
        Some(&mut connection.outgoing)
    }

    /// Schedules a connection for the flush at the end of the turn.
    pub(super) fn schedule_flush(&mut self, key: Key) {
        let Some(connection) = self.table.get_mut(key) else { return };
        if connection.schedule_flush() {
            self.flush_queue.push(key);
        }
    }

    /// Sends the output buffered in this turn, one send per connection.
    pub fn flush<R: Ring>(&mut self, ring: &mut R, now: Instant) {
        let mut corked = std::mem::take(&mut self.flush_queue);
        for key in corked.drain(..) {
            if let Some(connection) = self.table.get_mut(key) {
                connection.is_flush_scheduled = false;
                let is_closing = connection.is_discarding();
                self.send_outgoing(ring, key, now);
                if is_closing {
                    self.advance_closing(ring, key, now);
                }
            }
        }
        self.flush_queue = corked;
    }

    /// Submits the buffered output of one connection, unless a send is in flight.
    pub(super) fn send_outgoing<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        let Some(connection) = self.table.get_mut(key) else { return };
        if connection.sending_bytes > 0 || connection.phase == Phase::Closing {
            if connection.is_websocket() {
                self.limit_queued_output(ring, key, now);
            }
            return;
        }
        let buffer = std::mem::take(&mut connection.outgoing);
        if buffer.is_empty() {
            self.pool.put(buffer);
            return;
        }
        connection.sending_bytes = buffer.len();
        self.statistics.sends += 1;
        ring.submit(Operation::Send { socket: connection.send, buffer, offset: 0 });
    }

    /// Applies backpressure to a peer that sends nothing but reads responses too slowly. Counts
    /// only output queued behind the send in flight, which may have any size.
    fn limit_queued_output<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        let bytes_max = self.options.websocket.outgoing_bytes_max;
        let Some(connection) = self.table.get(key) else { return };
        if connection.is_read() && connection.outgoing.len() > bytes_max {
            self.start_backpressure(key, now);
            self.pause(ring, key);
        }
    }

    /// Stops reading until half of the output is sent, and starts the send timeout.
    #[cold]
    pub(super) fn start_backpressure(&mut self, key: Key, now: Instant) {
        let options = self.options.websocket;
        let Some(connection) = self.table.get_mut(key) else { return };
        let multiples = connection.queued_bytes() / options.outgoing_bytes_max.max(1);
        let multiples = u32::try_from(multiples).unwrap_or(u32::MAX).max(1);
        let span = options.send_timeout.saturating_mul(multiples);
        let until = now.after(span.min(options.idle_timeout.max(options.send_timeout)));
        connection.paused = true;
        if let Some(frames) = connection.websocket() {
            frames.backpressure = Some(Backpressure { since: now, until });
        }
        self.statistics.read_pauses += 1;
        self.arm_timer(key, until);
    }

    /// Handles a completed send: returns its buffer to the pool and schedules the next send.
    pub fn handle_sent<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: Vec<u8>,
        result: &io::Result<usize>,
        now: Instant,
    ) -> ConnectionEvent {
        let key = self.key_of(socket);
        let Some((key, connection)) = key.and_then(|key| Some((key, self.table.get_mut(key)?)))
        else {
            self.pool.put(buffer);
            return ConnectionEvent::None;
        };
        let pending = connection.sending_bytes;
        match *result {
            // No progress and no error: a retry would loop forever.
            Ok(0) if pending > 0 && connection.phase != Phase::Closing => {
                return self.handle_send_error(ring, key, buffer);
            }
            Ok(bytes) if bytes < pending && connection.phase != Phase::Closing => {
                // Partial send: submit the rest before anything else.
                self.statistics.bytes_out += bytes as u64;
                connection.sending_bytes = pending - bytes;
                connection.last_activity = now;
                let from = buffer.len() - (pending - bytes);
                self.statistics.sends += 1;
                ring.submit(Operation::Send { socket, buffer, offset: from });
                return ConnectionEvent::None;
            }
            Ok(bytes) => self.statistics.bytes_out += bytes as u64,
            Err(_) if connection.phase == Phase::Closing => {}
            Err(_) => return self.handle_send_error(ring, key, buffer),
        }
        connection.sending_bytes = 0;
        connection.last_activity = now;
        self.pool.put(buffer);
        if !connection.outgoing.is_empty() && connection.schedule_flush() {
            self.flush_queue.push(key);
        }
        let is_idle = connection.is_read() && connection.pending_input.is_empty();
        self.account_memory(key);
        if is_idle {
            // Neither closing nor waiting to resume reading.
            return ConnectionEvent::None;
        }
        self.advance_closing(ring, key, now);
        self.try_resume(key)
    }

    fn handle_send_error<R: Ring>(
        &mut self,
        ring: &mut R,
        key: Key,
        buffer: Vec<u8>,
    ) -> ConnectionEvent {
        if let Some(connection) = self.table.get_mut(key) {
            connection.sending_bytes = 0;
        }
        self.pool.put(buffer);
        self.close(ring, key, CloseReason::SocketError);
        ConnectionEvent::Failed(key)
    }
}
