//! Input: from what a connection has received to the dispatcher.
//!
//! Connections are opened and closed (`lifecycle`, `endings`, `places`, `evictions`), and read
//! here: what the ring has received, and what waited for output to be sent, for the response to the
//! request before (`stdio.sequential`), or for the answer about its token. Their input is read by
//! its codec: `texts` of lines and WebSocket messages, `http` requests. Large messages are parsed
//! apart (`large`).
//!
//! Invariants: a response is framed where the dispatcher has written it; input that is not a
//! message gets an error, and costs its connection nothing else unless it violates a limit; the
//! memory of a connection is accounted after input and output.

mod large;

mod texts;

mod http;

mod lifecycle;

mod endings;

mod evictions;

mod places;

mod unproven;

use std::io;

use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::ring::{ReceiveBuffer, Ring, Socket};
use corelane_protocol::error::Error;
use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseError};

pub(super) use self::endings::{end_old_connections, end_revoked, next_age_check};
pub(super) use self::lifecycle::end_expired_credentials;
use super::connection_state::{
    ConnectionState, HttpExchange, MessageOrigin, PeerState, ResponseOwner,
};
use super::dispatch::MessageContext;
use super::outbox::{Effect, Outbox, OutgoingMessage};
use super::reply_to::{Outcome, PeerId, ReplyTo};
use super::shard::{Shard, Transports};
use super::shard_message::{LargeMessage, ParsedMessage};
use crate::connection::{CloseReason, Codec, Connection, ConnectionEvent};

impl Shard {
    /// Dispatches the messages in `input`. Returns the number of bytes consumed before the
    /// connection must not be read any more.
    #[inline]
    fn read(&mut self, key: Key, codec: Codec, mut input: PaddedText<'_>) -> usize {
        match codec {
            Codec::Ndjson => self.read_lines(key, input),
            Codec::WebSocket => self.read_frames(key, input),
            Codec::Http => {
                let mut from = self.read_requests(key, input.reborrow());
                // One of them may be an upgrade: frames follow it.
                let length = input.as_bytes().len();
                let codec = self.transports.connections.table.codec(key);
                if from < length && codec == Some(Codec::WebSocket) {
                    from += self.read_frames(key, input.part(from, length));
                }
                from
            }
        }
    }

    /// Dispatches one text of a connection: a line, or a text of a WebSocket message. Its response
    /// is framed where the dispatcher has written it.
    ///
    /// # Errors
    ///
    /// The text does not parse, and cannot be repaired.
    #[inline]
    fn dispatch_text(&mut self, key: Key, text: &mut PaddedText<'_>) -> Result<(), ParseError> {
        let length = text.as_bytes().len();
        let Self { transports, parser, dispatcher, outbox, now, .. } = self;
        let now = *now;
        parser.read(text, |document| {
            let Some(entry) = transports.connections.entry(key) else { return };
            let state = &entry.connection.state;
            if state.dialect.is_parity() {
                outbox.counters.traffic.messages_in += 1;
                let session = state.parity_session().filter(|_| state.violation.is_none());
                let mut parity = transports.parity_path(dispatcher, outbox, now);
                return parity.receive(key, session, document.root(), length);
            }
            let Some(mut response) = entry.begin_reserved_message() else { return };
            let begun = transports.large_messages.begun.as_deref_mut();
            let start = response.connection().outgoing.len();
            let mut peer = peer_state(response.connection(), outbox);
            peer.left_out = begun.map(|begun| &mut begun.partial.left_out);
            match dispatcher.dispatch(context(key, now), &mut peer, document.root()) {
                Outcome::None => {
                    if response.cancel().connection.state.dialect.is_parity() {
                        let mut parity = transports.parity_path(dispatcher, outbox, now);
                        return parity.receive(key, None, document.root(), length);
                    }
                    if !dispatcher.held.is_empty() && dispatcher.held.contains(key) {
                        transports.connections.table.hold_input(key);
                    }
                }
                _ => match transports.large_messages.begun.as_deref_mut() {
                    Some(begun) if begun.partial.is_used() => {
                        begun.partial.take(&mut response.connection().outgoing, start);
                        response.cancel();
                    }
                    _ => response.end(),
                },
            }
        })
    }
}

/// Returns the peer state of a connection.
#[inline]
const fn peer_state<'a>(
    connection: &'a mut Connection<ConnectionState>,
    outbox: &'a mut Outbox,
) -> PeerState<'a> {
    let Connection { state, pending_work, outgoing, record, .. } = connection;
    let origin = MessageOrigin::of_peer(record.peer_address());
    PeerState::new(origin, state, pending_work, outgoing, outbox)
}

/// Returns the context of a message on a connection.
#[inline]
const fn context(key: Key, now: Instant) -> MessageContext {
    let reply_to = ReplyTo::standalone(PeerId::Connection(key));
    MessageContext { reply_to, now, in_batch: false, is_modern: false }
}

