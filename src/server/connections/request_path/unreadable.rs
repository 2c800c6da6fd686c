//! Lines and WebSocket messages whose text does not parse.
//!
//! Invariants: a text that can be repaired is dispatched; any other gets one error with its id, if
//! that can be read, unless it is a response or blank; text that is not UTF-8 is skipped over
//! stdio, answered over TCP, and closes a WebSocket.

use super::{RequestPath, context, end_error_line, peer_state};
use crate::base::slab::Key;
use crate::connection::first_message;
use crate::protocol::json::{PaddedText, ParseError};
use crate::protocol::message_head::MessageHead;
use crate::server::connections::transports::Transports;
use crate::telemetry::event::Event;
use crate::telemetry::label::Transport;

impl RequestPath<'_> {
    /// Dispatches a line after its repair, or rejects it.
    #[cold]
    pub(super) fn dispatch_unreadable_line(
        &mut self,
        key: Key,
        mut text: PaddedText<'_>,
        error: ParseError,
    ) {
        if self.parser.repair(&mut text, error) {
            return self.dispatch_line(key, text);
        }
        let Transports { connections, acceptor, .. } = &mut *self.transports;
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
        let mut peer = peer_state(connection, self.outbox);
        let outcome = self.dispatcher.reject_text(ctx, &mut peer, &head, &error.into());
        end_error_line(connection, outcome);
    }
}

/// Returns whether a text is white space only.
pub(super) fn is_blank(text: &[u8]) -> bool {
    text.trim_ascii().is_empty()
}
