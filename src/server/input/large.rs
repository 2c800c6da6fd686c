//! Large messages, which threads in the background parse, and responses with large texts of them,
//! which the same threads write.
//!
//! A connection with such a message is not read until the message is dispatched and its response is
//! written, so that its messages are handled in their order. What is sent for a session of another
//! shard is parsed there.

use corelane_base::slab::Key;
use corelane_engine::ring::Ring;
use corelane_protocol::json::PaddedBuffer;
use corelane_transport::http::reader::Assembled;
use corelane_transport::http::response::{self, BodyKind};
use corelane_transport::http::status::Status;
use corelane_transport::websocket::reader::DelimitedMessages;

use crate::connection::Codec;
use crate::server::connection_state::ResponseHead;
use crate::server::outbox::Effect;
use crate::server::parse_threads::{AwaitedResponse, BegunResponse};
use crate::server::reply_to::Outcome;
use crate::server::shard::{Shard, Transports};
use crate::server::shard_message::{LargeMessage, LargeRequest, LargeResponse, ParsedMessage};

impl Shard {
    /// Has a thread parse a message of a connection, or write a response to it. The connection is
    /// not read meanwhile.
    ///
    /// # Errors
    ///
    /// The message, if no thread takes it.
    #[cold]
    fn parse_apart(&mut self, key: Key, message: LargeMessage) -> Result<(), LargeMessage> {
        let connection = self.transports.connections.table.get(key);
        let client = connection.and_then(|connection| connection.state.client);
        self.transports.large_messages.spawn(client, message)?;
        self.transports.connections.table.hold_input(key);
        Ok(())
    }

    /// Has a thread parse a large text. Returns it if it is to be dispatched now.
    #[inline]
    pub(super) fn parse_text(&mut self, key: Key, text: PaddedBuffer) -> Option<PaddedBuffer> {
        if !self.transports.large_messages.takes(text.as_bytes().len()) {
            return Some(text);
        }
        match self.parse_apart(key, LargeMessage::Text { key, text }) {
            Err(LargeMessage::Text { text, .. }) => Some(text),
            Err(_) | Ok(()) => None,
        }
    }

    /// Has a thread parse a copy of a large text. Returns whether one does.
    #[cold]
    pub(super) fn parse_copy(&mut self, key: Key, text: &[u8]) -> bool {
        let text = PaddedBuffer::copy_of(text);
        self.parse_apart(key, LargeMessage::Text { key, text }).is_ok()
    }

    /// Has a thread parse a large WebSocket message that is one text. Returns it if it is to be
    /// read now.
    #[inline]
    pub(super) fn parse_message(
        &mut self,
        key: Key,
        message: PaddedBuffer,
    ) -> Option<PaddedBuffer> {
        let length = message.as_bytes().len();
        if !self.transports.large_messages.takes(length) || !self.is_one_text(&message) {
            return Some(message);
        }
        let message = self.parse_text(key, message);
        if message.is_none() {
            self.transports.websockets.counters.bytes_in += length as u64;
        }
        message
    }

    #[cold]
    fn is_one_text(&self, message: &PaddedBuffer) -> bool {
        let bytes = message.as_bytes();
        let is_valid = !self.transports.websockets.rules.requires_newline
            || DelimitedMessages::strict(bytes).is_ok();
        let text = DelimitedMessages::new(bytes).next();
        is_valid && text.is_some_and(|text| text.start == 0 && text.end + 1 >= bytes.len())
    }

    /// Has a thread parse the body of a request. Returns the request if it is to be handled now.
    #[cold]
    pub(super) fn parse_body(&mut self, key: Key, request: Assembled) -> Option<Assembled> {
        let request = Box::new(LargeRequest::new(key, request));
        match self.parse_apart(key, LargeMessage::Request(request)) {
            Err(LargeMessage::Request(request)) => Some(request.into_assembled()),
            Err(_) | Ok(()) => None,
        }
    }
}

