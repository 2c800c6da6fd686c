//! Large messages, which threads in the background parse.
//!
//! A connection with such a message is not read until the message is dispatched, so that its
//! messages are handled in their order. What is sent for a session of another shard is parsed
//! there.

use corelane_base::slab::Key;
use corelane_protocol::json::PaddedBuffer;
use corelane_transport::http::reader::Assembled;
use corelane_transport::websocket::reader::DelimitedMessages;

use crate::server::shard::Shard;
use crate::server::shard_message::{LargeMessage, LargeRequest};

impl Shard {
    /// Has a thread parse a message of a connection, which is not read meanwhile.
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
