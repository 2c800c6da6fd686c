//! WebSocket frames, as read and written by a client.

use corelane_transport::websocket::client::{self, ServerFrameEvent, ServerFrameReader};
use corelane_transport::websocket::limits::{CloseCode, FrameLimits};

use super::{FramingError, MESSAGE_BYTES_MAX, PartialMessage, ReadResult, WireEvent};

/// Masking key of every frame. RFC 6455 requires a random key per frame so that scripts in a
/// browser cannot choose the bytes on the wire; that does not apply to a load generator, and a
/// fixed key lets a request be masked once per run. It is not zero, so that a server that skips
/// unmasking is detected.
pub const MASK: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];

const LIMITS: FrameLimits =
    FrameLimits { message_bytes_max: MESSAGE_BYTES_MAX, is_binary_allowed: false };

/// Parser of a stream of frames into messages.
#[derive(Debug, Default)]
pub struct FrameReader {
    frames: ServerFrameReader,
    /// The message being returned, or a pong to send.
    out: Vec<u8>,
}

impl FrameReader {
    pub(super) const fn is_at_message_start(&self) -> bool {
        self.frames.is_at_message_start()
    }

    /// See [`super::Reader::shrink`].
    pub(super) fn shrink(&mut self, kept_bytes_max: usize) {
        if self.out.capacity() > kept_bytes_max {
            self.out = Vec::new();
        }
    }

    /// See [`super::Reader::read_next`].
    pub fn read_next<'a>(&'a mut self, bytes: &'a [u8]) -> ReadResult<'a> {
        let next = self.frames.next(bytes, &LIMITS).map_err(|error| FramingError(error.reason))?;
        let Some((length, event)) = next else { return Ok(None) };
        let event = match event {
            ServerFrameEvent::Message(payload) => Some(WireEvent::Message(&bytes[payload])),
            ServerFrameEvent::Assembled => {
                self.out = self.frames.take();
                Some(WireEvent::Message(&self.out))
            }
            ServerFrameEvent::Ping(payload) => {
                self.out.clear();
                client::write_pong(&mut self.out, &bytes[payload], MASK);
                Some(WireEvent::Reply(&self.out))
            }
            ServerFrameEvent::Close(..) => Some(WireEvent::Close),
            ServerFrameEvent::Fragment | ServerFrameEvent::Pong => None,
        };
        Ok(Some((length, event)))
    }
}

/// Returns what has arrived of a frame.
pub(super) fn partial_frame(bytes: &[u8]) -> PartialMessage {
    let payload = match (bytes.get(1).map(|byte| byte & 0x7F), bytes) {
        (None, _) => None,
        (Some(126), [_, _, a, b, ..]) => Some(4 + u64::from(u16::from_be_bytes([*a, *b]))),
        (Some(126 | 127), _) => {
            let long = bytes.get(2..10).and_then(|bytes| bytes.first_chunk().copied());
            long.map(|long| u64::from_be_bytes(long).saturating_add(10))
        }
        (Some(length), _) => Some(2 + u64::from(length)),
    };
    PartialMessage { of: "the frame", received: bytes.len() as u64, length: payload }
}

/// Writes a masked text frame; returns the position of its payload in `out`.
pub fn write_text(out: &mut Vec<u8>, text: &[u8]) -> usize {
    client::write_text(out, text, MASK)
}

/// Writes a close frame with status 1000 (normal closure).
pub fn write_close(out: &mut Vec<u8>) {
    client::write_close(out, CloseCode::NORMAL, "", MASK);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_frame_has_its_length() {
        for (bytes, length) in [
            (&b"\x81"[..], None),
            (b"\x81\x05ab", Some(7)),
            (b"\x81\x7E\x01", None),
            (b"\x81\x7E\x01\x00a", Some(260)),
            (b"\x81\x7F\0\0\0\0\0\x01\0\0a", Some(65_546)),
        ] {
            let received = bytes.len() as u64;
            let partial = PartialMessage { of: "the frame", received, length };
            assert_eq!(partial_frame(bytes), partial);
        }
    }

    #[test]
    fn messages_are_read_and_pings_answered() {
        let (mut reader, mut stream) = (FrameReader::default(), Vec::new());
        for piece in [&b"\x81\x02{}\x01\x01[\x89\x01p"[..], b"\x80\x01]\x8A\x00\x88\x02\x03\xE8"] {
            stream.extend_from_slice(piece);
        }
        let mut pong = Vec::new();
        client::write_pong(&mut pong, b"p", MASK);
        let expected = [
            Some(WireEvent::Message(b"{}")),
            None,
            Some(WireEvent::Reply(&pong)),
            Some(WireEvent::Message(b"[]")),
            None,
            Some(WireEvent::Close),
        ];
        let mut from = 0;
        for event in expected {
            let (length, read) = reader.read_next(&stream[from..]).unwrap().unwrap();
            assert_eq!(read, event);
            from += length;
        }
        assert_eq!(reader.read_next(&stream[from..]), Ok(None));
        assert_eq!(
            reader.read_next(b"\x82\x00"),
            Err(FramingError("binary messages are not supported"))
        );
    }
}
