//! From lines of TCP and stdio, and from WebSocket messages, to the dispatcher; and texts that are
//! no messages, with the errors that answer them.
//!
//! A WebSocket message holds one JSON text, or several separated by newlines. Each is dispatched as
//! over TCP, and each response is a message of its own. The opening handshake is in `http`; pings,
//! timeouts and the closing handshake are in [`crate::connection`].
//!
//! Invariants: a response is framed where the dispatcher has written it; a text that can be
//! repaired is dispatched; any other gets one error with its id, if that can be read, unless it is
//! a response or blank; text of MCP that is not UTF-8 is skipped over stdio, answered over TCP, and
//! fails a WebSocket. In the parity dialect a text that is not UTF-8 or too long is answered and
//! closes the connection, on every transport. A violation of the WebSocket protocol closes the
//! connection with its close code; a peer that does not read is not read from, even in the middle
//! of a message.

use corelane_base::slab::Key;
use corelane_protocol::error::Error;
use corelane_protocol::json::{PaddedBuffer, PaddedText, ParseError};
use corelane_protocol::message_head::MessageHead;
use corelane_transport::ndjson::LineEvent;
use corelane_transport::websocket::limits::ProtocolError;
use corelane_transport::websocket::reader::DelimitedMessages;
use corelane_transport::websocket::writer;

use super::{context, peer_state};
use crate::connection::{CloseReason, MessageEvent};
use crate::server::dispatch::write_text_error;
use crate::server::outbox::Effect;
use crate::server::reply_to::Outcome;
use crate::server::shard::{Shard, Transports};
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;

impl Shard {
    /// Dispatches the lines in `input`, as [`Shard::read`] does.
    #[inline]
    pub(super) fn read_lines(&mut self, key: Key, mut input: PaddedText<'_>) -> usize {
        let mut from = 0;
        loop {
            let connections = &mut self.transports.connections;
            match connections.next_line(key, input.as_bytes(), &mut from, self.now) {
                LineEvent::InPlace { start, end } => {
                    if self.transports.large_messages.takes(end - start)
                        && self.parse_copy(key, &input.as_bytes()[start..end])
                    {
                        continue;
                    }
                    self.dispatch_line(key, input.part(start, end));
                }
                LineEvent::Assembled => {
                    let line = connections.table.take_line(key);
                    let bytes = line.as_bytes().len();
                    let Some(mut line) = self.parse_text(key, line) else { continue };
                    self.transports.enlarge_output(key, bytes);
                    self.dispatch_line(key, line.text());
                    self.transports.reduce_output(key, bytes);
                    self.transports.connections.shared.pool.put(line.into_buffer());
                }
                LineEvent::TooLarge if self.reject_oversized(key) => {
                    return input.as_bytes().len();
                }
                LineEvent::TooLarge => {}
                LineEvent::NeedMore => return from,
            }
        }
    }

    /// Dispatches one line; one that cannot be repaired is answered with an error.
    #[inline]
    fn dispatch_line(&mut self, key: Key, mut text: PaddedText<'_>) {
        if let Err(error) = self.dispatch_text(key, &mut text) {
            self.reject_text(key, &text, error);
        }
    }

    /// Dispatches a line that was kept apart from the input.
    pub(super) fn dispatch_kept_line(&mut self, key: Key, mut text: PaddedBuffer) {
        // Reserves the output buffer, as input does.
        if self.transports.connections.outgoing(key).is_some() {
            let bytes = text.as_bytes().len();
            self.transports.enlarge_output(key, bytes);
            self.transports.large_messages.begin_response(&text);
            self.dispatch_line(key, text.text());
            self.transports.reduce_output(key, bytes);
        }
        let begun = self.transports.large_messages.take_response();
        self.finish_message(key, text, begun);
    }
}

impl Shard {
    /// Dispatches the messages in `input`, as [`Shard::read`] does.
    #[inline]
    pub(super) fn read_frames(&mut self, key: Key, mut input: PaddedText<'_>) -> usize {
        let mut from = 0;
        loop {
            let Transports { connections, websockets, .. } = &mut self.transports;
            let limits = &websockets.rules.frame_limits;
            let arrived = input.as_bytes_mut();
            let rest = match connections.next_message(key, arrived, &mut from, limits, self.now) {
                MessageEvent::InPlace { start, end, is_compressed: false } => {
                    self.read_message(key, &mut input.part(start, end))
                }
                MessageEvent::InPlace { start, end, is_compressed: true } => {
                    self.read_compressed(key, &input.as_bytes()[start..end])
                }
                MessageEvent::Assembled { is_compressed } => {
                    let message = connections.table.take_message(key);
                    let bytes = message.as_bytes().len();
                    let message = if is_compressed {
                        Some(message)
                    } else {
                        self.parse_message(key, message)
                    };
                    let Some(mut message) = message else { continue };
                    self.transports.enlarge_output(key, bytes);
                    let rest = if is_compressed {
                        self.read_compressed(key, message.as_bytes())
                    } else {
                        self.read_message(key, &mut message.text())
                    };
                    self.transports.reduce_output(key, bytes);
                    self.transports.connections.shared.pool.put(message.into_buffer());
                    rest
                }
                MessageEvent::Invalid(error) => {
                    self.refuse_message(key, error);
                    None
                }
                MessageEvent::Closed(_) => {
                    self.handle_close_frame(key);
                    None
                }
                MessageEvent::NeedMore => return from,
            };
            if let Some(WaitingRest) = rest {
                // Later input queues behind the rest.
                let connections = &mut self.transports.connections;
                connections.append_pending_input(key, &input.as_bytes()[from..]);
                from = input.as_bytes().len();
            }
        }
    }

