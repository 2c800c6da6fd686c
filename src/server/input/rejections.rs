//! Texts that are no messages, and the errors that answer them.
//!
//! Invariants: a text that can be repaired is dispatched; any other gets one error with its id, if
//! that can be read, unless it is a response or blank; text that is not UTF-8 is skipped over
//! stdio, answered over TCP, and fails a WebSocket.

use corelane_base::slab::Key;
use corelane_protocol::error::Error;
use corelane_protocol::json::{PaddedText, ParseError};
use corelane_protocol::message_head::MessageHead;
use corelane_transport::websocket::limits::ProtocolError;

use super::{context, peer_state};
use crate::connection::CloseReason;
use crate::server::dispatch::write_text_error;
use crate::server::reply_to::Outcome;
use crate::server::shard::{Shard, Transports};
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;

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
        if !is_utf8 && transport == Transport::WebSocket {
            self.fail_websocket(key, ProtocolError::INVALID_UTF8);
            return false;
        }
        connection.record_invalid_message();
        if bytes.trim_ascii().is_empty() {
            return true;
        }
        let error = if is_utf8 { error } else { ParseError::Utf8 };
        self.outbox.counters.input_errors.utf8 += u64::from(!is_utf8);
        if !is_utf8 && transport == Transport::Stdio {
            let acceptor = &mut self.transports.acceptor;
            let shard = acceptor.shard().0;
            let event = Event::InvalidUtf8Skipped { shard, transport, bytes: bytes.len() };
            acceptor.log(&event, self.now);
        } else {
            self.write_rejection(key, &MessageHead::read(bytes), &error.into());
        }
        true
    }

    /// Rejects a message above `message_bytes_max`. Returns `true` if the connection closes, which
    /// every one but the only one does; nothing more of it is read.
    pub(super) fn reject_oversized(&mut self, key: Key) -> bool {
        let connections = &mut self.transports.connections;
        let bytes_max = connections.shared.options.message_bytes_max;
        let head = connections.table.take_head(key);
        self.outbox.counters.input_errors.oversize += 1;
        self.write_rejection(key, &head, &Error::message_too_large(bytes_max));
        let Transports { connections, acceptor, .. } = &mut self.transports;
        let Some(connection) = connections.table.get_mut(key) else { return true };
        let transport = connection.state.transport;
        let ends = !transport.is_only_connection();
        connection.state.violation = ends.then_some(CloseReason::ProtocolViolation);
        let event = Event::MessageRefused { shard: acceptor.shard().0, transport, bytes_max };
        acceptor.log(&event, self.now);
        ends
    }

    /// Answers a text of which `head` can be read with an error, unless it is a response.
    fn write_rejection(&mut self, key: Key, head: &MessageHead, error: &Error) {
        let Some(entry) = self.transports.connections.entry(key) else { return };
        let Some(mut response) = entry.begin_response() else { return };
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
            write_text_error(&mut peer, None, error);
            message.end();
        }
    }
}
