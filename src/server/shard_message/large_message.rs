//! A message of a client that is parsed apart from its shard, and a response that is written there.

use std::ops::Range;

use corelane_base::client_address::ClientAddress;
use corelane_base::slab::Key;
use corelane_protocol::error::Error;
use corelane_protocol::json::{PaddedBuffer, ParseError, ParseLimits, Parser};
use corelane_protocol::message_head::MessageHead;
use corelane_protocol::model::{self, LeftOutTexts};
use corelane_transport::http::head::Head;
use corelane_transport::http::reader::Assembled;

use super::session_message::{LegacyOp, ParityOp, SessionMessage, SessionOp};

/// A large message, with what it was received for.
#[derive(Debug)]
pub enum LargeMessage {
    /// A line, or the text of a WebSocket message.
    Text { key: Key, text: PaddedBuffer },
    /// The body of an HTTP request.
    Request(Box<LargeRequest>),
    /// That of a request for a session, possibly of another shard.
    Session(Box<SessionMessage>),
    /// The response to a large message of a connection.
    Response(Box<LargeResponse>),
}

/// A message that a thread has parsed, or a response that it has written.
#[derive(Debug)]
pub struct ParsedMessage {
    pub message: LargeMessage,
    /// What it counts for.
    pub bytes: usize,
}

/// An HTTP request on a connection of the shard.
#[derive(Debug)]
pub struct LargeRequest {
    pub key: Key,
    pub head: Head,
    /// The bytes that `head` refers to.
    pub head_bytes: Vec<u8>,
    /// The body; with head before it is parsed.
    pub text: PaddedBuffer,
    /// Where the body is in `text`, before it is parsed.
    body: Option<Range<usize>>,
}

/// A response with large texts of its message.
#[derive(Debug)]
pub struct LargeResponse {
    pub key: Key,
    /// The message.
    pub text: PaddedBuffer,
    pub partial: PartialResponse,
    /// The whole response, once it is written; before that the buffer for it.
    pub response: Vec<u8>,
}

/// A response that lacks large texts of its message.
#[derive(Debug)]
pub struct PartialResponse {
    pub left_out: LeftOutTexts,
    /// Where it began in the output.
    start: usize,
    written: Vec<u8>,
}

impl PartialResponse {
    /// Returns the response to a message with these strings, of which those of `bytes_min` bytes
    /// may be left out.
    pub fn new(message: &str, bytes_min: usize) -> Self {
        let left_out = LeftOutTexts::new(message, bytes_min);
        Self { left_out, start: 0, written: Vec::new() }
    }

    /// Returns whether a text is left out.
    pub const fn is_used(&self) -> bool {
        !self.left_out.is_empty()
    }

    /// Takes what is written from `start` on out of the output.
    #[cold]
    pub fn take(&mut self, outgoing: &mut Vec<u8>, start: usize) {
        (self.start, self.written) = (start, outgoing.split_off(start));
    }

    /// Returns about how long the whole response is.
    pub fn whole_bytes(&self) -> usize {
        self.left_out.filled_bytes(self.written.len())
    }
}

impl LargeResponse {
    /// Writes the whole response.
    fn write(&mut self) {
        let PartialResponse { left_out, start, written } = &self.partial;
        let message = self.text.parsed_text().unwrap_or_default();
        left_out.fill(*start, written, message, &mut self.response);
    }
}

impl LargeRequest {
    /// Returns the request `assembled` of a connection.
    pub fn new(key: Key, assembled: Assembled) -> Self {
        let Assembled { bytes, head, body } = assembled;
        let (head_bytes, length) = (bytes[..body.start].to_vec(), body.end);
        let text = PaddedBuffer::from_padded(bytes, length);
        Self { key, head, head_bytes, text, body: Some(body) }
    }

    /// Returns the request as it was assembled, if it is not parsed.
    pub fn into_assembled(self) -> Assembled {
        let Self { head, text, body, .. } = self;
        Assembled { bytes: text.into_buffer(), head, body: body.unwrap_or_default() }
    }

    /// Removes the head from the text.
    fn separate_body(&mut self) {
        if let Some(body) = self.body.take() {
            let mut bytes = std::mem::take(&mut self.text).into_buffer();
            bytes.drain(..body.start);
            self.text = PaddedBuffer::from_padded(bytes, body.len());
        }
    }
}

impl SessionMessage {
    /// Returns the text of the message that a request is for.
    pub fn posted_text(&mut self) -> Option<&mut PaddedBuffer> {
        let Self::Request { op, .. } = self else { return None };
        match op {
            SessionOp::Legacy(LegacyOp::HandleMessage { text, .. })
            | SessionOp::Parity(
                ParityOp::Message { text, .. } | ParityOp::Events { handshake: Some(text), .. },
            ) => Some(text),
            SessionOp::Legacy(_) | SessionOp::Parity(_) | SessionOp::RespondRefused(_) => None,
        }
    }
}

impl LargeMessage {
    /// Returns the connection that has no other message until this one is dispatched.
    pub fn connection(&self) -> Option<Key> {
        match self {
            Self::Text { key, .. } => Some(*key),
            Self::Request(request) => Some(request.key),
            Self::Response(response) => Some(response.key),
            Self::Session(_) => None,
        }
    }

    /// Returns the address of the client of a session.
    pub fn client_of_session(&self) -> Option<ClientAddress> {
        let Self::Session(message) = self else { return None };
        let SessionMessage::Request { caller, .. } = &**message else { return None };
        caller.client
    }

    fn text_mut(&mut self) -> Option<&mut PaddedBuffer> {
        match self {
            Self::Text { text, .. } => Some(text),
            Self::Request(request) => Some(&mut request.text),
            Self::Response(response) => Some(&mut response.text),
            Self::Session(message) => message.posted_text(),
        }
    }

    /// Returns the bytes that its text and its response hold.
    pub fn held_bytes(&mut self) -> usize {
        let response = match self {
            Self::Response(it) => it.partial.written.capacity() + it.response.capacity(),
            Self::Text { .. } | Self::Request(_) | Self::Session(_) => 0,
        };
        response + self.text_mut().map_or(0, |text| text.held_bytes())
    }

    /// Parses the text, or writes the response. A text that is rejected is replaced by a short one
    /// with the same head.
    pub fn process(&mut self, limits: ParseLimits) {
        match self {
            Self::Response(response) => return response.write(),
            Self::Request(request) => request.separate_body(),
            Self::Text { .. } | Self::Session(_) => {}
        }
        let Some(text) = self.text_mut() else { return };
        if let Err(error) = Parser::new(limits).parse_apart(text) {
            let bytes = text.as_bytes();
            let error = if error.is_invalid_utf8(bytes) { ParseError::Utf8 } else { error };
            let is_blank = bytes.trim_ascii().is_empty();
            let head = if is_blank { Vec::new() } else { MessageHead::read(bytes).to_text() };
            text.reject(error, head);
        }
    }

    /// Refuses the text, which cannot be parsed here, or the response, which cannot be written.
    pub fn reject(&mut self) {
        if let Self::Response(response) = self {
            let error = Error::internal("the response cannot be written");
            response.response.clear();
            model::write_error_response(&mut response.response, None, &error, None);
        } else if let Some(text) = self.text_mut() {
            text.reject(ParseError::Syntax, Vec::new());
        }
    }
}