    /// Dispatches the texts of one message. Has the rest wait if the peer's output queue is full.
    #[inline]
    fn read_message(&mut self, key: Key, message: &mut PaddedText<'_>) -> Option<WaitingRest> {
        if self.transports.websockets.rules.requires_newline
            && let Err(error) = DelimitedMessages::strict(message.as_bytes())
        {
            self.fail_websocket(key, error);
            return None;
        }
        let length = message.as_bytes().len();
        let Some(range) = DelimitedMessages::new(message.as_bytes()).next() else {
            self.record_empty(key, length);
            return None;
        };
        let (mut start, mut end) = (range.start, range.end);
        loop {
            let mut text = message.part(start, end);
            let is_apart = self.transports.large_messages.takes(end - start)
                && self.parse_copy(key, text.as_bytes());
            if !is_apart
                && let Err(error) = self.dispatch_text(key, &mut text)
                && !self.reject_text(key, &text, error)
            {
                return None;
            }
            if end + 1 >= length {
                self.transports.websockets.counters.bytes_in += length as u64;
                return None;
            }
            if is_apart || self.is_queue_full(key) {
                self.transports.websockets.counters.bytes_in += end as u64;
                return Some(self.append_rest(key, &message.as_bytes()[end..]));
            }
            let Some(range) = DelimitedMessages::new(&message.as_bytes()[end..]).next() else {
                self.transports.websockets.counters.bytes_in += length as u64;
                return None;
            };
            (start, end) = (end + range.start, end + range.end);
            if let Some(connection) = self.transports.connections.table.get_mut(key) {
                connection.record_further_text();
            }
        }
    }

    /// Records a message without a text: it is empty, or has newlines only.
    #[cold]
    fn record_empty(&mut self, key: Key, length: usize) {
        self.transports.websockets.counters.bytes_in += length as u64;
        if let Some(connection) = self.transports.connections.table.get_mut(key) {
            connection.record_invalid_message();
        }
    }

    /// Inflates and dispatches a compressed message.
    #[cold]
    fn read_compressed(&mut self, key: Key, deflated: &[u8]) -> Option<WaitingRest> {
        match self.transports.websockets.inflate(deflated) {
            Ok(mut message) => {
                let rest = self.read_message(key, &mut message.text());
                self.transports.websockets.recycle_buffer(message);
                rest
            }
            Err(error) => {
                self.refuse_message(key, error);
                None
            }
        }
    }

    /// Fails the connection for a message that cannot be read. In the parity dialect the error is
    /// sent first, as over other transports.
    #[cold]
    fn refuse_message(&mut self, key: Key, refused: ProtocolError) {
        let bytes_max = self.transports.websockets.rules.frame_limits.message_bytes_max;
        let error = match refused {
            ProtocolError::MESSAGE_TOO_BIG | ProtocolError::INFLATE_RATIO => {
                Some(Error::message_too_large(bytes_max))
            }
            ProtocolError::INVALID_UTF8 => Some(ParseError::Utf8.into()),
            _ => None,
        };
        if let Some(error) = error.filter(|_| self.is_parity(key)) {
            self.send_error(key, &error);
        }
        self.fail_websocket(key, refused);
    }

    /// Returns whether a connection is in the parity dialect.
    fn is_parity(&self, key: Key) -> bool {
        let connection = self.transports.connections.table.get(key);
        connection.is_some_and(|connection| connection.state.dialect.is_parity())
    }

    /// Returns whether the output queue of a connection is full.
    #[inline]
    fn is_queue_full(&self, key: Key) -> bool {
        let connections = &self.transports.connections;
        let connection = connections.table.get(key);
        connection
            .is_some_and(|it| it.queued_bytes() > it.queue_bytes_max(&connections.shared.options))
    }

    /// Has the rest of a message wait, as a message of its own, until the peer has read.
    #[cold]
    fn append_rest(&mut self, key: Key, rest: &[u8]) -> WaitingRest {
        let (header, length) = writer::client_header(rest.len());
        let connections = &mut self.transports.connections;
        connections.append_pending_input(key, &header[..length]);
        connections.append_pending_input(key, rest);
        WaitingRest
    }

