//! WebSocket: from messages to the dispatcher, and from protocol violations to the close frame.
//!
//! A WebSocket message holds one JSON text, or several separated by newlines. Each is dispatched as
//! over TCP, and each response is a message of its own.
//!
//! Invariants: a response is framed where the dispatcher has written it; invalid JSON gets an error
//! response, a violation of the WebSocket protocol closes the connection with its close code; a
//! peer that does not read is not read from, even in the middle of a message.
//!
//! The opening handshake is in `http`; pings, timeouts and the closing handshake are in
//! [`crate::connection`].

use super::{RequestPath, peer_state};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::connection::MessageEvent;
use crate::protocol::error::Error;
use crate::protocol::json::ParseError;
use crate::server::dispatch::{MessageContext, reject_text};
use crate::server::outbox::Effect;
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;
use crate::transport::websocket::code::CloseCode;
use crate::transport::websocket::delimiter::DelimitedMessages;
use crate::transport::websocket::limits::ProtocolError;
use crate::transport::websocket::utf8;
use crate::transport::websocket::writer;

impl RequestPath<'_> {
    /// Dispatches the messages in `bytes[..length]` (the rest is padding). Returns the number of
    /// bytes consumed before the connection must not be read any more.
    #[inline]
    pub(in crate::server) fn read_frames(
        &mut self,
        key: Key,
        bytes: &mut [u8],
        length: usize,
        now: Instant,
    ) -> usize {
        let mut from = 0;
        loop {
            let limits = &self.websockets.rules.frame_limits;
            let stopped = match self.connections.next_message(
                key,
                &mut bytes[..length],
                &mut from,
                limits,
                now,
            ) {
                MessageEvent::InPlace { start, end, is_compressed: false } => {
                    let (text, length) = (&mut bytes[start..], end - start);
                    let stopped =
                        self.dispatch_websocket_message(key, (&mut *text, length), false, now);
                    stopped.map(|at| self.defer_rest(key, &text[at..length]))
                }
                MessageEvent::InPlace { start, end, is_compressed: true } => {
                    self.dispatch_compressed(key, &bytes[start..end], now)
                }
                MessageEvent::Assembled { is_compressed } => {
                    let (mut text, length) = self.connections.take_message(key);
                    let stopped = if is_compressed {
                        self.dispatch_compressed(key, &text[..length], now)
                    } else {
                        let stopped =
                            self.dispatch_websocket_message(key, (&mut text, length), true, now);
                        stopped.map(|at| self.defer_rest(key, &text[at..length]))
                    };
                    self.connections.pool.put(text);
                    stopped
                }
                MessageEvent::Invalid(fault) => {
                    self.fail_websocket(key, fault, now);
                    None
                }
                MessageEvent::Closed(_) => {
                    self.handle_close_frame(key);
                    None
                }
                MessageEvent::NeedMore => return from,
            };
            if let Some(Deferred) = stopped {
                // Later input queues behind the deferred rest.
                self.connections.append_pending_input(key, &bytes[from..length]);
                from = length;
            }
        }
    }

    /// Dispatches the texts of one message (`text[..length]`, the rest is padding). Returns the
    /// offset of the rest if the peer's output queue is full. `is_checked`: the text is known to be
    /// UTF-8.
    #[inline]
    fn dispatch_websocket_message(
        &mut self,
        key: Key,
        (text, length): (&mut [u8], usize),
        is_checked: bool,
        now: Instant,
    ) -> Option<usize> {
        if self.websockets.rules.requires_newline
            && let Err(fault) = DelimitedMessages::strict(&text[..length])
        {
            self.fail_websocket(key, fault, now);
            return None;
        }
        let mut from = 0;
        while let Some(index) = DelimitedMessages::new(&text[from..length]).next() {
            let (start, end) = (from + index.start, from + index.end);
            if !self.dispatch_websocket_text(
                key,
                (&mut text[start..], end - start),
                is_checked,
                now,
            ) {
                return None;
            }
            from = end;
            // At the end of the message there is nothing to defer.
            if end + 1 < length && self.is_queue_full(key) {
                self.websockets.counters.bytes_in += end as u64;
                return Some(end);
            }
        }
        self.websockets.counters.bytes_in += length as u64;
        None
    }

    /// Parses and dispatches one text. Returns `false` if that closed the connection.
    #[inline]
    fn dispatch_websocket_text(
        &mut self,
        key: Key,
        (text, length): (&mut [u8], usize),
        is_checked: bool,
        now: Instant,
    ) -> bool {
        let Some(connection) = self.connections.table.get_mut(key) else { return false };
        let compression = connection.state.compression;
        let mut peer = peer_state(connection, self.outbox);
        let mark = writer::begin_message(peer.outgoing);
        let reply_to = ReplyTo::standalone(PeerId::Connection(key));
        let ctx = MessageContext { reply_to, now, in_batch: false, is_modern: false };
        let dispatcher = &mut *self.dispatcher;
        let document = self.parser.parse(text, length);
        let outcome = match document.map(|it| dispatcher.dispatch(ctx, &mut peer, it.root())) {
            Ok(outcome) => outcome,
            Err(error) if is_invalid_utf8(error, &text[..length], is_checked) => {
                writer::cancel_message(peer.outgoing, mark);
                self.fail_websocket(key, ProtocolError::INVALID_UTF8, now);
                return false;
            }
            Err(error) => reject_text(&mut peer, None, &error.into()),
        };
        if outcome == Outcome::None {
            writer::cancel_message(peer.outgoing, mark);
        } else {
            self.websockets.end_frame(peer.outgoing, mark, compression);
        }
        true
    }

    /// Inflates and dispatches a compressed message.
    #[cold]
    fn dispatch_compressed(&mut self, key: Key, deflated: &[u8], now: Instant) -> Option<Deferred> {
        match self.websockets.inflate(deflated) {
            Ok((mut text, length)) => {
                let stopped = self.dispatch_websocket_message(key, (&mut text, length), false, now);
                let stopped = stopped.map(|at| self.defer_rest(key, &text[at..length]));
                self.websockets.recycle_buffer(text);
                stopped
            }
            Err(fault) => {
                self.fail_websocket(key, fault, now);
                None
            }
        }
    }

    /// Returns whether the output queue of a connection is full.
    #[inline]
    fn is_queue_full(&self, key: Key) -> bool {
        let connection = self.connections.table.get(key);
        connection.is_some_and(|connection| {
            connection.queued_bytes() > connection.queue_bytes_max(&self.connections.options)
        })
    }

    /// Defers the rest of a message, as a message of its own, until the peer has read.
    #[cold]
    fn defer_rest(&mut self, key: Key, rest: &[u8]) -> Deferred {
        let (header, length) = writer::client_header(rest.len());
        self.connections.append_pending_input(key, &header[..length]);
        self.connections.append_pending_input(key, rest);
        Deferred
    }

    /// Fails the connection after a violation of the protocol or a limit: cancels its calls and
    /// sends the close frame.
    #[cold]
    fn fail_websocket(&mut self, key: Key, fault: ProtocolError, now: Instant) {
        let faults = &mut self.outbox.counters.input_errors;
        match fault {
            ProtocolError::INVALID_UTF8 | ProtocolError::INVALID_CLOSE_REASON => faults.utf8 += 1,
            ProtocolError::MESSAGE_TOO_BIG | ProtocolError::INFLATE_RATIO => {
                faults.oversize += 1;
                let bytes_max = self.websockets.rules.frame_limits.message_bytes_max;
                let transport = Transport::WebSocket;
                self.acceptor.log(
                    &Event::MessageRefused { shard: self.acceptor.shard().0, transport, bytes_max },
                    now,
                );
            }
            _ => faults.framing += 1,
        }
        let fault = self.websockets.rules.apply_close_code(fault);
        self.close_websocket(key, fault, now);
    }

    /// Sends the out-of-memory error and closes the connection.
    #[cold]
    pub(in crate::server) fn close_for_memory(&mut self, key: Key, error: &Error, now: Instant) {
        if self.connections.outgoing(key).is_some()
            && let Some(connection) = self.connections.table.get_mut(key)
        {
            let compression = connection.state.compression;
            let mut peer = peer_state(connection, self.outbox);
            let mark = writer::begin_message(peer.outgoing);
            reject_text(&mut peer, None, error);
            self.websockets.end_frame(peer.outgoing, mark, compression);
        }
        let reason = "the server is short of memory";
        self.close_websocket(key, ProtocolError { code: CloseCode::INTERNAL, reason }, now);
    }

    fn close_websocket(&mut self, key: Key, fault: ProtocolError, now: Instant) {
        self.websockets.count_close(fault.code);
        // First, so that no messages about the cancelled calls are written.
        self.connections.fail_websocket(key, fault, now);
        self.outbox.push(Effect::CancelCalls(key));
    }

    /// Handles the peer's close frame: it accepts no more responses.
    #[cold]
    fn handle_close_frame(&mut self, key: Key) {
        if let Some(connection) = self.connections.table.get_mut(key) {
            connection.state.is_closing = true;
        }
        self.outbox.push(Effect::CancelCalls(key));
    }
}

/// The rest of a message was queued as pending input.
#[derive(Debug)]
struct Deferred;

/// Returns whether text that does not parse is not UTF-8.
#[cold]
fn is_invalid_utf8(error: ParseError, text: &[u8], is_checked: bool) -> bool {
    match error {
        ParseError::Utf8 => true,
        ParseError::Structure => !is_checked && !utf8::is_utf8(text),
        ParseError::Depth | ParseError::Syntax | ParseError::Tokens => false,
    }
}
