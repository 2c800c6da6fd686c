//! Parses the frames of a server into messages and control frames (RFC 6455, sections 5 to 7).
//!
//! Invariants: a message in one frame is not copied, the fragments of another are copied once; a
//! frame over the limit is rejected by its header; the result does not depend on how the stream is
//! split. Text is not validated here.

use std::mem::take;
use std::ops::Range;

use crate::websocket::code::CloseCode;
use crate::websocket::frame::{CLOSE, Header, HeaderContext, PING, PONG, parse_close_code};
use crate::websocket::limits::{FrameLimits, ProtocolError};

/// What a frame of the server completes.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum ServerEvent {
    /// A message of one frame: these bytes of the input.
    Message(Range<usize>),
    /// A message of several frames: call [`ServerFrameReader::take`].
    Assembled,
    /// A part of a message.
    Fragment,
    /// A ping, with its payload in the input.
    Ping(Range<usize>),
    /// A pong.
    Pong,
    /// A close frame, with its code if any, and its reason in the input. No frame follows.
    Close(Option<CloseCode>, Range<usize>),
}

/// Reads frames, one at a time.
#[derive(Debug, Default)]
pub struct ServerFrameReader {
    /// The fragments of an incomplete message; then the message until it is taken.
    message: Vec<u8>,
    /// A fragmented message is incomplete.
    is_inside_message: bool,
}

impl ServerFrameReader {
    /// Creates a reader before the first frame, without a buffer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the frame at the start of `bytes`. Returns its length and what it completes, or
    /// `None` if it is incomplete: call again with the same bytes followed by later ones.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`] with the code of the close frame. Nothing after it may be read.
    #[inline]
    pub fn next(
        &mut self,
        bytes: &[u8],
        limits: &FrameLimits,
    ) -> Result<Option<(usize, ServerEvent)>, ProtocolError> {
        let header = Header::parse(bytes, self.header_context(limits))?;
        let Some(header) = header else { return Ok(None) };
        let payload = header.length..header.length + header.payload_length;
        let Some(data) = bytes.get(payload.clone()) else { return Ok(None) };
        let end = payload.end;
        let event = match header.opcode() {
            CLOSE => {
                let code = parse_close_code(data)?;
                ServerEvent::Close(code, payload.start + data.len().min(2)..end)
            }
            PING => ServerEvent::Ping(payload),
            PONG => ServerEvent::Pong,
            _ if header.is_final() && !self.is_inside_message => ServerEvent::Message(payload),
            _ => {
                self.message.extend_from_slice(data);
                self.is_inside_message = !header.is_final();
                if header.is_final() { ServerEvent::Assembled } else { ServerEvent::Fragment }
            }
        };
        Ok(Some((end, event)))
    }

    /// Returns whether the frame at the start of `bytes` is complete.
    ///
    /// # Errors
    ///
    /// As [`ServerFrameReader::next`].
    pub fn has_frame(&self, bytes: &[u8], limits: &FrameLimits) -> Result<bool, ProtocolError> {
        let header = Header::parse(bytes, self.header_context(limits))?;
        Ok(header.is_some_and(|header| bytes.len() >= header.length + header.payload_length))
    }

    /// Returns the message announced by [`ServerEvent::Assembled`].
    pub fn take(&mut self) -> Vec<u8> {
        take(&mut self.message)
    }

    /// Returns whether no part of the next message was read.
    pub const fn is_at_message_start(&self) -> bool {
        !self.is_inside_message
    }

    const fn header_context(&self, limits: &FrameLimits) -> HeaderContext {
        HeaderContext {
            is_inside_message: self.is_inside_message,
            is_compression_negotiated: false,
            is_binary_allowed: limits.is_binary_allowed,
            is_masked: false,
            bytes_max: limits.message_bytes_max.saturating_sub(self.message.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FrameLimits = FrameLimits { message_bytes_max: 300, is_binary_allowed: false };

    /// Reads `stream` in pieces. Returns what it holds as text.
    fn read(stream: &[u8], piece: usize) -> Result<Vec<String>, ProtocolError> {
        let mut reader = ServerFrameReader::new();
        let (mut bytes, mut events) = (Vec::new(), Vec::new());
        for piece in stream.chunks(piece) {
            bytes.extend_from_slice(piece);
            while let Some((length, event)) = reader.next(&bytes, &LIMITS)? {
                let text =
                    |range: Range<usize>| String::from_utf8_lossy(&bytes[range]).into_owned();
                events.push(match event {
                    ServerEvent::Message(range) => text(range),
                    ServerEvent::Assembled => String::from_utf8_lossy(&reader.take()).into_owned(),
                    ServerEvent::Fragment => "…".to_owned(),
                    ServerEvent::Ping(range) => format!("ping {}", text(range)),
                    ServerEvent::Pong => "pong".to_owned(),
                    ServerEvent::Close(code, range) => format!("close {code:?} {}", text(range)),
                });
                bytes.drain(..length);
            }
        }
        Ok(events)
    }

    #[test]
    fn frames_of_a_server_survive_any_cut() {
        let long = "x".repeat(300);
        let mut stream =
            b"\x81\x02{}\x01\x01[\x89\x01p\x00\x011\x80\x01]\x8A\x00\x81\x7E\x01\x2C".to_vec();
        stream.extend_from_slice(long.as_bytes());
        stream.extend_from_slice(b"\x88\x04\x03\xE9by");
        let close = "close Some(CloseCode(1001)) by";
        for piece in 1..=stream.len() {
            let expected = ["{}", "…", "ping p", "…", "[1]", "pong", &long, close];
            assert_eq!(read(&stream, piece).unwrap(), expected);
        }
        assert_eq!(read(b"\x88\x00", 1).unwrap(), ["close None "]);
    }

    #[test]
    fn invalid_frames_of_a_server_have_their_errors() {
        for (stream, error) in [
            (&b"\x81\x82\0\0\0\0{}"[..], ProtocolError::MASKED),
            (b"\xC1\x00", ProtocolError::RESERVED_BIT),
            (b"\x83\x00", ProtocolError::RESERVED_OPCODE),
            (b"\x82\x01x", ProtocolError::UNSUPPORTED_BINARY),
            (b"\x80\x01x", ProtocolError::UNEXPECTED_CONTINUATION),
            (b"\x01\x01x\x81\x01x", ProtocolError::INTERLEAVED),
            (b"\x09\x00", ProtocolError::FRAGMENTED_CONTROL),
            (b"\x89\x7E\x00\x7E", ProtocolError::OVERSIZED_CONTROL),
            (b"\x81\x7E\x00\x01", ProtocolError::NON_MINIMAL_LENGTH),
            (b"\x81\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", ProtocolError::LENGTH_OVERFLOW),
            (b"\x81\x7E\x01\x2D", ProtocolError::MESSAGE_TOO_BIG),
            (b"\x01\x01x\x80\x7E\x01\x2C", ProtocolError::MESSAGE_TOO_BIG),
            (b"\x88\x01\x03", ProtocolError::TRUNCATED_CLOSE_CODE),
            (b"\x88\x02\x03\xED", ProtocolError::INVALID_CLOSE_CODE),
            (b"\x88\x03\x03\xE8\xFF", ProtocolError::INVALID_CLOSE_REASON),
        ] {
            for piece in 1..=stream.len() {
                assert_eq!(read(stream, piece).unwrap_err(), error, "{}", stream.escape_ascii());
            }
        }
    }
}