impl Shard {
    /// Has a thread write the response to a dispatched message that lacks large texts, if there is
    /// one. Otherwise the buffer of the message is retained.
    pub(super) fn finish_message(
        &mut self,
        key: Key,
        text: PaddedBuffer,
        begun: Option<Box<BegunResponse>>,
    ) {
        match begun {
            Some(begun) => self.write_apart(key, text, *begun),
            None => self.transports.connections.shared.pool.put(text.into_buffer()),
        }
    }

    #[cold]
    fn write_apart(&mut self, key: Key, text: PaddedBuffer, begun: BegunResponse) {
        let BegunResponse { partial, head } = begun;
        let connections = &mut self.transports.connections;
        let Some(connection) = connections.table.get_mut(key) else { return };
        connection.pending_work.pending_responses += 1;
        // As large as that of the message, for reuse.
        let bytes = partial.whole_bytes().max(text.as_bytes().len());
        let mut response = Vec::new();
        connections.shared.pool.enlarge(&mut response, bytes..=2 * bytes);
        response.reserve_exact(bytes);
        let response = Box::new(LargeResponse { key, text, partial, response });
        match self.parse_apart(key, LargeMessage::Response(response)) {
            Ok(()) => self.transports.large_messages.keep_head(key, head),
            Err(mut message) => {
                message.process(self.transports.large_messages.limits());
                if let LargeMessage::Response(response) = message {
                    self.send_large_response(*response, head.as_ref());
                }
            }
        }
    }

    /// Sends a response that a thread has written, and has its connection read again.
    #[cold]
    pub(super) fn handle_large_response<R: Ring>(&mut self, ring: &mut R, parsed: ParsedMessage) {
        let ParsedMessage { message, bytes } = parsed;
        let LargeMessage::Response(response) = message else { return };
        let key = response.key;
        let awaited = self.transports.large_messages.end_response(key, bytes);
        let Some(AwaitedResponse { head }) = awaited else { return };
        self.send_large_response(*response, head.as_ref());
        self.transports.connections.advance_closing(ring, key, self.now);
        self.check_memory(ring, key);
        let next = self.transports.connections.end_hold(key, self.now);
        self.handle_connection_event(ring, next);
    }

    fn send_large_response(&mut self, large: LargeResponse, head: Option<&ResponseHead>) {
        let LargeResponse { key, text, response, .. } = large;
        let connections = &mut self.transports.connections;
        connections.shared.pool.put(text.into_buffer());
        let Some(entry) = connections.entry(key) else { return };
        entry.connection.count_response(self.now);
        if entry.connection.state.violation.is_some() {
            return;
        }
        if entry.connection.codec() == Codec::Ndjson {
            return entry.append_line(response);
        }
        if let Some(head) = head {
            self.write_large_body(key, head, &response);
        } else {
            self.transports.enlarge_output(key, response.len());
            if let Some(begun) = self.transports.connections.begin_message(key) {
                begun.write(|out| out.extend_from_slice(&response));
            }
        }
        self.transports.connections.shared.pool.put(response);
    }

    /// Closes an HTTP connection once its response is sent.
    pub(super) fn close_after_response(&mut self, key: Key) {
        self.transports.connections.table.set_suspended(key, true);
        if let Some(connection) = self.transports.connections.table.get_mut(key) {
            connection.state.is_closing = true;
        }
        self.outbox.push(Effect::AdvanceExchange(key));
    }

    /// Writes the response that a thread has written, behind its head.
    #[cold]
    fn write_large_body(&mut self, key: Key, head: &ResponseHead, body: &[u8]) {
        self.transports.enlarge_output(key, body.len());
        let Transports { connections, http, .. } = &mut self.transports;
        let heads = http.heads(self.now);
        if let Some(out) = connections.outgoing(key) {
            let (format, echoed) = (head.format, head.echoed());
            let mark = format.begin_response(out, Status::OK, BodyKind::Json, echoed, heads);
            out.extend_from_slice(body);
            response::end_response(out, mark, heads);
            self.outbox.count_outcome(Outcome::Response);
        }
        if let Some(connection) = connections.table.get_mut(key) {
            connection.record.traffic.messages_out += 1;
        }
        if head.format.closes {
            self.close_after_response(key);
        }
    }
}
