//! Accepting, reading and closing connections.

use std::net::SocketAddr;

use super::{Shard, ShardPhase};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::connection::{CloseReason, Codec, ConnectionEvent, SocketPair};
use crate::engine::ring::{Listener, Operation, ReceiveBuffer, Ring, Socket};
use crate::protocol::error::Error;
use crate::protocol::model;
use crate::server::acceptor::count_close;
use crate::server::connection_state::ConnectionState;
use crate::server::deferred::DeferredWork;
use crate::server::outbox::Effect;
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::server::request_path::{RequestPath, write_error};
use crate::telemetry::event::Event;
use crate::telemetry::label::{RefusalReason, Transport};
use crate::transport::ndjson;

impl Shard {
    /// Accepts a connection, or sends an error and closes it.
    pub(super) fn accept_connection<R: Ring>(
        &mut self,
        ring: &mut R,
        listener: Listener,
        socket: Socket,
        peer: Option<SocketAddr>,
        now: Instant,
    ) {
        let transport = self.acceptor.transport_of(listener);
        let draining = self.phase != ShardPhase::Serving;
        let is_counted = !draining && self.acceptor.acquire(transport);
        let refusal = if draining {
            Some(RefusalReason::Draining)
        } else {
            (!is_counted).then_some(RefusalReason::ConnectionLimit)
        };
        let state = ConnectionState::new(transport, is_counted);
        let framing = match transport {
            Transport::Http => Codec::Http,
            _ => Codec::Ndjson,
        };
        let stream = SocketPair { receive: socket, send: socket, peer, codec: framing };
        let opened = self.connections.open_connection(ring, stream, state, now);
        let Ok(key) = opened else {
            // Too many connections, rejected ones included: closed without an error response.
            self.acceptor.release(is_counted, transport);
            self.outbox.counters.connections.refused_limit += 1;
            ring.submit(Operation::Close(socket));
            return;
        };
        match refusal {
            None => self.outbox.counters.connections.accepted += 1,
            Some(reason) => self.reject_connection(ring, key, reason, now),
        }
    }

    /// Sends the reason to a connection that is not served, and closes it.
    fn reject_connection<R: Ring>(
        &mut self,
        ring: &mut R,
        key: Key,
        reason: RefusalReason,
        now: Instant,
    ) {
        let Some(connection) = self.connections.table.get(key) else { return };
        let (transport, peer) = (connection.state.transport, connection.peer);
        let counters = &mut self.outbox.counters;
        match reason {
            RefusalReason::ConnectionLimit => counters.connections.refused_limit += 1,
            RefusalReason::Draining => counters.connections.refused_draining += 1,
        }
        self.acceptor
            .log(&Event::ConnectionRefused { shard: self.id.0, transport, reason, peer }, now);
        let error = Error::connection_limit();
        self.outbox.count_error(&error);
        if transport == Transport::Http {
            self.send_closing_error(key, &error, now);
        } else {
            let mut text = Vec::new();
            model::write_error_response(&mut text, None, &error, None);
            let reply_to = ReplyTo::standalone(PeerId::Connection(key));
            self.send_message(reply_to, Outcome::Error(error.kind), &text);
        }
        self.connections.close_gracefully(ring, key, CloseReason::Refused, now);
    }