    /// Fails the connection after a violation of the protocol or a limit: cancels its calls and
    /// sends the close frame.
    #[cold]
    pub(super) fn fail_websocket(&mut self, key: Key, error: ProtocolError) {
        let Transports { acceptor, websockets, .. } = &mut self.transports;
        let errors = &mut self.outbox.counters.input_errors;
        match error {
            ProtocolError::INVALID_UTF8 | ProtocolError::INVALID_CLOSE_REASON => errors.utf8 += 1,
            ProtocolError::MESSAGE_TOO_BIG | ProtocolError::INFLATE_RATIO => {
                errors.oversize += 1;
                let bytes_max = websockets.rules.frame_limits.message_bytes_max;
                let (shard, transport) = (acceptor.shard().0, Transport::WebSocket);
                acceptor.log(&Event::MessageRefused { shard, transport, bytes_max }, self.now);
            }
            _ => errors.framing += 1,
        }
        let error = websockets.rules.apply_close_code(error);
        websockets.count_close(error.code);
        // First, so that no messages about the cancelled calls are written.
        self.transports.connections.fail_websocket(key, error, self.now);
        self.outbox.push(Effect::CancelCalls(key));
    }

    /// Handles the peer's close frame: it accepts no more responses.
    #[cold]
    fn handle_close_frame(&mut self, key: Key) {
        if let Some(connection) = self.transports.connections.table.get_mut(key) {
            connection.state.is_closing = true;
        }
        self.outbox.push(Effect::CancelCalls(key));
    }
}

/// The rest of a message was queued as pending input.
#[derive(Debug)]
struct WaitingRest;

impl Shard {
    /// Rejects a text that does not parse. Returns `false` if that closes its connection.
    #[cold]
    pub(super) fn reject_text(
        &mut self,
        key: Key,
        text: &PaddedText<'_>,
        error: ParseError,
    ) -> bool {
        let bytes = text.as_bytes();
        let is_utf8 = !error.is_invalid_utf8(bytes);
        let connections = &mut self.transports.connections.table;
        let Some(connection) = connections.get_mut(key) else { return false };
        let transport = connection.state.transport;
        let is_parity = connection.state.dialect.is_parity();
        if !is_utf8 && transport == Transport::WebSocket {
            if is_parity {
                self.write_rejection(key, &MessageHead::read(bytes), &ParseError::Utf8.into());
            }
            self.fail_websocket(key, ProtocolError::INVALID_UTF8);
            return false;
        }
        connection.record_invalid_message();
        if bytes.trim_ascii().is_empty() {
            return true;
        }
        let error = if is_utf8 { error } else { ParseError::Utf8 };
        self.outbox.counters.input_errors.utf8 += u64::from(!is_utf8);
        if !is_utf8 && transport == Transport::Stdio && !is_parity {
            let acceptor = &mut self.transports.acceptor;
            let shard = acceptor.shard().0;
            let event = Event::InvalidUtf8Skipped { shard, transport, bytes: bytes.len() };
            acceptor.log(&event, self.now);
            return true;
        }
        self.write_rejection(key, &MessageHead::read(bytes), &error.into());
        let closes = is_parity && !is_utf8;
        if closes && let Some(connection) = self.transports.connections.table.get_mut(key) {
            connection.state.violation = Some(CloseReason::ProtocolViolation);
        }
        !closes
    }

    /// Rejects a message above `message_bytes_max`. Returns `true` if the connection closes, which
    /// every one does but the only one of MCP; nothing more of it is read.
    pub(super) fn reject_oversized(&mut self, key: Key) -> bool {
        let connections = &mut self.transports.connections;
        let bytes_max = connections.shared.options.message_bytes_max;
        let head = connections.table.take_head(key);
        self.outbox.counters.input_errors.oversize += 1;
        self.write_rejection(key, &head, &Error::message_too_large(bytes_max));
        let Transports { connections, acceptor, .. } = &mut self.transports;
        let Some(connection) = connections.table.get_mut(key) else { return true };
        let transport = connection.state.transport;
        let ends = !transport.is_only_connection() || connection.state.dialect.is_parity();
        connection.state.violation = ends.then_some(CloseReason::ProtocolViolation);
        let event = Event::MessageRefused { shard: acceptor.shard().0, transport, bytes_max };
        acceptor.log(&event, self.now);
        ends
    }

    /// Answers a text of which `head` can be read with an error, unless it is a response.
    pub(super) fn write_rejection(&mut self, key: Key, head: &MessageHead, error: &Error) {
        let Some(entry) = self.transports.connections.entry(key) else { return };
        let Some(mut response) = entry.begin_reserved_message() else { return };
        let mut peer = peer_state(response.connection(), &mut self.outbox);
        match self.dispatcher.reject_text(context(key, self.now), &mut peer, head, error) {
            Outcome::None => drop(response.cancel()),
            _ => response.end(),
        }
    }

    /// Sends an error that belongs to no message, over another codec than HTTP.
    #[cold]
    pub(super) fn send_error(&mut self, key: Key, error: &Error) {
        if let Some(mut message) = self.transports.connections.begin_message(key) {
            let mut peer = peer_state(message.connection(), &mut self.outbox);
            write_text_error(&mut peer, &MessageHead::default(), error);
            message.end();
        }
    }
}
