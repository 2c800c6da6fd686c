//! Messages of the server to the client of a session.
//!
//! Invariants: a chunk gets its number where it is written, so that what is dropped leaves no gap;
//! the last chunks of a stream are always written.

use super::convert;
use super::frontend::ParityFrontend;
use super::session::{ParitySession, is_stream};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::connection::{CloseReason, Codec, Connections};
use crate::protocol::eras::Lifecycle;
use crate::protocol::in_flight::RequestKey;
use crate::protocol::jsonrpc::Id;
use crate::protocol::parity::envelope::ChunkType;
use crate::protocol::parity::error::ErrorCode;
use crate::protocol::parity::stream::WindowLimits;
use crate::server::connection_state::ConnectionState;
use crate::server::deferred::DeferredWork;
use crate::server::dispatch::Dispatcher;
use crate::server::outbox::{Effect, Outbox};
use crate::server::reply_to::Outcome;
use crate::server::websocket::WebSocketFrontend;
use crate::transport::ndjson;
use crate::transport::websocket::code::CloseCode;
use crate::transport::websocket::limits::ProtocolError;
use crate::transport::websocket::writer;

/// Chunks of ended streams that are kept for a client that returns.
const ENDED_STREAMS_MAX: usize = 16;

/// The sessions with the connections that carry them.
pub(in crate::server) struct ParityOutput<'a> {
    pub(in crate::server) parity: &'a mut ParityFrontend,
    pub(in crate::server) connections: &'a mut Connections<ConnectionState>,
    pub(in crate::server) websockets: &'a mut WebSocketFrontend,
    pub(in crate::server) outbox: &'a mut Outbox,
    pub(in crate::server) now: Instant,
}

