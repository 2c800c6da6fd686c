//! Lines of TCP and stdio.
//!
//! Invariants: a text that can be repaired is dispatched; any other gets one error with its id, if
//! that can be read, unless it is a response or blank; text that is not UTF-8 is skipped over
//! stdio, and answered over TCP.

use super::{context, peer_state};
use crate::base::slab::Key;
use crate::connection::{CloseReason, Connection, first_message};
use crate::protocol::error::Error;
use crate::protocol::json::{PaddedText, ParseError};
use crate::protocol::message_head::MessageHead;
use crate::server::connection_state::ConnectionState;
use crate::server::connections::Transports;
use crate::server::dispatch::write_text_error;
use crate::server::outbox::Outbox;
use crate::server::reply_to::Outcome;
use crate::server::shard::Shard;
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;
use crate::transport::ndjson::{self, LineEvent};

impl Shard {
    /// Dispatches the lines in `input`, as [`Shard::read`] does.
    #[inline]
    pub(super) fn read_lines(&mut self, key: Key, mut input: PaddedText<'_>) -> usize {
        let mut from = 0;
        loop {
            let connections = &mut self.transports.connections;
            match connections.next_line(key, input.as_bytes(), &mut from, self.now) {
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
        }
    }

    /// Dispatches one line.
    #[inline]
    pub(super) fn dispatch_line(&mut self, key: Key, mut text: PaddedText<'_>) {
        if let Err(error) = self.dispatch_text(key, &mut text) {
            self.reject_line(key, &text, error);
        }
    }

    /// Rejects a message above `message_bytes_max`. Returns `true` if the connection closes, which
    /// every one but the only one does; nothing more of it is read.
    fn reject_oversized(&mut self, key: Key) -> bool {
        let Transports { connections, acceptor, .. } = &mut self.transports;
        let bytes_max = connections.options.message_bytes_max;
        let head = connections.table.take_head(key);
        let Some(connection) = connections.table.get_mut(key) else { return true };
        let transport = connection.state.transport;
        self.outbox.counters.input_errors.oversize += 1;
        let mut peer = peer_state(connection, &mut self.outbox);
        let error = Error::message_too_large(bytes_max);
        let outcome = self.dispatcher.reject_text(context(key, self.now), &mut peer, &head, &error);
        end_error_line(connection, outcome);
        let ends = !transport.is_only_connection();
        connection.state.violation = ends.then_some(CloseReason::ProtocolViolation);
        let event = Event::MessageRefused { shard: acceptor.shard().0, transport, bytes_max };
        acceptor.log(&event, self.now);
        ends
    }

    /// Rejects a line that does not parse.
    #[cold]
    fn reject_line(&mut self, key: Key, text: &PaddedText<'_>, error: ParseError) {
        let Transports { connections, acceptor, .. } = &mut self.transports;
        let Some(connection) = connections.table.get_mut(key) else { return };
        first_message::record_invalid(connection);
        let bytes = text.as_bytes();
        if is_blank(bytes) {
            return;
        }
        let is_utf8 = !error.is_invalid_utf8(bytes);
        let error = if is_utf8 { error } else { ParseError::Utf8 };
        self.outbox.counters.input_errors.utf8 += u64::from(!is_utf8);
        if !is_utf8 && connection.state.transport == Transport::Stdio {
            let (shard, transport) = (acceptor.shard().0, Transport::Stdio);
            let event = Event::InvalidUtf8Skipped { shard, transport, bytes: bytes.len() };
            return acceptor.log(&event, self.now);
        }
        let (ctx, head) = (context(key, self.now), MessageHead::read(bytes));
        let mut peer = peer_state(connection, &mut self.outbox);
        let outcome = self.dispatcher.reject_text(ctx, &mut peer, &head, &error.into());
        end_error_line(connection, outcome);
    }
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
pub(super) fn write_error(
    outbox: &mut Outbox,
    connection: &mut Connection<ConnectionState>,
    error: &Error,
) {
    let outcome = write_text_error(&mut peer_state(connection, outbox), None, error);
    end_error_line(connection, outcome);
}

/// Returns whether a text is white space only.
pub(super) fn is_blank(text: &[u8]) -> bool {
    text.trim_ascii().is_empty()
}