    /// Processes received bytes.
    #[inline]
    pub(super) fn receive<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        buffer: ReceiveBuffer,
        now: Instant,
    ) {
        let length = buffer.len as usize;
        self.connections.statistics.bytes_in += length as u64;
        if let Some(key) = self.connections.key_of(socket) {
            let bytes = ring.bytes(&buffer);
            // Pending input comes first.
            let read = if self.connections.has_pending_input(key) {
                0
            } else {
                self.read_bytes(key, bytes, length, now)
            };
            self.connections.append_pending_input(key, &bytes[read..length]);
            if self.connections.has_pending_input(key) {
                self.connections.pause(ring, key);
                self.connections.limit_pending_input(ring, key);
            }
            self.check_memory_or_close(ring, key, now);
        }
        ring.release(buffer);
    }

    /// Dispatches the messages in `bytes[..length]` (the rest is padding). Returns the number of
    /// bytes consumed before the connection must not be read any more.
    #[inline]
    fn read_bytes(&mut self, key: Key, bytes: &mut [u8], length: usize, now: Instant) -> usize {
        match self.connections.codec(key) {
            Codec::Ndjson => self.request_path().read_lines(key, bytes, length, now),
            Codec::WebSocket => self.request_path().read_frames(key, bytes, length, now),
            Codec::Http => {
                let mut from = self.read_requests(key, bytes, length, now);
                // One of them may be an upgrade: frames follow it.
                if from < length && self.connections.codec(key) == Codec::WebSocket {
                    let (rest, length) = (&mut bytes[from..], length - from);
                    from += self.request_path().read_frames(key, rest, length, now);
                }
                from
            }
        }
    }

    fn request_path(&mut self) -> RequestPath<'_> {
        let Self { connections, parser, dispatcher, websockets, acceptor, outbox, .. } = self;
        RequestPath { connections, parser, dispatcher, websockets, acceptor, outbox }
    }

    /// Enforces the memory limit over all connections (partial messages and unsent responses): the
    /// connection that exceeds it receives an error and closes, the others keep their memory.
    #[inline]
    fn check_memory(&mut self, key: Key, now: Instant) {
        // The replay buffers of sessions count as well.
        let held_bytes = self.connections.account_memory(key) + self.http.sessions.held_bytes();
        if held_bytes <= self.connections.options.held_bytes_max {
            return;
        }
        let framing = self.connections.codec(key);
        let Some(connection) = self.connections.table.get_mut(key) else { return };
        if connection.is_discarding() || connection.state.violated_limit {
            return;
        }
        let error = Error::internal("the server is short of memory; try again later");
        if framing == Codec::WebSocket {
            self.outbox.counters.input_errors.memory += 1;
            self.request_path().close_for_memory(key, &error, now);
            self.connections.account_memory(key);
            return;
        }
        // The only peer of a stdio process is not closed: it loses the current message.
        let ends = connection.state.transport != Transport::Stdio;
        connection.state.violated_limit = ends;
        if !ends && !self.connections.skip_line(key) {
            return;
        }
        self.outbox.counters.input_errors.memory += 1;
        if framing == Codec::Http {
            self.outbox.count_error(&error);
            self.send_closing_error(key, &error, now);
            self.connections.account_memory(key);
            return;
        }
        // Reserves the output buffer, which a partial message has not done yet.
        if self.connections.outgoing(key).is_some()
            && let Some(connection) = self.connections.table.get_mut(key)
        {
            write_error(&mut self.outbox, connection, &error);
        }
        self.connections.account_memory(key);
    }

    /// Accounts the memory of a connection after input or output, and closes it if it violated a
    /// limit.
    #[inline]
    pub(super) fn check_memory_or_close<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        self.check_memory(key, now);
        self.close_violator(ring, key, now);
    }

    /// Closes a connection that violated a limit, once the error is sent.
    fn close_violator<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        let connection = self.connections.table.get(key);
        if connection.is_some_and(|connection| connection.state.violated_limit) {
            self.cancel_connection_calls(key);
            self.connections.close_gracefully(ring, key, CloseReason::ProtocolViolation, now);
        }
    }

    /// Handles an event of the connection table.
    pub(super) fn handle_connection_event<R: Ring>(
        &mut self,
        ring: &mut R,
        next: ConnectionEvent,
        now: Instant,
    ) {
        match next {
            ConnectionEvent::None => {}
            ConnectionEvent::Resume(key) => self.resume_reading(ring, key, now),
            ConnectionEvent::EndOfStream(key) => self.finish_input(key, now),
            ConnectionEvent::Failed(key) => self.cancel_connection_calls(key),
        }
    }

    /// Dispatches the pending input of a paused connection, then reads on.
    fn resume_reading<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        let (mut bytes, from) = self.connections.take_pending_input(key);
        let length = bytes.len();
        bytes.resize(length + ndjson::PADDING, 0);
        let read = self.read_bytes(key, &mut bytes[from..], length - from, now);
        bytes.truncate(length);
        self.connections.restore_pending_input(key, bytes, from + read);
        self.check_memory_or_close(ring, key, now);
        self.connections.resume_receive(ring, key);
        self.finish_input(key, now);
    }

    /// Handles the end of input: an unterminated last line counts, then the connection closes as
    /// soon as no response is outstanding.
    fn finish_input(&mut self, key: Key, now: Instant) {
        if !self.connections.is_input_over(key) {
            return;
        }
        self.abort_exchange(key);
        if let Some((mut line, length)) = self.connections.last_line(key) {
            // Reserves the output buffer, as a terminated line would.
            if self.connections.outgoing(key).is_some() {
                self.request_path().dispatch_line(key, &mut line, length, now);
            }
            self.connections.pool.put(line);
        }
        if self.connections.codec(key) == Codec::WebSocket {
            // Without a close frame: no response can be delivered.
            self.cancel_connection_calls(key);
        }
        self.cancel_streams(key);
        // Before the connection closes: an idle one closes at once.
        self.fail_client_requests(PeerId::Connection(key), now);
        self.outbox.push(Effect::Close { key, reason: CloseReason::PeerClosed });
    }

    /// Cleans up after a closed socket.
    pub(super) fn finish_close(&mut self, socket: Socket, now: Instant) {
        let key = self.connections.key_of(socket);
        if let Some((mut state, ending)) = self.connections.handle_closed(socket) {
            if let Some(key) = key {
                self.fail_client_requests(PeerId::Connection(key), now);
            }
            // Rejected connections were never counted.
            if state.is_counted {
                count_close(ending, &mut self.outbox);
            }
            if state.transport == Transport::WebSocket {
                self.websockets.count_connection_end(ending, state.is_closing);
            }
            self.acceptor.release(state.is_counted, state.transport);
            self.remove_streams(&mut state.subscriptions);
            if let (Some(exchange), Some(key)) = (state.exchange.take(), key) {
                self.release_exchange(key, &exchange, false);
            }
            for (_, call_id) in state.in_flight.drain() {
                let call_id = Key::from_bits(call_id.0);
                let DeferredWork { calls, client_requests, .. } = &mut self.dispatcher.deferred;
                calls.cancel_call(call_id, client_requests, &mut self.outbox);
            }
        }
    }
}
