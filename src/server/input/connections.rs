//! Accepting, reading and closing connections.
//!
//! Invariants: a rejected connection receives the reason; a connection that violated a limit closes
//! once the error is sent; the memory of a connection is accounted after input and output.

use std::io;
use std::net::SocketAddr;

use crate::base::client_address::ClientAddress;
use crate::base::slab::Key;
use crate::connection::{CloseReason, Codec, ConnectionEvent, SocketPair};
use crate::engine::ring::{Operation, ReceiveBuffer, Ring, Socket};
use crate::protocol::error::Error;
use crate::protocol::json::{PADDING_BYTES, PaddedBuffer, PaddedText};
use crate::protocol::model;
use crate::server::acceptance::{ListenerKind, count_close, refusal_error};
use crate::server::calls::CancelReason;
use crate::server::connection_state::{ConnectionState, HttpExchange, ResponseOwner};
use crate::server::connections::{
    HalfClose, Transports, half_close_refused, half_close_timeout, held_memory,
};
use crate::server::outbox::Effect;
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::server::shard::Shard;
use crate::telemetry::event::Event;
use crate::telemetry::label::{RefusalReason, Transport};

impl Shard {
    /// Opens a connection, or sends an error and closes it.
    pub(in crate::server) fn open<R: Ring>(
        &mut self,
        ring: &mut R,
        kind: ListenerKind,
        socket: Socket,
        peer: Option<SocketAddr>,
    ) {
        let Transports { acceptor, .. } = &mut self.transports;
        let transport = kind.transport();
        let client = peer.and_then(|peer| ClientAddress::new(peer.ip()));
        let shortage = ring.shortage(socket);
        if let Some(shortage) = shortage {
            acceptor.log_shortage(shortage, self.now);
        }
        let admission = acceptor.admit(kind, client, shortage, self.now);
        if let Err(reason) | Ok((_, Some(reason))) = admission {
            acceptor.record_refusal(reason, (transport, peer), self.now, &mut self.outbox);
        }
        let Ok((standing, refusal)) = admission else {
            ring.submit(Operation::Close(socket));
            return;
        };
        let mut state = ConnectionState::new(transport, client, standing);
        if transport != Transport::Http {
            self.dispatcher.require_handshake(&mut state);
        }
        let Transports { acceptor, connections, .. } = &mut self.transports;
        let codec = if transport == Transport::Http { Codec::Http } else { Codec::Ndjson };
        let sockets = SocketPair { receive: socket, send: socket, peer, codec };
        match (connections.open_connection(ring, sockets, state, self.now), refusal) {
            (Ok(key), None) => {
                self.outbox.counters.connections.accepted += u64::from(standing.is_counted());
                self.parity_path().begin(key);
            }
            (Ok(key), Some(reason)) => self.reject(ring, key, reason),
            (Err(state), _) => {
                // The limits were raised beyond the table, which keeps its size.
                acceptor.release(&state);
                if refusal.is_none() {
                    let reason = RefusalReason::ConnectionLimit;
                    acceptor.record_refusal(reason, (transport, peer), self.now, &mut self.outbox);
                }
                ring.submit(Operation::Close(socket));
            }
        }
    }

    /// Sends the reason to a connection that is not served, and closes it.
    fn reject<R: Ring>(&mut self, ring: &mut R, key: Key, reason: RefusalReason) {
        let error = refusal_error(reason);
        self.outbox.count_error(&error);
        if self.transports.connections.table.codec(key) == Some(Codec::Http) {
            self.send_closing_error(key, &error);
        } else {
            let mut text = Vec::new();
            model::write_error_response(&mut text, None, &error, None);
            let to = ReplyTo::standalone(PeerId::Connection(key));
            self.send(to, Outcome::Error(error.kind), &text);
        }
        self.close_gracefully(ring, key, CloseReason::Refused);
    }

    /// Closes a connection once its pending responses are sent.
    pub(in crate::server) fn close_gracefully<R: Ring>(
        &mut self,
        ring: &mut R,
        key: Key,
        reason: CloseReason,
    ) {
        self.transports.connections.close_gracefully(ring, key, reason, self.now);
    }