impl Shard {
    /// Processes received bytes.
    #[inline]
    pub(super) fn handle_received<R: Ring>(
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
            let is_first = entry.connection.is_silent();
            // Pending input comes first.
            let is_held =
                entry.record_received(length) || self.transports.postpones_input(key, self.now);
            if is_first {
                self.take_place(ring, key);
            }
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
        let (mut violation, mut is_begun, mut input_bytes) = (None, false, 0);
        if let Some(mut entry) = connections.entry(key) {
            if read < length {
                entry.append_pending_input(&ring.bytes(buffer)[read..length]);
            }
            if entry.has_unread_input() {
                entry.limit_unread_input(ring, length);
            }
            entry.account_memory();
            input_bytes = entry.connection.input_bytes();
            violation = entry.connection.state.violation;
            // The upgrade of a WebSocket counts as one.
            is_begun = entry.connection.record.traffic.messages_in < 2;
        }
        if is_begun {
            self.parity_path().await_handshake(key);
        }
        self.transports.record_read(key, &mut self.parser, self.now);
        self.update_place(ring, key);
        if self.transports.input_pool.concerns(input_bytes) {
            violation = self.limit_input(ring, key);
        }
        self.relieve_memory(ring);
        if let Some(reason) = violation {
            self.close_violating(ring, key, reason);
        }
    }

    /// Processes a completed send. Returns the key of the connection.
    #[inline]
    pub(super) fn handle_sent<R: Ring>(
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
        self.handle_connection_event(ring, next);
        Some(key)
    }

    /// Processes the end of the input of a connection.
    pub(super) fn handle_end_of_stream<R: Ring>(
        &mut self,
        ring: &mut R,
        socket: Socket,
        result: &io::Result<()>,
    ) {
        let connections = &mut self.transports.connections;
        let next = connections.handle_end_of_stream(ring, socket, result);
        self.handle_connection_event(ring, next);
    }

    /// Handles an event of the connection table.
    pub(super) fn handle_connection_event<R: Ring>(
        &mut self,
        ring: &mut R,
        event: ConnectionEvent,
    ) {
        match event {
            ConnectionEvent::None => {}
            ConnectionEvent::Resume(key)
                if self.transports.large_work.is_postponed(key)
                    || self.transports.large_messages.is_on_thread(key)
                    || self.transports.input_pool.is_waiting(key) =>
            {
                self.transports.connections.table.hold_input(key);
            }
            ConnectionEvent::Resume(key) => self.resume_reading(ring, key),
            ConnectionEvent::EndOfStream(key) => self.finish_input(key),
            ConnectionEvent::Failed(key) => self.cancel_calls(key),
        }
    }

