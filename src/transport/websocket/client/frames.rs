//! Frames of the client side: those of a server are parsed into messages and control frames (RFC
//! 6455, sections 5 to 7), its own are written masked, one frame per message (sections 5.2 and
//! 5.3).
//!
//! Invariants: a message in one frame is not copied, the fragments of another are copied once; a
//! frame over the limit is rejected by its header; the result does not depend on how the stream is
//! split. Text is not validated here.

use std::mem::take;
use std::ops::Range;

use crate::websocket::frame::{
    CLOSE, CONTROL_BYTES_MAX, FINAL, Header, HeaderContext, PING, PONG, TEXT, apply_mask,
    parse_close_code,
};
use crate::websocket::limits::{CloseCode, FrameLimits, ProtocolError};
use crate::websocket::writer::client_header;

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

/// Appends a text message. Returns the start of its masked payload in `out`.
pub fn write_text(out: &mut Vec<u8>, text: &[u8], key: [u8; 4]) -> usize {
    write_frame(out, TEXT, text, key)
}

/// Appends a ping without a payload.
pub fn write_ping(out: &mut Vec<u8>, key: [u8; 4]) {
    write_frame(out, PING, &[], key);
}

/// Appends a pong with the payload of the ping.
pub fn write_pong(out: &mut Vec<u8>, payload: &[u8], key: [u8; 4]) {
    write_frame(out, PONG, &payload[..payload.len().min(CONTROL_BYTES_MAX)], key);
}

/// Appends a close frame with a code and a reason. The reason is truncated to fit a control frame.
pub fn write_close(out: &mut Vec<u8>, code: CloseCode, reason: &str, key: [u8; 4]) {
    let number = code.as_u16().to_be_bytes();
    let reason = &reason[..reason.floor_char_boundary(CONTROL_BYTES_MAX - number.len())];
    write_frame(out, CLOSE, &[&number, reason.as_bytes()].concat(), key);
}

fn write_frame(out: &mut Vec<u8>, opcode: u8, payload: &[u8], key: [u8; 4]) -> usize {
    let (mut header, length) = client_header(payload.len());
    header[0] = FINAL | opcode;
    header[length - key.len()..length].copy_from_slice(&key);
    out.extend_from_slice(&header[..length]);
    let start = out.len();
    out.extend_from_slice(payload);
    apply_mask(&mut out[start..], key);
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::reader::{FrameEvent, FrameReader};

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

    const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

    #[test]
    fn text_of_any_length_is_masked() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            let text = vec![b'a'; length];
            let mut out = Vec::new();
            let payload = write_text(&mut out, &text, KEY);
            assert_eq!(out.len() - payload, length);
            assert_eq!(out[payload - 4..payload], KEY);
            let event =
                FrameReader::new().next(&mut out, &mut 0, &FrameLimits::default(), Vec::new);
            let (start, end) = (payload, payload + length);
            assert_eq!(event, FrameEvent::InPlace { start, end, is_compressed: false });
            assert_eq!(out[start..], text);
        }
    }

    #[test]
    fn control_frames_are_read_by_a_server() {
        let (mut out, mut from) = (Vec::new(), 0);
        write_ping(&mut out, KEY);
        write_pong(&mut out, &[b'p'; 126], KEY);
        write_close(&mut out, CloseCode::NORMAL, &"é".repeat(80), KEY);
        let mut reader = FrameReader::new();
        let mut next = || {
            let event = reader.next(&mut out, &mut from, &FrameLimits::default(), Vec::new);
            (event, reader.control_payload().to_vec())
        };
        assert_eq!(next(), (FrameEvent::Ping, Vec::new()));
        assert_eq!(next(), (FrameEvent::Pong, vec![b'p'; 125]));
        let (event, payload) = next();
        assert_eq!(event, FrameEvent::Close(Some(CloseCode::NORMAL)));
        assert_eq!(payload.len(), 124);
    }
}
