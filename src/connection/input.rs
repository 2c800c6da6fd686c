//! Input of connections: lines, pending input, backpressure and end of stream.

use std::io;
use std::mem::take;

use super::state::{CloseReason, CodecState, Phase};
use super::{ConnectionEvent, Connections};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::engine::ring::{Operation, Ring, Socket};
use crate::transport::ndjson::LineEvent;

impl<S> Connections<S> {
    /// Parses the next line in `arrival[*from..]` and advances `from`; see
    /// [`crate::transport::ndjson::LineReader::next`]. Also returns [`LineEvent::NeedMore`] while
    /// reading is stopped; `from` marks the unconsumed rest.
    #[inline]
    pub fn next_line(
        &mut self,
        key: Key,
        arrival: &[u8],
        from: &mut usize,
        now: Instant,
    ) -> LineEvent {
        let Some(connection) = self.table.get_mut(key) else {
            *from = arrival.len();
            return LineEvent::NeedMore;
        };
        if !connection.is_read() {
            if connection.is_discarding() {
                *from = arrival.len();
            }
            return LineEvent::NeedMore;
        }
        let pool = &mut self.pool;
        let bytes_max = self.options.message_bytes_max;
        let CodecState::Ndjson(reader) = &mut connection.reader else {
            *from = arrival.len();
            return LineEvent::NeedMore;
        };
        let line = reader.next(arrival, from, bytes_max, || pool.take());
        if line != LineEvent::NeedMore {
            connection.record_message(now, pool);
            if connection.schedule_flush() {
                self.flush_queue.push(key);
            }
        }
        line
    }

    /// Returns the line announced by `Assembled`, padded, and its length. Return the buffer to the
    /// pool.
    pub fn take_line(&mut self, key: Key) -> (Vec<u8>, usize) {
        match self.table.get_mut(key).map(|connection| &mut connection.reader) {
            Some(CodecState::Ndjson(reader)) => reader.take(),
            Some(CodecState::Http(_) | CodecState::WebSocket(_)) | None => (Vec::new(), 0),
        }
    }

    /// Stores bytes that arrived while reading is stopped.
    pub fn append_pending_input(&mut self, key: Key, rest: &[u8]) {
        if rest.is_empty() {
            return;
        }
        let Some(connection) = self.table.get_mut(key) else { return };
        if connection.is_discarding() {
            return;
        }
        if connection.pending_input.capacity() == 0 {
            connection.pending_input = self.pool.take();
        }
        if connection.pending_input_start > connection.pending_input.len() / 2 {
            connection.pending_input.drain(..take(&mut connection.pending_input_start));
        }
        connection.pending_input.extend_from_slice(rest);
    }

    /// Returns whether new input must be queued behind pending input.
    #[inline]
    pub fn has_pending_input(&self, key: Key) -> bool {
        self.table.get(key).is_some_and(|connection| !connection.pending_input.is_empty())
    }

    /// Takes the pending input and the offset of its first unparsed byte. Return the buffer with
    /// [`Connections::restore_pending_input`].
    pub fn take_pending_input(&mut self, key: Key) -> (Vec<u8>, usize) {
        self.table
            .get_mut(key)
            .map(|connection| {
                (take(&mut connection.pending_input), take(&mut connection.pending_input_start))
            })
            .unwrap_or_default()
    }

    /// Restores pending input of which the bytes before `from` are parsed. The rest stays in place
    /// and is not copied for each line.
    pub fn restore_pending_input(&mut self, key: Key, bytes: Vec<u8>, from: usize) {
        let connection = self.table.get_mut(key);
        match connection.filter(|connection| !connection.is_discarding() && from < bytes.len()) {
            Some(connection) => {
                (connection.pending_input, connection.pending_input_start) = (bytes, from);
            }
            None => self.pool.put(bytes),
        }
    }

    /// Discards the incomplete line including its remaining bytes. Returns `false` if there is
    /// none.
    pub fn skip_line(&mut self, key: Key) -> bool {
        let Some(connection) = self.table.get_mut(key) else { return false };
        let CodecState::Ndjson(reader) = &mut connection.reader else { return false };
        let line = reader.skip_line();
        line.map(|line| self.pool.put(line)).is_some()
    }