impl ParityOutput<'_> {
    /// Writes one message to a connection.
    pub(super) fn write_message(&mut self, key: Key, write: impl FnOnce(&mut Vec<u8>)) {
        let Self { connections, websockets, outbox, .. } = self;
        let codec = connections.table.codec(key);
        let Some(connection) = connections.table.get(key) else { return };
        let compression = connection.state.compression;
        let Some(out) = connections.outgoing(key) else { return };
        if codec == Codec::WebSocket {
            let mark = writer::begin_message(out);
            write(out);
            websockets.end_frame(out, mark, compression);
        } else {
            write(out);
            ndjson::end_line(out);
        }
        if let Some(connection) = connections.table.get_mut(key) {
            connection.record.traffic.messages_out += 1;
        }
        outbox.counters.traffic.messages_out += 1;
    }

    /// Sends what the dispatcher has written for a call of a session, after its dispatch.
    pub(in crate::server) fn send(
        &mut self,
        (key, number): (Key, u32),
        outcome: Outcome,
        text: &[u8],
    ) {
        if is_stream(number) {
            return self.send_to_stream((key, number), outcome, text);
        }
        let Some(session) = self.parity.get_mut(key) else { return };
        let Some(connection) = session.connection else { return };
        match outcome {
            Outcome::Response => {
                session.finish_key(number, Some(text));
                self.write_message(connection, |out| {
                    let start = out.len();
                    out.extend_from_slice(text);
                    convert::response_in_place(out, start);
                });
            }
            Outcome::Error(kind) => {
                session.finish_key(number, None);
                self.write_message(connection, |out| {
                    convert::write_error_response(out, text, kind);
                });
            }
            // The dialect has no notifications outside of streams.
            Outcome::Notification | Outcome::None | Outcome::Envelope => {}
        }
    }

    /// Sends the next chunk of a stream; after a response, the last ones.
    pub(super) fn send_to_stream(
        &mut self,
        (key, number): (Key, u32),
        outcome: Outcome,
        text: &[u8],
    ) {
        let Some(session) = self.parity.get_mut(key) else { return };
        let Some(stream) = session.protocol.streams.get_mut(number) else { return };
        match outcome {
            Outcome::Notification => {
                if let Some((chunk_type, data)) = convert::notification(text, number) {
                    self.write_chunk((key, number), (chunk_type, &data));
                }
            }
            Outcome::Response => {
                let result = convert::result_range(text, stream.request());
                session.finish_key(number, Some(text));
                self.write_chunk((key, number), (ChunkType::Result, &text[result]));
                self.end_stream((key, number), "completed");
            }
            Outcome::Error(kind) => {
                let mut data = Vec::new();
                convert::error_of(text, kind).write(&mut data);
                session.finish_key(number, None);
                self.write_chunk((key, number), (ChunkType::Error, &data));
                self.end_stream((key, number), "error");
            }
            Outcome::None | Outcome::Envelope => {}
        }
    }

    /// Writes a chunk to the connection of the session, and keeps it.
    fn write_chunk(&mut self, (key, number): (Key, u32), chunk: (ChunkType, &[u8])) {
        self.write_stream(key, |session, window, out, now| {
            if let Some(stream) = session.protocol.streams.get_mut(number) {
                stream.write_chunk(out, chunk, window, now);
            }
        });
    }

    /// Writes the end of a stream.
    pub(super) fn end_stream(&mut self, (key, number): (Key, u32), reason: &str) {
        self.write_stream(key, |session, window, out, now| {
            if let Some(stream) = session.protocol.streams.get_mut(number) {
                stream.write_eos(out, reason, window, now);
            }
            session.protocol.streams.remove_ended(window, ENDED_STREAMS_MAX, now);
        });
    }

    fn write_stream(
        &mut self,
        key: Key,
        write: impl FnOnce(&mut ParitySession, Option<&WindowLimits>, &mut Vec<u8>, Instant),
    ) {
        let (now, settings) = (self.now, self.parity.settings.session);
        let mut text = std::mem::take(&mut self.parity.scratch);
        text.clear();
        let Some(session) = self.parity.get_mut(key) else { return };
        let window = session.protocol.window(&settings);
        write(session, window.as_ref(), &mut text, now);
        let connection = session.connection;
        if let Some(connection) = connection.filter(|_| !text.is_empty()) {
            self.write_message(connection, |out| out.extend_from_slice(&text));
        }
        self.parity.scratch = text;
    }

    /// Completes a request of a session in flight.
    pub(in crate::server) fn complete_request(&mut self, key: Key, id: Id<'_>) {
        let Some(session) = self.parity.get_mut(key) else { return };
        session.state.in_flight.remove(id);
        session.pending_work.complete_request();
        let (pending_work, connection) = (session.pending_work, session.connection);
        if let Some(connection) = connection.and_then(|key| self.connections.table.get_mut(key)) {
            connection.complete_request(self.now);
            connection.pending_work.pending_responses = pending_work.pending_responses;
        }
    }

    /// Has the connection of a session wait for as many responses as the session.
    pub(super) fn copy_pending_work(&mut self, key: Key) {
        let Some(session) = self.parity.get(key) else { return };
        if let Some(connection) = session.connection
            && let Some(connection) = self.connections.table.get_mut(connection)
        {
            connection.pending_work.pending_responses = session.pending_work.pending_responses;
        }
    }

    /// Cancels the calls of a session whose connection reads no more responses; those of streams
    /// that can be resumed continue.
    pub(in crate::server) fn cancel_calls(&mut self, key: Key, deferred: &mut DeferredWork) {
        let Some(session) = self.parity.get_mut(key) else { return };
        let keeps_streams = session.is_resumable();
        let call_ids: Vec<_> = session.state.in_flight.calls().collect();
        for call_id in call_ids {
            let Some(call) = deferred.calls.find_awaited(call_id) else { continue };
            let number = call.reply_to.stream;
            if keeps_streams && is_stream(number) {
                continue;
            }
            let id = call.id.clone();
            if deferred.calls.cancel_call(call_id, &mut deferred.client_requests, self.outbox) {
                self.outbox.counters.requests.cancelled += 1;
                session.pending_work.complete_request();
            }
            session.state.in_flight.remove(id.as_id());
            session.finish_key(number, None);
        }
        self.copy_pending_work(key);
    }

    /// A connection is gone: its session waits for another one, or ends.
    pub(in crate::server) fn detach(&mut self, key: Key, dispatcher: &mut Dispatcher) {
        self.cancel_calls(key, &mut dispatcher.deferred);
        let settings = self.parity.settings.session;
        let now = self.now;
        let Some(session) = self.parity.get_mut(key) else { return };
        session.connection = None;
        session.protocol.detach();
        match session.protocol.window(&settings) {
            Some(window) if session.protocol.is_ready() => {
                session.expires_at = Some(now.after(window.age_max));
                self.parity.set_timer(key);
            }
            _ => self.end_session(key, dispatcher),
        }
    }

    /// Ends a session that no client has resumed.
    pub(super) fn end_session(&mut self, key: Key, dispatcher: &mut Dispatcher) {
        if let Some(mut session) = self.parity.remove(key) {
            let in_flight = &mut session.state.in_flight;
            dispatcher.deferred.abandon_calls(in_flight, self.outbox);
            dispatcher.facts.release(&mut session.state);
        }
    }

    /// Has a connection carry a session.
    pub(super) fn attach(
        &mut self,
        (connection_key, key): (Key, Key),
        dispatcher: &mut Dispatcher,
    ) {
        let Some(connection) = self.connections.table.get_mut(connection_key) else { return };
        let Some(session) = self.parity.get_mut(key) else { return };
        session.connection = Some(connection_key);
        session.state.transport = connection.state.transport;
        session.state.client = connection.state.client;
        dispatcher.facts.copy_identity(&connection.state, &mut session.state);
        let requires_handshake = connection.state.requires_handshake();
        let state = &mut connection.state;
        dispatcher.facts.keep_parity_session(state, Some(key), requires_handshake);
        connection.state.lifecycle = Lifecycle::OtherDialect;
    }

    /// Closes a connection for an error that was written to it.
    pub(super) fn close_for(&mut self, key: Key, code: ErrorCode) {
        let close_code = code.properties().close_code.unwrap_or(CloseCode::POLICY.as_u16());
        self.close_connection(key, close_code, code.as_str());
    }

    /// Closes a connection once its output is sent. `close_code`: of a WebSocket.
    pub(super) fn close_connection(&mut self, key: Key, close_code: u16, reason: &'static str) {
        if self.connections.table.codec(key) == Codec::WebSocket {
            let code = CloseCode::from_u16(close_code).unwrap_or(CloseCode::POLICY);
            self.websockets.count_close(code);
            self.connections.fail_websocket(key, ProtocolError { code, reason }, self.now);
            self.outbox.push(Effect::CancelCalls(key));
        } else {
            self.outbox.push(Effect::Close { key, reason: CloseReason::ProtocolViolation });
        }
    }

    /// Removes the request in flight with this id and returns its call.
    pub(super) fn take_call(session: &mut ParitySession, id: Id<'_>) -> Option<Key> {
        match session.state.in_flight.remove(id)? {
            RequestKey::Call(call_id) => Some(call_id),
            RequestKey::Stream(_) | RequestKey::Waiting => None,
        }
    }
}
