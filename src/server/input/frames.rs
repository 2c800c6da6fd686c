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

use corelane_base::slab::Key;
use corelane_protocol::json::PaddedText;
use corelane_transport::websocket::delimiter::DelimitedMessages;
use corelane_transport::websocket::limits::ProtocolError;
use corelane_transport::websocket::writer;

use crate::connection::MessageEvent;
use crate::server::outbox::Effect;
use crate::server::shard::{Shard, Transports};
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;

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
                    let mut message = connections.table.take_message(key);
                    let rest = if is_compressed {
                        self.read_compressed(key, message.as_bytes())
                    } else {
                        self.read_message(key, &mut message.text())
                    };
                    self.transports.connections.shared.pool.put(message.into_buffer());
                    rest
                }
                MessageEvent::Invalid(error) => {
                    self.fail_websocket(key, error);
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
            if let Err(error) = self.dispatch_text(key, &mut text)
                && !self.reject_text(key, &text, error)
            {
                return None;
            }
            if end + 1 >= length {
                self.transports.websockets.counters.bytes_in += length as u64;
                return None;
            }
            if self.is_queue_full(key) {
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
                self.fail_websocket(key, error);
                None
            }
        }
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
