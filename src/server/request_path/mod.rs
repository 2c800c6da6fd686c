//! From input to the dispatcher: lines of TCP and stdio, WebSocket messages.
//!
//! Invariants: a response is framed where the dispatcher has written it; input that is not a
//! message gets an error, and costs its connection nothing else unless it violates a limit.

mod frames;

use super::acceptor::Acceptor;
use super::connection_state::{ConnectionState, PeerState};
use super::dispatch::{Dispatcher, MessageContext, reject_text};
use super::outbox::Outbox;
use super::reply_to::{Outcome, PeerId, ReplyTo};
use super::websocket::WebSocketFrontend;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::connection::{Connection, Connections};
use crate::protocol::error::Error;
use crate::protocol::json::{ParseError, Parser};
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;
use crate::transport::ndjson::{self, LineEvent};

/// Everything that input passes through on its way to a handler.
pub(super) struct RequestPath<'a> {
    pub(super) connections: &'a mut Connections<ConnectionState>,
    pub(super) parser: &'a mut Parser,
    pub(super) dispatcher: &'a mut Dispatcher,
    pub(super) websockets: &'a mut WebSocketFrontend,
    pub(super) acceptor: &'a mut Acceptor,
    pub(super) outbox: &'a mut Outbox,
}

impl RequestPath<'_> {
    /// Dispatches the lines in `bytes[..length]` (the rest is padding). Returns the number of bytes
    /// consumed before the connection must not be read any more.
    #[inline]
    pub(super) fn read_lines(
        &mut self,
        key: Key,
        bytes: &mut [u8],
        length: usize,
        now: Instant,
    ) -> usize {
        let mut from = 0;
        loop {
            match self.connections.next_line(key, &bytes[..length], &mut from, now) {
                LineEvent::InPlace { start, end } => {
                    self.dispatch_line(key, &mut bytes[start..], end - start, now);
                }
                LineEvent::Assembled => {
                    let (mut line, length) = self.connections.take_line(key);
                    self.dispatch_line(key, &mut line, length, now);
                    self.connections.pool.put(line);
                }
                LineEvent::TooLarge if self.reject_oversized(key, now) => return length,
                LineEvent::TooLarge => {}
                LineEvent::NeedMore => return from,
            }
            self.connections.apply_backpressure(key);
        }
    }

    /// Parses and dispatches one line.
    #[inline]
    pub(super) fn dispatch_line(&mut self, key: Key, text: &mut [u8], length: usize, now: Instant) {
        let Some(connection) = self.connections.table.get_mut(key) else { return };
        match self.parser.parse(text, length) {
            Ok(document) => {
                let reply_to = ReplyTo::standalone(PeerId::Connection(key));
                let ctx = MessageContext { reply_to, now, in_batch: false, is_modern: false };
                let mut peer = peer_state(connection, self.outbox);
                if self.dispatcher.dispatch(ctx, &mut peer, document.root()) != Outcome::None {
                    ndjson::end_line(peer.outgoing);
                }
            }
            Err(ParseError::Utf8) if connection.state.transport == Transport::Stdio => {
                self.outbox.counters.input_errors.utf8 += 1;
                let transport = Transport::Stdio;
                self.acceptor.log(
                    &Event::InvalidUtf8Skipped {
                        shard: self.acceptor.shard().0,
                        transport,
                        bytes: length,
                    },
                    now,
                );
            }
            Err(error) => {
                self.outbox.counters.input_errors.utf8 += u64::from(error == ParseError::Utf8);
                write_error(self.outbox, connection, &error.into());
            }
        }
    }

    /// Rejects a message above `message_bytes_max`. Returns `true` if the connection closes, which
    /// every one but stdio does; nothing more of it is read.
    fn reject_oversized(&mut self, key: Key, now: Instant) -> bool {
        let bytes_max = self.connections.options.message_bytes_max;
        let Some(connection) = self.connections.table.get_mut(key) else { return true };
        let transport = connection.state.transport;
        self.outbox.counters.input_errors.oversize += 1;
        write_error(self.outbox, connection, &Error::message_too_large(bytes_max));
        let ends = transport != Transport::Stdio;
        connection.state.violated_limit = ends;
        self.acceptor.log(
            &Event::MessageRefused { shard: self.acceptor.shard().0, transport, bytes_max },
            now,
        );
        ends
    }
}

/// Returns the peer state of a connection.
#[inline]
pub(super) const fn peer_state<'a>(
    connection: &'a mut Connection<ConnectionState>,
    outbox: &'a mut Outbox,
) -> PeerState<'a> {
    let Connection { state, pending_work, outgoing, .. } = connection;
    PeerState { state, pending_work, outgoing, outbox }
}

/// Writes an error for input that is not a message.
pub(super) fn write_error(
    outbox: &mut Outbox,
    connection: &mut Connection<ConnectionState>,
    error: &Error,
) {
    reject_text(&mut peer_state(connection, outbox), None, error);
    ndjson::end_line(&mut connection.outgoing);
}
