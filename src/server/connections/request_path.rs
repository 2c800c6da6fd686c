//! From input to the dispatcher: lines of TCP and stdio, WebSocket messages.
//!
//! Invariants: a response is framed where the dispatcher has written it; input that is not a
//! message gets an error, and costs its connection nothing else unless it violates a limit.

mod unreadable;

mod frames;

use super::transports::Transports;
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::connection::{CloseReason, Codec, Connection};
use crate::protocol::error::Error;
use crate::protocol::json::{PaddedText, Parser};
use crate::server::connection_state::{ConnectionState, MessageOrigin, PeerState};
use crate::server::dispatch::{Dispatcher, MessageContext, reject_text};
use crate::server::http::HttpPath;
use crate::server::outbox::Outbox;
use crate::server::parity;
use crate::server::reply_to::{Outcome, PeerId, ReplyTo};
use crate::server::shard_message::{ParityMessage, RelayMessage};
use crate::telemetry::event::Event;
use crate::transport::ndjson::{self, LineEvent};

/// Everything that input passes through on its way to a handler.
pub(in crate::server) struct RequestPath<'a> {
    pub(in crate::server) transports: &'a mut Transports,
    pub(in crate::server) parser: &'a mut Parser,
    pub(in crate::server) dispatcher: &'a mut Dispatcher,
    pub(in crate::server) outbox: &'a mut Outbox,
    pub(in crate::server) now: Instant,
}

