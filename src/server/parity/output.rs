//! Messages of the server to the client of a session.
//!
//! Invariants: a chunk gets its number where it is written, so that what is dropped leaves no gap;
//! the last chunks of a stream are always written, and the number of dropped ones before them.

use std::time::Duration;

use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_parity::envelope::ChunkType;
use corelane_parity::error::{ErrorCode, HttpStatus, ParityError};
use corelane_parity::stream::{OutgoingStream, WindowLimits};
use corelane_parity::write;
use corelane_protocol::jsonrpc::{Id, IdBuf};
use corelane_transport::websocket::limits::{CloseCode, ProtocolError};

use super::ParitySessions;
use super::carrier::{Carrier, HttpCarrier, QueuedChunk, SessionCarrier};
use super::flow::load_of;
use super::session::{EndOutcome, ParitySession, RequestEnd, is_stream};
use crate::connection::{CloseReason, Codec, Connection, Connections};
use crate::server::connection_state::ConnectionState;
use crate::server::dispatch::Dispatcher;
use crate::server::outbox::{Effect, NotificationKind, Outbox, OutgoingMessage};
use crate::server::owner_id::SessionId;
use crate::server::reply_to::{ParityKey, PeerId, RefusalFields};
use crate::server::shard_message::{
    ExchangeAddress, FrontAddress, HttpOutput, ParityHttpOutput, SessionMessage,
};
use crate::server::websocket::WebSocketTransport;
use crate::telemetry::counters::ChunkCounters;

/// The sessions with the connections that carry them, and what their messages pass through.
pub struct ParityPath<'a> {
    pub parity: &'a mut ParitySessions,
    pub connections: &'a mut Connections<ConnectionState>,
    pub websockets: &'a mut WebSocketTransport,
    pub dispatcher: &'a mut Dispatcher,
    pub outbox: &'a mut Outbox,
    pub now: Instant,
}

