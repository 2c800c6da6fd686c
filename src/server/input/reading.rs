//! Reading connections: what the ring has received, and what waited to be read.
//!
//! Invariant: the memory of a connection is accounted after input and output.

use std::io;

use corelane_base::slab::Key;
use corelane_engine::ring::{ReceiveBuffer, Ring, Socket};
use corelane_protocol::json::{PADDING_BYTES, PaddedText};

use crate::connection::{CloseReason, Codec, ConnectionEvent};
use crate::server::connection_state::{HttpExchange, ResponseOwner};
use crate::server::shard::{Shard, Transports};

impl Shard {
    /// Processes received bytes.
    #[inline]
    pub(in crate::server) fn handle_received<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: ReceiveBuffer,
    ) {
        let connections = &mut self.transports.connections;
        let length = buffer.len as usize;
        connections.shared.statistics.bytes_in += length as u64;
        let key = connections.table.key_of(socket);
        if let Some(key) = key
            && let Some(mut entry) = connections.entry(key)
        {
            let codec = entry.connection.codec();
            // Pending input comes first.
            let is_held =
                entry.record_received(length) || self.transports.defers_input(key, self.now);
            let bytes = ring.bytes(&buffer);
            let input = PaddedText::new(bytes, length);
            let read = if is_held { 0 } else { self.read(key, codec, input) };
            self.end_read(ring, key, &buffer, read);
        }
        ring.release(buffer);
    }

    /// Stores what is left of a received buffer behind the first `read` bytes, and accounts the
    /// memory of its connection.
    #[inline]
    fn end_read<R: Ring>(&mut self, ring: &mut R, key: Key, buffer: &ReceiveBuffer, read: usize) {
        let (connections, length) = (&mut self.transports.connections, buffer.len as usize);
        let mut violation = None;
        if let Some(mut entry) = connections.entry(key) {
            if read < length {
                entry.append_pending_input(&ring.bytes(buffer)[read..length]);
            }
            if entry.has_unread_input() {
                entry.limit_unread_input(ring, length);
            }
            entry.account_memory();
            violation = entry.connection.state.violation;
        }
        self.transports.record_read(key, &mut self.parser, self.now);
        self.relieve_memory(ring);
        if let Some(reason) = violation {
            self.close_violating(ring, key, reason);
        }
    }

    /// Processes a completed send. Returns the key of the connection.
    #[inline]
    pub(in crate::server) fn handle_sent<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: Vec<u8>,
        result: &io::Result<usize>,
    ) -> Option<Key> {
        let Transports { connections, http, .. } = &mut self.transports;
        let (key, next) = connections.handle_sent(ring, socket, buffer, result, self.now)?;
        if connections.table.codec(key) == Some(Codec::Http) {
            http.exchange_path(connections, &mut self.outbox, self.now).close_sent(key);
        }
        self.handle_event(ring, next);
        Some(key)
    }

    /// Processes the end of the input of a connection.
    pub(in crate::server) fn handle_end_of_stream<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        result: &io::Result<()>,
    ) {
        let connections = &mut self.transports.connections;
        let next = connections.handle_end_of_stream(ring, socket, result);
        self.handle_event(ring, next);
    }

    /// Handles an event of the connection table.
    pub(in crate::server) fn handle_event<R: Ring>(
        &mut self,
        ring: &mut R,
        event: ConnectionEvent,
    ) {
        match event {
            ConnectionEvent::None => {}
            ConnectionEvent::Resume(key) if self.transports.large_work.defers(key) => {
                self.transports.connections.table.hold_input(key);
            }
            ConnectionEvent::Resume(key) => self.resume_reading(ring, key),
            ConnectionEvent::EndOfStream(key) => self.finish_input(key),
            ConnectionEvent::Failed(key) => self.cancel_calls(key),
        }
    }

    /// Reads a connection again if its output allows.
    pub(in crate::server) fn try_resume<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let next = self.transports.connections.try_resume(key);
        self.handle_event(ring, next);
    }

    /// Dispatches the pending input of a paused connection, then reads on.
    fn resume_reading<R: Ring>(&mut self, ring: &mut R, key: Key) {
        if self.holds_back_input(ring, key) {
            return;
        }
        let (mut bytes, from) = self.transports.connections.table.take_pending_input(key);
        let length = bytes.len();
        bytes.resize(length + PADDING_BYTES, 0);
        let input = PaddedText::new(&mut bytes[from..], length - from);
        let codec = self.transports.connections.table.codec(key);
        let read = codec.map_or(0, |codec| self.read(key, codec, input));
        bytes.truncate(length);
        self.transports.connections.restore_pending_input(key, bytes, from + read);
        self.transports.record_read(key, &mut self.parser, self.now);
        self.check_memory(ring, key);
        self.transports.connections.table.resume_receive(ring, key);
        self.finish_input(key);
    }

    /// Continues a connection whose exchange has new output or has ended: it closes, is read again,
    /// or waits for the rest of the response.
    pub(in crate::server) fn advance_exchange<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let connections = &mut self.transports.connections;
        let Some(connection) = connections.table.get(key) else { return };
        // Output of this turn does not count as slow until it queues behind unread output: a
        // response and a replay may be of any length.
        let is_queued = connection.outgoing.len() > connections.shared.options.outgoing_bytes_max;
        let is_slow = is_queued && connection.queued_bytes() > connection.outgoing.len();
        let is_closing = connection.state.is_closing;
        match connection.state.exchange.as_deref() {
            // The session keeps the unread events, and the client may resume the stream.
            Some(HttpExchange { owner: ResponseOwner::Session(_), is_complete: false, .. })
                if is_slow =>
            {
                self.exchanges().close(key, false);
                let connections = &mut self.transports.connections;
                connections.close(ring, key, CloseReason::ProtocolViolation);
            }
            Some(_) => self.check_memory(ring, key),
            None if is_closing => {
                self.check_memory(ring, key);
                self.close_gracefully(ring, key, CloseReason::PeerClosed);
            }
            None => {
                self.check_memory(ring, key);
                self.transports.connections.table.set_suspended(key, false);
                self.schedule_reading(key);
                // A closing connection may have waited for that.
                self.transports.connections.advance_closing(ring, key, self.now);
            }
        }
    }
}