impl RequestPath<'_> {
    /// Dispatches the messages in `input`. Returns the number of bytes consumed before the
    /// connection must not be read any more.
    #[inline]
    pub(in crate::server) fn read(&mut self, key: Key, mut input: PaddedText<'_>) -> usize {
        match self.transports.connections.table.codec(key) {
            Codec::Ndjson => self.read_lines(key, input),
            Codec::WebSocket => self.read_frames(key, input),
            Codec::Http => {
                let mut from = self.http().read_requests(key, input.reborrow());
                // One of them may be an upgrade: frames follow it.
                let length = input.as_bytes().len();
                if from < length && self.transports.connections.table.codec(key) == Codec::WebSocket
                {
                    from += self.read_frames(key, input.part(from, length));
                }
                from
            }
        }
    }

    /// Returns the path of HTTP requests.
    pub(in crate::server) const fn http(&mut self) -> HttpPath<'_> {
        let Self { transports, parser, dispatcher, outbox, now } = self;
        let Transports { connections, http, websockets, acceptor, parity, .. } = transports;
        HttpPath {
            http,
            connections,
            parser,
            dispatcher,
            websockets,
            acceptor,
            parity,
            outbox,
            now: *now,
        }
    }

    /// Handles the deadlines of exchanges, and of sessions of the parity dialect.
    pub(in crate::server) fn expire(&mut self) {
        if self.transports.http.is_active() {
            self.http().expire();
        }
        let Self { transports, dispatcher, outbox, now, .. } = self;
        transports.parity_path(dispatcher, outbox, *now).expire();
    }

    /// Continues the paused streams of the parity dialect that have room.
    #[inline]
    pub(in crate::server) fn continue_streams(&mut self) {
        let Self { transports, dispatcher, outbox, .. } = self;
        let Transports { parity, connections, .. } = &mut **transports;
        if parity.flow.is_active() {
            parity::end_turn(parity, connections, dispatcher.shard_count, outbox);
        }
    }

    /// Ends all sessions over HTTP and of the parity dialect; returns whether there were any.
    pub(in crate::server) fn end_sessions(&mut self) -> bool {
        let has_ended = self.http().sessions().end_all();
        let Self { transports, dispatcher, outbox, now, .. } = self;
        transports.parity_path(dispatcher, outbox, *now).end_sessions() || has_ended
    }

    /// Handles a message of the parity dialect from another shard, or from this one.
    pub(in crate::server) fn handle_parity_message(&mut self, message: ParityMessage) {
        let Self { transports, parser, dispatcher, outbox, now } = self;
        let mut parity = transports.parity_path(dispatcher, outbox, *now);
        match message {
            ParityMessage::Request { session, exchange, caller, op } => {
                parity.handle_request(parser, (session, exchange), &caller, op);
            }
            ParityMessage::ExchangeClosed { session, exchange } => {
                parity.close_exchange(session, exchange);
            }
            ParityMessage::Output { exchange, output } => {
                let bytes = output.chunk_bytes();
                self.http().exchanges().write_parity_output(exchange, output);
                let Transports { parity, connections, .. } = &mut *self.transports;
                if bytes > 0 {
                    parity.flow.add_exchange(exchange, bytes, connections);
                }
            }
            ParityMessage::Sent { session, exchange, bytes } => {
                parity.output.parity.confirm_sent(session, exchange, bytes);
            }
        }
    }

    /// Handles a message about a session of the parity dialect that a connection of another shard
    /// carries.
    pub(in crate::server) fn handle_relay_message(&mut self, message: RelayMessage) {
        let Self { transports, parser, dispatcher, outbox, now } = self;
        let mut parity = transports.parity_path(dispatcher, outbox, *now);
        parity::handle_relay_message(&mut parity, parser, message);
    }

    /// Dispatches the lines in `input`, as [`RequestPath::read`] does.
    #[inline]
    fn read_lines(&mut self, key: Key, mut input: PaddedText<'_>) -> usize {
        let mut from = 0;
        loop {
            let (connections, now) = (&mut self.transports.connections, self.now);
            match connections.next_line(key, input.as_bytes(), &mut from, now) {
                LineEvent::InPlace { start, end } => {
                    self.dispatch_line(key, input.part(start, end));
                }
                LineEvent::Assembled => {
                    let mut line = connections.table.take_line(key);
                    self.dispatch_line(key, line.text());
                    self.transports.connections.pool.put(line.into_buffer());
                }
                LineEvent::TooLarge if self.reject_oversized(key) => {
                    return input.as_bytes().len();
                }
                LineEvent::TooLarge => {}
                LineEvent::NeedMore => return from,
            }
            self.transports.connections.apply_backpressure(key);
        }
    }

    /// Parses and dispatches one line.
    #[inline]
    pub(in crate::server) fn dispatch_line(&mut self, key: Key, mut text: PaddedText<'_>) {
        let (length, now) = (text.as_bytes().len(), self.now);
        let Some(connection) = self.transports.connections.table.get_mut(key) else { return };
        let error = match self.parser.parse(text.reborrow()) {
            Ok(document) => {
                let mut peer = peer_state(connection, self.outbox);
                match self.dispatcher.dispatch(context(key, now), &mut peer, document.root()) {
                    Outcome::None => {
                        let held = &self.dispatcher.held;
                        if !held.is_empty() && held.contains(key) {
                            self.transports.connections.table.hold_input(key);
                        }
                    }
                    Outcome::Envelope => {
                        let Self { transports, dispatcher, outbox, .. } = self;
                        let mut parity = transports.parity_path(dispatcher, outbox, now);
                        parity.receive(key, document.root(), length);
                    }
                    _ => {
                        ndjson::end_line(peer.outgoing);
                        connection.record.traffic.messages_out += 1;
                    }
                }
                return;
            }
            Err(error) => error,
        };
        self.dispatch_unreadable_line(key, text, error);
    }

    /// Rejects a message above `message_bytes_max`. Returns `true` if the connection closes, which
    /// every one but the only one does; nothing more of it is read.
    fn reject_oversized(&mut self, key: Key) -> bool {
        let Transports { connections, acceptor, .. } = &mut *self.transports;
        let bytes_max = connections.options.message_bytes_max;
        let head = connections.table.take_head(key);
        let Some(connection) = connections.table.get_mut(key) else { return true };
        let transport = connection.state.transport;
        self.outbox.counters.input_errors.oversize += 1;
        let mut peer = peer_state(connection, self.outbox);
        let error = Error::message_too_large(bytes_max);
        let outcome = self.dispatcher.reject_text(context(key, self.now), &mut peer, &head, &error);
        end_error_line(connection, outcome);
        let ends = !transport.is_only_connection();
        connection.state.violation = ends.then_some(CloseReason::ProtocolViolation);
        let event = Event::MessageRefused { shard: acceptor.shard().0, transport, bytes_max };
        acceptor.log(&event, self.now);
        ends
    }
}

/// Returns the peer state of a connection.
#[inline]
pub(in crate::server) const fn peer_state<'a>(
    connection: &'a mut Connection<ConnectionState>,
    outbox: &'a mut Outbox,
) -> PeerState<'a> {
    let Connection { state, pending_work, outgoing, record, .. } = connection;
    let origin = MessageOrigin::of_peer(record.peer_address());
    PeerState { origin, state, pending_work, outgoing, outbox, refusal: None }
}

/// Returns the context of a message on a connection.
#[inline]
const fn context(key: Key, now: Instant) -> MessageContext {
    let reply_to = ReplyTo::standalone(PeerId::Connection(key));
    MessageContext { reply_to, now, in_batch: false, is_modern: false }
}

/// Ends the line of an error, if one was written.
#[cold]
fn end_error_line(connection: &mut Connection<ConnectionState>, outcome: Outcome) {
    if outcome != Outcome::None {
        ndjson::end_line(&mut connection.outgoing);
        connection.record.traffic.messages_out += 1;
    }
}

/// Writes an error that belongs to no message.
pub(in crate::server) fn write_error(
    outbox: &mut Outbox,
    connection: &mut Connection<ConnectionState>,
    error: &Error,
) {
    let outcome = reject_text(&mut peer_state(connection, outbox), None, error);
    end_error_line(connection, outcome);
}