    /// Stops reading a connection whose output exceeds its limit. Call after each line: `next_line`
    /// then returns `NeedMore`, the rest of the input goes to `append_pending_input`, and
    /// [`Connections::pause`] submits the stop to the ring. WebSocket
    /// input needs no call: `next_message` applies the limit itself.
    #[inline]
    pub fn apply_backpressure(&mut self, key: Key) {
        let Some(connection) = self.table.get_mut(key) else { return };
        let is_over_limit = connection.queued_bytes() > self.options.outgoing_bytes_max;
        if is_over_limit && connection.is_read() && !connection.is_websocket() {
            connection.paused = true;
            self.statistics.read_pauses += 1;
        }
    }

    /// Submits a stop of the multishot receive for a paused connection.
    pub fn pause<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let Some(connection) = self.table.get(key) else { return };
        if connection.paused && connection.phase == Phase::Open {
            ring.submit(Operation::StopReceive(connection.receive));
        }
    }

    /// Resumes reading a paused or suspended connection if its output allows. On `Resume` the
    /// caller parses the pending input and then calls
    /// [`Connections::resume_receive`].
    pub fn try_resume(&mut self, key: Key) -> ConnectionEvent {
        let Some(connection) = self.table.get_mut(key) else { return ConnectionEvent::None };
        let is_drained = connection.is_drained(&self.options);
        let has_work = connection.paused || !connection.pending_input.is_empty();
        if !has_work || !is_drained || connection.is_suspended || connection.phase != Phase::Open {
            return ConnectionEvent::None;
        }
        connection.paused = false;
        ConnectionEvent::Resume(key)
    }

    /// Submits a receive after a pause, unless the pending input filled the output again. Receives
    /// on suspended connections too, so that their end of stream is noticed.
    pub fn resume_receive<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let Some(connection) = self.table.get(key) else { return };
        let is_open = connection.phase == Phase::Open && !connection.input_ended;
        if is_open && !connection.paused {
            ring.submit(Operation::Receive(connection.receive));
        }
    }

    /// Returns whether the peer has closed its sending side and all input is parsed, or reading is
    /// suspended for a request whose response the peer no longer waits for.
    pub fn is_input_over(&self, key: Key) -> bool {
        self.table.get(key).is_some_and(|connection| {
            let is_read = connection.pending_input.is_empty() && !connection.paused;
            connection.input_ended && (is_read || connection.is_suspended)
        })
    }

    /// Handles the end of stream or the failure of a receive.
    pub fn handle_end_of_stream<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        result: &io::Result<()>,
    ) -> ConnectionEvent {
        let Some(key) = self.key_of(socket) else { return ConnectionEvent::None };
        let Some(connection) = self.table.get_mut(key) else { return ConnectionEvent::None };
        connection.input_ended = true;
        if result.is_err() {
            self.close(ring, key, CloseReason::SocketError);
            return ConnectionEvent::Failed(key);
        }
        match connection.phase {
            // The peer may have shut down only its sending side and still wait for responses.
            Phase::Open | Phase::Draining => ConnectionEvent::EndOfStream(key),
            Phase::Lingering => {
                self.close(ring, key, CloseReason::PeerClosed);
                ConnectionEvent::None
            }
            Phase::CloseFrameQueued | Phase::Closing => ConnectionEvent::None,
        }
    }

    /// Returns the last line of a stream that ended without a terminator.
    pub fn last_line(&mut self, key: Key) -> Option<(Vec<u8>, usize)> {
        let connection = self.table.get_mut(key)?;
        if connection.phase != Phase::Open {
            return None;
        }
        match &mut connection.reader {
            CodecState::Ndjson(reader) => reader.finish(),
            // An incomplete HTTP request or frame is dropped.
            CodecState::Http(_) | CodecState::WebSocket(_) => None,
        }
    }
}