    /// Processes received bytes.
    #[inline]
    pub(in crate::server) fn receive<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: ReceiveBuffer,
    ) {
        let connections = &mut self.transports.connections;
        let length = buffer.len as usize;
        connections.statistics.bytes_in += length as u64;
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

    /// Accounts the memory of a connection after input or output. A connection with a
    /// violation closes once the error is sent.
    #[inline]
    pub(in crate::server) fn check_memory<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let mut violation = None;
        if let Some(mut entry) = self.transports.connections.entry(key) {
            entry.account_memory();
            violation = entry.connection.state.violation;
        }
        self.relieve_memory(ring);
        if let Some(reason) = violation {
            self.close_violating(ring, key, reason);
        }
    }

    /// Closes a connection with a violation once its error is sent.
    #[cold]
    fn close_violating<R: Ring>(&mut self, ring: &mut R, key: Key, reason: CloseReason) {
        self.cancel_calls(key);
        self.close_gracefully(ring, key, reason);
    }

    /// Closes the connections that hold most, if the memory limit of the shard is exceeded.
    #[inline]
    pub(in crate::server) fn relieve_memory<R: Ring>(&mut self, ring: &mut R) {
        let held_bytes = held_memory(&self.transports, &self.dispatcher).total();
        let limit = self.dispatcher.handlers.memory.limit();
        if self.transports.holder_search.is_due(held_bytes, limit) {
            self.free_memory(ring);
        }
    }

    /// Closes the connections that hold most.
    #[cold]
    pub(in crate::server) fn free_memory<R: Ring>(&mut self, ring: &mut R) {
        self.close_largest(ring);
        let held_bytes = held_memory(&self.transports, &self.dispatcher).total();
        self.transports.holder_search.record(held_bytes);
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

    /// Has a connection that waits for a response or for its output read again, once all effects
    /// are applied.
    pub(in crate::server) fn schedule_reading(&mut self, key: Key) {
        if self.transports.connections.table.waits_to_be_read(key) {
            self.outbox.resume_reading(key);
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

    /// Handles the end of input: an unterminated last line counts, then calls in flight are
    /// cancelled, except those over stdio, and the connection closes as soon as no response is
    /// outstanding.
    fn finish_input(&mut self, key: Key) {
        if !self.transports.connections.table.is_input_over(key) {
            return;
        }
        let codec = self.transports.connections.table.codec(key);
        if codec == Some(Codec::Http) {
            self.abort_exchange(key);
        }
        if let Some(line) = self.transports.connections.table.last_line(key) {
            self.dispatch_kept_line(key, line);
            if self.dispatcher.held.contains(key) {
                // Ends when it is answered.
                return;
            }
        }
        let connection = self.transports.connections.table.get(key);
        let transport = connection.map(|connection| connection.state.transport);
        match transport {
            // Without a close frame: no response can be delivered.
            Some(Transport::WebSocket) => self.cancel_calls(key),
            Some(Transport::Tcp) => self.end_calls(key),
            Some(Transport::Http | Transport::InProcess | Transport::Stdio) | None => {}
        }
        self.cancel_streams(key);
        // Before the connection closes: an idle one closes at once.
        self.fail_client_requests(PeerId::Connection(key));
        // Requests that wait are answered before.
        if self.dispatcher.waiting.is_empty() {
            self.outbox.push(Effect::Close { key, reason: CloseReason::PeerClosed });
        }
        if transport.is_some_and(Transport::is_only_connection) {
            self.outbox.push(Effect::EndInput);
        }
    }

    /// Cancels the calls of a TCP connection whose input has ended, unless they may complete for
    /// `tcp.half_close_timeout`.
    fn end_calls(&mut self, key: Key) {
        let Transports { connections, half_closed, acceptor, .. } = &mut self.transports;
        let Some(connection) = connections.table.get(key) else { return };
        let peer = connection.record.peer();
        if connection.pending_work.pending_responses == 0 {
            return;
        }
        match half_closed.admit(key, self.now) {
            HalfClose::Wait => {}
            HalfClose::Cancel => self.cancel_calls(key),
            HalfClose::Refuse { waiting_max } => {
                self.outbox.counters.connections.refused_half_closed += 1;
                let shard = acceptor.shard().0;
                acceptor.log(&Event::HalfCloseRefused { shard, waiting_max, peer }, self.now);
                let reason = CancelReason::Error(half_close_refused(waiting_max));
                self.fail_calls(PeerId::Connection(key), &reason);
            }
        }
    }

    /// Cancels the calls of half-closed connections whose time has passed, with an error.
    #[inline]
    pub(in crate::server) fn expire_half_closed(&mut self) {
        while let Some((key, timeout)) = self.transports.half_closed.pop_expired(self.now) {
            let reason = CancelReason::Error(half_close_timeout(timeout));
            self.fail_calls(PeerId::Connection(key), &reason);
        }
    }

    /// Closes the exchange of a disconnected client. A modern request is cancelled by that; a
    /// legacy session continues, and its client may resume the stream.
    ///
    /// Source: 2026-07-28 `basic/patterns/cancellation`; 2025-11-25 `basic/transports`.
    fn abort_exchange(&mut self, key: Key) {
        let Some(connection) = self.transports.connections.table.get(key) else { return };
        let Some(exchange) = connection.state.exchange.as_ref() else { return };
        if exchange.owner == ResponseOwner::Connection {
            self.cancel_calls(key);
        }
        self.exchanges().close(key, false);
    }

    /// Continues a connection whose exchange has new output or has ended: it closes, is read again,
    /// or waits for the rest of the response.
    pub(in crate::server) fn advance_exchange<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let connections = &mut self.transports.connections;
        let Some(connection) = connections.table.get(key) else { return };
        // Output of this turn does not count as slow until it queues behind unread output: a
        // response and a replay may be of any length.
        let is_queued = connection.outgoing.len() > connections.options.outgoing_bytes_max;
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

    /// Cleans up after a closed socket.
    pub(in crate::server) fn finish_close(&mut self, socket: Socket) {
        let Transports { connections, websockets, acceptor, half_closed, .. } =
            &mut self.transports;
        let Some(key) = connections.table.key_of(socket) else { return };
        if connections.table.is_input_over(key) {
            half_closed.remove(key);
        }
        let record = if Event::is_debug_enabled() {
            connections.table.get(key).map(|connection| connection.record)
        } else {
            None
        };
        let Some((mut state, reason)) = connections.handle_closed(socket) else { return };
        if let Some(record) = record {
            acceptor.log_close(state.transport, &record, reason, self.now);
        }
        // Rejected connections were never counted.
        if state.standing.is_counted() {
            count_close(reason, &mut self.outbox);
        }
        if state.transport == Transport::WebSocket {
            websockets.count_connection_end(reason, state.is_closing);
        }
        acceptor.release(&state);
        if let Some(exchange) = state.exchange.take() {
            self.exchanges().release(key, &exchange, false);
        }
        if let Some(session) = state.parity_session() {
            let mut parity = self.parity_path();
            parity.detach(session);
        }
        let Self { dispatcher, outbox, now, .. } = self;
        let peer = Some((PeerId::Connection(key), None));
        dispatcher.held.take(key);
        dispatcher.facts.release(&mut state);
        dispatcher.deferred.fail_client_requests(peer, *now, outbox);
        dispatcher.remove_streams(&mut state.subscriptions, outbox);
        dispatcher.deferred.abandon_calls(&mut state.in_flight, outbox);
        dispatcher.deferred.tasks.table.remove_owner(PeerId::Connection(key));
    }

    /// Starts the requests of a connection that wait for the one before (`stdio.sequential`), until
    /// one is in flight or the output exceeds its limit. After the last one the connection may
    /// close.
    #[inline]
    pub(in crate::server) fn start_waiting<R: Ring>(&mut self, ring: &mut R, key: Key) {
        if !self.dispatcher.waiting.is_empty() {
            self.start_requests(ring, key);
        }
    }

    #[cold]
    fn start_requests<R: Ring>(&mut self, ring: &mut R, key: Key) {
        loop {
            let connections = &mut self.transports.connections;
            let Some(connection) = connections.table.get_mut(key) else { return };
            if connection.queued_bytes() > connections.options.outgoing_bytes_max {
                // Goes on when half of it is sent.
                return self.hold_input(ring, key);
            }
            let in_flight = &mut connection.state.in_flight;
            let Some(text) = self.dispatcher.waiting.start_next(in_flight) else { break };
            self.dispatch_kept_line(key, text);
            self.dispatcher.waiting.end_start();
        }
        self.transports.connections.account_memory(key);
        if !self.dispatcher.waiting.is_full() {
            self.schedule_reading(key);
        }
        if self.dispatcher.waiting.is_empty() {
            self.finish_input(key);
        }
    }

    /// Dispatches a line that was kept apart from the input.
    fn dispatch_kept_line(&mut self, key: Key, mut text: PaddedBuffer) {
        // Reserves the output buffer, as input does.
        if self.transports.connections.outgoing(key).is_some() {
            self.dispatch_line(key, text.text());
        }
        self.transports.connections.pool.put(text.into_buffer());
    }

    /// Stops reading a connection until its output is sent or a request that waits has started.
    pub(in crate::server) fn hold_input<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let table = &mut self.transports.connections.table;
        table.hold_input(key);
        table.pause(ring, key);
    }

    /// Starts requests that wait before further input is read. Returns whether none may be read.
    fn holds_back_input<R: Ring>(&mut self, ring: &mut R, key: Key) -> bool {
        if let Some(text) = self.dispatcher.held.take(key) {
            self.dispatch_kept_line(key, text);
            if self.dispatcher.held.contains(key) {
                // Its token is still asked about, and something else has resumed the connection.
                return true;
            }
        }
        self.start_waiting(ring, key);
        let holds = self.dispatcher.waiting.is_full();
        if holds {
            self.transports.connections.table.hold_input(key);
        }
        holds
    }

    /// Responds with `error` to the requests that wait, which do not start any more. Returns their
    /// number.
    pub(in crate::server) fn fail_waiting(&mut self, key: Key, error: &Error) -> u64 {
        let failed = self.respond_waiting(key, error);
        if failed > 0 {
            self.finish_input(key);
        }
        failed
    }
}