impl ParityPath<'_> {
    /// Writes one message to a connection.
    pub(super) fn write_message(&mut self, connection: Key, write: impl FnOnce(&mut Vec<u8>)) {
        if let Some(message) = self.connections.begin_message(connection) {
            message.write(write);
            self.outbox.counters.traffic.messages_out += 1;
        }
    }

    /// Sends a message over the connection of another shard that carries a session, if one does.
    pub(super) fn write_remote(&mut self, key: ParityKey, write: impl FnOnce(&mut Vec<u8>)) {
        let mut text = Vec::new();
        write(&mut text);
        self.parity.send_remote(key, vec![text], false, self.outbox);
    }

    /// Sends output to an HTTP exchange.
    pub(super) fn forward(&mut self, exchange: ExchangeAddress, output: ParityHttpOutput) {
        let output = HttpOutput::Parity(output);
        self.outbox.forward(exchange.shard, SessionMessage::Output { exchange, output });
    }

    /// Answers a message; over HTTP with this status.
    pub(super) fn reply(
        &mut self,
        carrier: Carrier<'_>,
        key: ParityKey,
        status: HttpStatus,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        self.reply_with(carrier, key, status, None, write);
    }

    /// Answers a message; over HTTP with this status and the header fields of a refusal.
    pub(super) fn reply_with(
        &mut self,
        carrier: Carrier<'_>,
        key: ParityKey,
        status: HttpStatus,
        fields: Option<RefusalFields>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        match carrier {
            Carrier::Connection(connection) => self.write_message(connection, write),
            Carrier::Remote => self.write_remote(key, write),
            Carrier::Exchange { address, .. } => {
                let mut text = Vec::new();
                write(&mut text);
                let session = self.parity.get(key).filter(|session| session.has_begun());
                let session = session.map(|session| session.id);
                let output = ParityHttpOutput::Response { status, session, fields, text };
                self.forward(address, output);
                self.parity.is_answered = true;
            }
        }
    }

    /// Writes the response to a call; over HTTP with this status and the header fields of a
    /// refusal.
    pub(super) fn write_call_response(
        &mut self,
        key: ParityKey,
        number: u32,
        status: HttpStatus,
        fields: Option<RefusalFields>,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        let Some(session) = self.parity.get_mut(key) else { return };
        match &mut session.carrier {
            SessionCarrier::Connection(connection) => {
                let connection = *connection;
                self.write_message(connection, write);
            }
            SessionCarrier::Remote(_) => self.write_remote(key, write),
            SessionCarrier::Http(http) => {
                let Some(exchange) = http.take_exchange(number) else { return };
                let session = Some(session.id);
                let mut text = Vec::new();
                write(&mut text);
                let output = ParityHttpOutput::Response { status, session, fields, text };
                self.forward(exchange, output);
            }
            SessionCarrier::Front(_) | SessionCarrier::None => {}
        }
    }

    /// Sends a message for a call or stream of a session. Returns whether its handler must pause:
    /// what carries the session is full.
    pub fn send_message(
        &mut self,
        key: ParityKey,
        number: u32,
        message: &OutgoingMessage<'_>,
        took: Duration,
    ) -> bool {
        let streams = is_stream(number);
        if streams && !self.has_stream(key, number) {
            return false;
        }
        match *message {
            OutgoingMessage::Result { id, response } => {
                self.end_request(key, number, took, EndOutcome::Result(response));
                if streams {
                    self.write_chunk(key, number, ChunkType::Result, response.result(id));
                    self.end_stream(key, number, "completed");
                } else {
                    self.write_call_response(key, number, HttpStatus::OK, None, |out| {
                        write::response(out, response);
                    });
                }
            }
            OutgoingMessage::Error { id, error } => {
                let error = ParityError::from(error);
                self.end_request(key, number, took, EndOutcome::Failed(&error));
                self.write_failure(key, number, id, &error, None);
            }
            OutgoingMessage::Notification { kind, data, .. } if streams => {
                return self.send_chunk(key, number, kind, data);
            }
            // The dialect has no notifications outside of streams, and no requests of the server.
            OutgoingMessage::Notification { .. } | OutgoingMessage::Request(_) => {}
        }
        false
    }

    /// Writes the error of a request that has ended: the last chunks of its stream, or its
    /// response, over HTTP with the header fields of a refusal.
    pub(super) fn write_failure(
        &mut self,
        key: ParityKey,
        number: u32,
        id: Id<'_>,
        error: &ParityError,
        fields: Option<RefusalFields>,
    ) {
        if is_stream(number) {
            let mut data = Vec::new();
            error.write(&mut data);
            self.write_chunk(key, number, ChunkType::Error, &data);
            self.end_stream(key, number, "error");
        } else {
            self.write_call_response(key, number, error.http_status(), fields, |out| {
                write::error_response(out, id, error);
            });
        }
    }

    fn has_stream(&mut self, key: ParityKey, number: u32) -> bool {
        let session = self.parity.get_mut(key);
        session.is_some_and(|session| session.protocol.streams.get_mut(number).is_some())
    }

    /// Sends a chunk of a stream that is not one of its last, or drops it. Returns whether its
    /// handler must pause.
    fn send_chunk(
        &mut self,
        key: ParityKey,
        number: u32,
        kind: NotificationKind,
        data: &[u8],
    ) -> bool {
        let settings = self.parity.settings.session;
        let Some(session) = self.parity.get_mut(key) else { return false };
        let load = load_of(session, number, self.connections, &settings);
        let Some(stream) = session.protocol.streams.get_mut(number) else { return false };
        if load.is_closed() || stream.excess_bytes() > settings.window_bytes_max {
            stream.record_dropped();
            return load.is_high();
        }
        match kind {
            NotificationKind::Progress => {
                let progress = [b"{", data].concat();
                self.write_chunk(key, number, ChunkType::Progress, &progress);
            }
            NotificationKind::Log { .. } => self.write_chunk(key, number, ChunkType::Log, data),
            NotificationKind::Partial => self.write_chunk(key, number, ChunkType::Partial, data),
            NotificationKind::Required | NotificationKind::TaskStatus => {}
        }
        load.is_high()
    }

    /// Ends a request before its last message is written.
    pub(super) fn end_request(
        &mut self,
        key: ParityKey,
        number: u32,
        took: Duration,
        outcome: EndOutcome<'_>,
    ) {
        let Some(session) = self.parity.get_mut(key) else { return };
        let end = RequestEnd { outcome, took, now: self.now };
        session.end_request(number, &end, &mut self.outbox.counters.parity);
        self.parity.account(key);
    }

    /// Writes a chunk to what carries the session, and keeps it. Before the first one after a gap:
    /// the number of dropped ones.
    fn write_chunk(&mut self, key: ParityKey, number: u32, chunk_type: ChunkType, data: &[u8]) {
        let session = self.parity.get_mut(key);
        let stream = session.and_then(|session| session.protocol.streams.get_mut(number));
        let dropped = stream.map_or(0, OutgoingStream::take_dropped);
        if dropped > 0 {
            let mut data = Vec::new();
            write::dropped_chunks(&mut data, dropped);
            self.write_chunk(key, number, ChunkType::Log, &data);
        }
        count_chunk(&mut self.outbox.counters.parity.chunks, chunk_type);
        self.write_stream(key, number, |session, window, out, now| {
            if let Some(stream) = session.protocol.streams.get_mut(number) {
                stream.write_chunk(out, chunk_type, data, window, now);
            }
        });
    }

    /// Writes the end of a stream.
    pub(super) fn end_stream(&mut self, key: ParityKey, number: u32, reason: &str) {
        count_chunk(&mut self.outbox.counters.parity.chunks, ChunkType::Eos);
        self.write_stream(key, number, |session, window, out, now| {
            if let Some(stream) = session.protocol.streams.get_mut(number) {
                stream.write_eos(out, reason, window, now);
            }
            session.protocol.streams.keep_ended(window, now);
        });
        // The response that has carried its chunks is complete.
        let session = self.parity.get_mut(key);
        let exchange = session.and_then(|it| it.carrier.http_mut()?.take_exchange(number));
        if let Some(exchange) = exchange {
            self.forward(exchange, ParityHttpOutput::End);
        }
    }

    fn write_stream(
        &mut self,
        key: ParityKey,
        number: u32,
        write: impl FnOnce(&mut ParitySession, Option<&WindowLimits>, &mut Vec<u8>, Instant),
    ) {
        let (now, settings) = (self.now, self.parity.settings.session);
        let mut text = std::mem::take(&mut self.parity.scratch);
        text.clear();
        let Some(session) = self.parity.get_mut(key) else { return };
        let window = session.protocol.window(&settings);
        // Before: an ended stream may be removed.
        let is_http = session.carrier.http().is_some();
        let stream = session.protocol.streams.get_mut(number).filter(|_| is_http);
        let event = stream.map(|stream| {
            let seq = stream.next_seq();
            (format!("{}:{seq}", stream.id()), (number, seq))
        });
        write(session, window.as_ref(), &mut text, now);
        let connection = session.carrier.connection();
        match (connection, event) {
            _ if text.is_empty() => {}
            (Some(connection), _) => {
                self.write_message(connection, |out| out.extend_from_slice(&text));
            }
            (None, Some((id, place))) => {
                let chunk = QueuedChunk { id: id.into(), place, text: text.clone() };
                self.send_event(key, number, chunk);
            }
            (None, None) => self.write_remote(key, |out| out.extend_from_slice(&text)),
        }
        self.parity.account(key);
        self.parity.scratch = text;
    }

    /// Sends a chunk as an event, or keeps it until there is an event stream.
    pub(super) fn send_event(&mut self, key: ParityKey, number: u32, mut chunk: QueuedChunk) {
        let events_max = self.parity.settings.events_max();
        let Some(session) = self.parity.get_mut(key) else { return };
        let session_id = session.id;
        let Some(http) = session.carrier.http_mut() else { return };
        let Some(exchange) = http.exchange_of(number) else {
            http.queue(chunk);
            return self.parity.account(key);
        };
        http.add_unsent(exchange, chunk.text.len());
        if http.events == Some(exchange) {
            http.record_event(&mut chunk, session_id, events_max);
        } else {
            let (number, seq) = chunk.place;
            http.record_posted(number, seq);
        }
        self.forward(exchange, chunk.into_event(session_id));
    }

    /// Sends the chunks that wait for the event stream.
    pub(super) fn flush_events(&mut self, key: ParityKey) {
        let events_max = self.parity.settings.events_max();
        loop {
            let Some(session) = self.parity.get_mut(key) else { return };
            let session_id = session.id;
            let Some(http) = session.carrier.http_mut() else { return };
            let Some(events) = http.events else { return };
            let Some(mut chunk) = http.pop_queued() else { return self.parity.account(key) };
            http.add_unsent(events, chunk.text.len());
            http.record_event(&mut chunk, session_id, events_max);
            self.forward(events, chunk.into_event(session_id));
        }
    }

    /// Sends a `keepalive`: over HTTP to the event stream, if there is one.
    pub(super) fn send_keepalive(&mut self, key: ParityKey, hint: u64) {
        let Some(session) = self.parity.get(key) else { return };
        match &session.carrier {
            SessionCarrier::Connection(connection) => {
                let connection = *connection;
                self.write_message(connection, |out| write::keepalive(out, hint));
            }
            SessionCarrier::Remote(_) => self.write_remote(key, |out| write::keepalive(out, hint)),
            SessionCarrier::Http(http) => {
                let Some(events) = http.events else { return };
                let mut data = Vec::new();
                write::keepalive(&mut data, hint);
                let (session, name, id) = (session.id, "keepalive", None);
                self.forward(events, ParityHttpOutput::Event { session, name, id, data });
            }
            SessionCarrier::Front(_) | SessionCarrier::None => {}
        }
    }

    /// Completes a request of a session in flight.
    pub fn remove_in_flight(&mut self, key: ParityKey, id: Id<'_>) {
        let Some(session) = self.parity.get_mut(key) else { return };
        session.state.in_flight.remove_any(id);
        session.pending_work.count_response();
        let (pending_work, connection) = (session.pending_work, session.carrier.connection());
        if let Some(connection) = connection.and_then(|key| self.connections.table.get_mut(key)) {
            connection.count_response(self.now);
            connection.pending_work.pending_responses = pending_work.pending_responses;
        }
    }

    /// Has the connection of a session wait for as many responses as the session.
    pub(super) fn copy_pending_work(&mut self, key: ParityKey) {
        let Some(session) = self.parity.get(key) else { return };
        if let Some(connection) = session.carrier.connection()
            && let Some(connection) = self.connections.table.get_mut(connection)
        {
            connection.pending_work.pending_responses = session.pending_work.pending_responses;
        }
    }

    /// Cancels the calls of a session whose connection reads no more responses; those of streams
    /// that can be resumed continue.
    pub fn cancel_calls(&mut self, key: ParityKey) {
        let session = self.parity.get(key);
        let keeps_streams = session.is_some_and(ParitySession::is_resumable);
        self.cancel_if(key, |number| !(keeps_streams && is_stream(number)));
    }

    /// Cancels the calls of a session that `is_over` returns `true` for, by their numbers.
    pub(super) fn cancel_if(&mut self, key: ParityKey, is_over: impl Fn(u32) -> bool) {
        for (number, _) in self.take_calls(key, is_over) {
            let outcome = EndOutcome::Failed(&ParityError::cancelled());
            self.end_request(key, number, Duration::ZERO, outcome);
        }
    }

    /// Cancels the calls of a session that `is_over` returns `true` for, and returns their numbers
    /// and ids.
    pub(super) fn take_calls(
        &mut self,
        key: ParityKey,
        is_over: impl Fn(u32) -> bool,
    ) -> Vec<(u32, IdBuf)> {
        let deferred = &mut self.dispatcher.deferred;
        let mut taken = Vec::new();
        let Some(session) = self.parity.get_mut(key) else { return taken };
        let call_ids: Vec<_> = session.state.in_flight.calls().collect();
        for call_id in call_ids {
            let Some(call) = deferred.calls.find_awaited(call_id) else { continue };
            let number = call.reply_to.stream;
            if !is_over(number) {
                continue;
            }
            let id = call.id.clone();
            if deferred.calls.cancel_call(call_id, &mut deferred.client_requests, self.outbox) {
                self.outbox.counters.requests.cancelled += 1;
                session.pending_work.count_response();
            }
            session.state.in_flight.remove_any(id.as_id());
            taken.push((number, id));
        }
        self.copy_pending_work(key);
        taken
    }

    /// A connection is gone: its session waits for another one, or ends.
    pub fn detach(&mut self, key: ParityKey) {
        if self.parity.get(key).is_some_and(|session| session.carrier.front().is_some()) {
            return self.end_session(key, None);
        }
        self.cancel_calls(key);
        let settings = self.parity.settings.session;
        let now = self.now;
        let Some(session) = self.parity.get_mut(key) else { return };
        session.carrier = SessionCarrier::None;
        session.protocol.skip_exchange(&settings, now);
        session.protocol.detach();
        match session.protocol.window(&settings) {
            Some(window) if session.protocol.is_ready() => {
                session.expires_at = Some(now.after(window.age_max));
                self.parity.set_timer(key);
            }
            _ => self.end_session(key, None),
        }
    }

    /// Ends a session. `reason`: the last message to its client, unless that knows or is gone.
    pub fn end_session(&mut self, key: ParityKey, reason: Option<&ParityError>) {
        let Some(mut session) = self.parity.remove(key) else { return };
        session.end_records(self.now);
        let calls = session.calls(&mut self.dispatcher.deferred);
        let in_flight = &mut session.state.in_flight;
        self.dispatcher.deferred.abandon_calls(in_flight, self.outbox);
        self.dispatcher.facts.release(&mut session.state);
        self.dispatcher.rate.end_session(PeerId::Parity(key));
        match session.carrier {
            SessionCarrier::Front(front) => {
                let shard = self.dispatcher.handlers.shard;
                front.report_closed(FrontAddress { shard, key }, self.outbox);
            }
            SessionCarrier::Remote(mut remote) => {
                let (mut code, mut text) =
                    (CloseCode::GOING_AWAY.as_u16(), "the session has ended");
                if let Some(error) = reason {
                    let mut message = Vec::new();
                    write::error(&mut message, None, error);
                    remote.relay(vec![message], false, 0, self.outbox);
                    (code, text) = (close_code(error.code), error.code.as_str());
                }
                remote.close(code, text, self.outbox);
            }
            SessionCarrier::Http(http) => self.end_http(session.id, *http, &calls, reason),
            SessionCarrier::Connection(_) | SessionCarrier::None => {}
        }
    }

    /// Ends the event streams of a session, each with an `error` if there is a reason to tell, and
    /// answers its calls as cancelled.
    pub(super) fn end_http(
        &mut self,
        session: SessionId,
        http: HttpCarrier,
        calls: &[(u32, IdBuf)],
        reason: Option<&ParityError>,
    ) {
        if let Some(events) = http.events {
            self.end_events(session, events, reason);
        }
        for (number, exchange) in http.exchanges {
            let call = calls.iter().find(|(known, _)| *known == number && !is_stream(number));
            let Some((_, id)) = call else {
                self.end_events(session, exchange, reason);
                continue;
            };
            let (error, mut text) = (ParityError::cancelled(), Vec::new());
            write::error_response(&mut text, id.as_id(), &error);
            let (status, session, fields) = (error.http_status(), None, None);
            let output = ParityHttpOutput::Response { status, session, fields, text };
            self.forward(exchange, output);
        }
    }

    /// Ends an event stream: with an `error` first, if there is a reason to tell.
    pub(super) fn end_events(
        &mut self,
        session: SessionId,
        exchange: ExchangeAddress,
        reason: Option<&ParityError>,
    ) {
        if let Some(error) = reason {
            let mut data = Vec::new();
            write::error(&mut data, None, error);
            let (name, id) = ("error", None);
            self.forward(exchange, ParityHttpOutput::Event { session, name, id, data });
        }
        self.forward(exchange, ParityHttpOutput::End);
    }

    /// Tells the client of a connection that carries a session why that ends.
    pub fn announce_end(&mut self, connection: Key, reason: &ParityError) {
        let carries = |it: &Connection<ConnectionState>| it.state.parity_session().is_some();
        if self.connections.table.get(connection).is_some_and(carries) {
            self.write_message(connection, |out| write::error(out, None, reason));
        }
    }

    /// Closes a connection for an error that was written to it. Nothing more of it is read.
    pub(super) fn close_for(&mut self, connection: Key, code: ErrorCode) {
        self.close_connection(connection, close_code(code), code.as_str());
        if let Some(connection) = self.connections.table.get_mut(connection) {
            connection.state.violation.get_or_insert(CloseReason::ProtocolViolation);
        }
    }

    /// Closes a connection once its output is sent. `close_code`: of a WebSocket.
    pub(super) fn close_connection(
        &mut self,
        connection: Key,
        close_code: u16,
        reason: &'static str,
    ) {
        if self.connections.table.codec(connection) == Some(Codec::WebSocket) {
            let code = CloseCode::from_u16(close_code).unwrap_or(CloseCode::POLICY);
            // One that closes already is counted for its reason.
            let found = self.connections.table.get(connection);
            if found.is_some_and(|found| !found.is_discarding()) {
                self.websockets.count_close(code);
            }
            self.connections.fail_websocket(connection, ProtocolError { code, reason }, self.now);
            self.outbox.push(Effect::CancelCalls(connection));
        } else {
            let (key, reason) = (connection, CloseReason::ProtocolViolation);
            self.outbox.push(Effect::Close { key, reason });
        }
    }
}

/// Returns the close code of a WebSocket that closes for an error.
pub(super) fn close_code(code: ErrorCode) -> u16 {
    code.properties().close_code.unwrap_or(CloseCode::POLICY.as_u16())
}

/// Counts a chunk.
const fn count_chunk(chunks: &mut ChunkCounters, chunk_type: ChunkType) {
    let counter = match chunk_type {
        ChunkType::Progress => &mut chunks.progress,
        ChunkType::Log => &mut chunks.log,
        ChunkType::Partial => &mut chunks.partial,
        ChunkType::Result => &mut chunks.result,
        ChunkType::Error => &mut chunks.error,
        ChunkType::Eos => &mut chunks.eos,
    };
    *counter += 1;
}