    /// Reads a connection again if its output allows.
    pub(super) fn try_resume<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let next = self.transports.connections.try_resume(key, self.now);
        self.handle_connection_event(ring, next);
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
        self.update_place(ring, key);
        let connection = self.transports.connections.table.get(key);
        let input_bytes = connection.map_or(0, Connection::input_bytes);
        if self.transports.input_pool.concerns(input_bytes) {
            self.limit_input(ring, key);
        }
        self.check_memory(ring, key);
        if self.phase.has_begun_drain() {
            // It was open only for what it had received.
            return self.close_drained(key);
        }
        self.transports.connections.table.resume_receive(ring, key);
        self.finish_input(key);
    }

    /// Closes a connection of a shard that drains, unless it holds a message.
    pub(super) fn close_drained(&mut self, key: Key) {
        if !self.holds_message(key) {
            self.outbox.push(Effect::Close { key, reason: CloseReason::Drain });
        }
    }

    /// Returns whether a message of a connection was received whole and is not dispatched yet:
    /// a thread parses it, or it waits for the answer about its token.
    pub(super) fn holds_message(&self, key: Key) -> bool {
        let Self { transports: Transports { connections, large_messages, .. }, dispatcher, .. } =
            self;
        let connection = connections.table.get(key).filter(|connection| connection.is_open());
        connection.is_some_and(|connection| {
            large_messages.contains(key)
                || dispatcher.held.contains(key)
                || connection.holds_restored_request()
        })
    }

    /// Continues a connection whose exchange has new output or has ended: it closes, is read again,
    /// or waits for the rest of the response.
    pub(super) fn advance_exchange<R: Ring>(&mut self, ring: &mut R, key: Key) {
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

impl Shard {
    /// Stops reading a connection until its output is sent or a request that waits has started.
    pub(super) fn hold_input<R: Ring>(&mut self, ring: &mut R, key: Key) {
        let table = &mut self.transports.connections.table;
        table.hold_input(key);
        table.pause(ring, key);
    }

    /// Has a connection that waits for a response or for its output read again, once all effects
    /// are applied.
    pub(super) fn schedule_reading(&mut self, key: Key) {
        if self.transports.connections.table.waits_to_be_read(key) {
            self.outbox.resume_reading(key);
        }
    }

    /// Starts the requests of a connection that wait for the one before (`stdio.sequential`), until
    /// one is in flight or the output exceeds its limit. After the last one the connection may
    /// close.
    #[inline]
    pub(super) fn start_waiting<R: Ring>(&mut self, ring: &mut R, key: Key) {
        if !self.dispatcher.waiting.is_empty() {
            self.start_requests(ring, key);
        }
    }

    #[cold]
    fn start_requests<R: Ring>(&mut self, ring: &mut R, key: Key) {
        loop {
            if self.dispatcher.held.contains(key) {
                // The answer about its token resumes the connection.
                return self.transports.connections.account_memory(key);
            }
            let connections = &mut self.transports.connections;
            let Some(connection) = connections.table.get_mut(key) else { return };
            if connection.queued_bytes() > connections.shared.options.outgoing_bytes_max {
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

    /// Starts requests that wait before further input is read. Returns whether none may be read.
    fn holds_back_input<R: Ring>(&mut self, ring: &mut R, key: Key) -> bool {
        if let Some(parsed) = self.transports.large_messages.take(key)
            && self.dispatch_parsed(key, *parsed)
        {
            return true;
        }
        if let Some(text) = self.dispatcher.held.take(key) {
            // It does not wait for those that came after it.
            self.dispatcher.waiting.begin_start();
            self.dispatch_kept_line(key, text);
            self.dispatcher.waiting.end_start();
            if self.dispatcher.held.contains(key)
                || self.transports.large_messages.is_on_thread(key)
            {
                // Its token is still asked about, and something else has resumed the connection;
                // or its response is written by a thread.
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

    /// Responds with `error` to the requests of a connection that wait for the one before. Returns
    /// their number.
    fn respond_waiting(&mut self, key: Key, error: &Error) -> u64 {
        let mut failed = 0;
        while let Some(connection) = self.transports.connections.table.get_mut(key)
            && let Some(id) = self.dispatcher.waiting.discard_next(&mut connection.state.in_flight)
        {
            self.outbox.count_error(error);
            let to = ReplyTo::standalone(PeerId::Connection(key));
            self.send_to_peer(to, &OutgoingMessage::Error { id: id.as_id(), error });
            failed += 1;
        }
        failed
    }

    /// Responds with `error` to the requests that wait, which do not start any more. Returns their
    /// number.
    pub(super) fn fail_waiting(&mut self, key: Key, error: &Error) -> u64 {
        let failed = self.respond_waiting(key, error);
        if failed > 0 {
            self.finish_input(key);
        }
        failed
    }
}

impl Shard {
    /// Handles a message that a thread has parsed, or a response that it has written.
    #[cold]
    pub(super) fn handle_parsed<R: Ring>(&mut self, ring: &mut R, parsed: Box<ParsedMessage>) {
        if matches!(parsed.message, LargeMessage::Response(_)) {
            return self.handle_large_response(ring, *parsed);
        }
        if let Some(key) = parsed.message.connection() {
            self.transports.large_messages.keep(key, parsed);
            // Dispatches it, once the output of the connection allows.
            let next = self.transports.connections.end_hold(key, self.now);
            self.handle_connection_event(ring, next);
            return;
        }
        self.transports.large_messages.end(parsed.bytes);
        if let LargeMessage::Session(message) = parsed.message {
            self.handle_session_message(*message);
        }
    }

    /// Dispatches a parsed message of a connection. Returns whether the connection waits again, for
    /// the answer about a token.
    #[cold]
    fn dispatch_parsed(&mut self, key: Key, parsed: ParsedMessage) -> bool {
        let ParsedMessage { message, bytes } = parsed;
        let waits = match message {
            LargeMessage::Text { text, .. } => {
                self.dispatch_kept_line(key, text);
                self.dispatcher.held.contains(key)
                    || self.transports.large_messages.is_on_thread(key)
            }
            LargeMessage::Request(request) => match self.handle_parsed_request(key, request) {
                None => self.transports.large_messages.is_on_thread(key),
                Some(request) => {
                    let message = LargeMessage::Request(request);
                    let parsed = Box::new(ParsedMessage { message, bytes });
                    self.transports.large_messages.restore(key, parsed);
                    self.transports.connections.table.hold_input(key);
                    return true;
                }
            },
            LargeMessage::Session(message) => {
                self.handle_session_message(*message);
                false
            }
            // Sent as soon as it is written.
            LargeMessage::Response(_) => false,
        };
        self.transports.large_messages.end(bytes);
        waits
    }
}
