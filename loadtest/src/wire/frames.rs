//! WebSocket frames, as read and written by a client.
//!
//! Source: RFC 6455 section 5.

use super::{FramingError, MESSAGE_BYTES_MAX, ReadResult, WireEvent};

/// Masking key of every frame. RFC 6455 requires a random key per frame so that scripts in a
/// browser cannot choose the bytes on the wire; that does not apply to a load generator, and a
/// fixed key lets a request be masked once per run. It is not zero, so that a server that skips
/// unmasking is detected.
pub const MASK: [u8; 4] = [0x37, 0xFA, 0x21, 0x3D];

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// Length code: the length is in the next two bytes.
const LENGTH_16: u8 = 126;
/// Length code: the length is in the next eight bytes.
const LENGTH_64: u8 = 127;

/// Parser of a stream of frames into messages.
#[derive(Debug, Default)]
pub struct FrameReader {
    /// Payload of a fragmented message so far; `None` between messages.
    message: Option<Vec<u8>>,
    /// The message being returned, or a pong to send.
    out: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Header {
    is_last: bool,
    opcode: u8,
    start: usize,
    end: usize,
}

impl FrameReader {
    pub(super) const fn is_at_message_start(&self) -> bool {
        self.message.is_none()
    }

    /// See [`super::Reader::shrink`].
    pub(super) fn shrink(&mut self, kept_bytes_max: usize) {
        if self.message.is_none() && self.out.capacity() > kept_bytes_max {
            self.out = Vec::new();
        }
    }

    /// See [`super::Reader::read_next`].
    pub fn read_next<'a>(&'a mut self, bytes: &'a [u8]) -> ReadResult<'a> {
        let Some(Header { is_last, opcode, start, end }) = read_header(bytes)? else {
            return Ok(None);
        };
        let Some(payload) = bytes.get(start..end) else { return Ok(None) };
        let event = match opcode {
            TEXT if is_last && self.message.is_none() => Some(WireEvent::Message(payload)),
            TEXT if self.message.is_none() => {
                self.message = Some(payload.to_vec());
                None
            }
            CONTINUATION => {
                let message = self.message.as_mut();
                let message =
                    message.ok_or(FramingError("continuation frame without a message"))?;
                if message.len() + payload.len() > MESSAGE_BYTES_MAX {
                    return Err(FramingError("message longer than 64 MiB"));
                }
                message.extend_from_slice(payload);
                if is_last {
                    self.out = self.message.take().unwrap_or_default();
                }
                is_last.then_some(WireEvent::Message(&self.out))
            }
            PING if is_last && payload.len() <= 125 => {
                self.out.clear();
                write_frame(&mut self.out, PONG, payload);
                Some(WireEvent::Reply(&self.out))
            }
            PONG if is_last => None,
            CLOSE if is_last => Some(WireEvent::Close),
            BINARY => return Err(FramingError("binary frame")),
            _ => return Err(FramingError("invalid opcode or fragmentation of a frame")),
        };
        Ok(Some((end, event)))
    }
}

/// Parses the header at the beginning of `bytes`; returns `None` if it is incomplete.
fn read_header(bytes: &[u8]) -> Result<Option<Header>, FramingError> {
    let [first, second, rest @ ..] = bytes else { return Ok(None) };
    if first & 0x70 != 0 {
        return Err(FramingError("reserved bit set in a frame"));
    }
    if second & 0x80 != 0 {
        return Err(FramingError("masked frame from a server"));
    }
    let (start, length) = match second & 0x7F {
        LENGTH_16 => match rest.first_chunk() {
            Some(length) => (4, u64::from(u16::from_be_bytes(*length))),
            None => return Ok(None),
        },
        LENGTH_64 => match rest.first_chunk() {
            Some(length) => (10, u64::from_be_bytes(*length)),
            None => return Ok(None),
        },
        length => (2, u64::from(length)),
    };
    let length = usize::try_from(length).ok().filter(|length| *length <= MESSAGE_BYTES_MAX);
    let length = length.ok_or(FramingError("frame longer than 64 MiB"))?;
    Ok(Some(Header {
        is_last: first & 0x80 != 0,
        opcode: first & 0x0F,
        start,
        end: start + length,
    }))
}

/// Writes a masked text frame; returns the position of its payload in `out`.
pub fn write_text(out: &mut Vec<u8>, text: &[u8]) -> usize {
    write_frame(out, TEXT, text)
}

/// Writes a close frame with status 1000 (normal closure).
pub fn write_close(out: &mut Vec<u8>) {
    write_frame(out, CLOSE, &1_000_u16.to_be_bytes());
}

fn write_frame(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) -> usize {
    out.push(0x80 | opcode);
    match payload.len() {
        length @ 0..126 => out.push(0x80 | u8::try_from(length).unwrap_or_default()),
        length @ 126..0x1_0000 => {
            out.push(0x80 | LENGTH_16);
            out.extend_from_slice(&u16::try_from(length).unwrap_or_default().to_be_bytes());
        }
        length => {
            out.push(0x80 | LENGTH_64);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    let start = out.len();
    out.extend(payload.iter().zip(MASK.iter().cycle()).map(|(byte, key)| byte ^ key));
    start
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_events(stream: &[u8], piece: usize) -> Result<Vec<String>, FramingError> {
        let mut reader = FrameReader::default();
        let (mut bytes, mut events) = (Vec::new(), Vec::new());
        for piece in stream.chunks(piece) {
            bytes.extend_from_slice(piece);
            while let Some((taken, event)) = reader.read_next(&bytes)? {
                events.extend(event.map(|event| match event {
                    WireEvent::Message(text) => String::from_utf8_lossy(text).into(),
                    other => format!("{other:?}"),
                }));
                bytes.drain(..taken);
            }
        }
        Ok(events)
    }

    #[test]
    fn websocket_messages_survive_any_framing_and_cut() {
        let long = "x".repeat(300);
        let mut stream =
            b"\x81\x02{}\x01\x01[\x89\x01p\x00\x011\x80\x01]\x8A\x00\x81\x7E\x01\x2C".to_vec();
        stream.extend_from_slice(long.as_bytes());
        stream.extend_from_slice(b"\x88\x02\x03\xE8");
        let mut pong = Vec::new();
        write_frame(&mut pong, PONG, b"p");
        let pong = format!("{:?}", WireEvent::Reply(&pong));
        for piece in 1..=stream.len() {
            assert_eq!(read_events(&stream, piece).unwrap(), ["{}", &pong, "[1]", &long, "Close"]);
        }
    }

    #[test]
    fn invalid_server_frame_is_framing_error() {
        for stream in [
            &b"\x81\x82\0\0\0\0{}"[..],
            b"\xC1\x00",
            b"\x82\x01x",
            b"\x80\x01x",
            b"\x01\x01x\x81\x01x",
            b"\x09\x00",
            b"\x81\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF",
        ] {
            assert!(read_events(stream, stream.len()).is_err(), "{}", stream.escape_ascii());
        }
    }

    #[test]
    fn written_frame_is_masked_with_correct_length() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            let mut out = vec![7];
            let start = write_text(&mut out, &vec![b'a'; length]);
            assert_eq!(out.len() - start, length);
            let payload =
                out[start..].iter().zip(MASK.iter().cycle()).map(|(byte, key)| byte ^ key);
            assert!(payload.eq(std::iter::repeat_n(b'a', length)));
            let header = match start - 1 - 4 {
                2 => u64::from(out[2] & 0x7F),
                4 => u64::from(u16::from_be_bytes([out[3], out[4]])),
                _ => u64::from_be_bytes(*out[3..].first_chunk().unwrap()),
            };
            assert_eq!(header, length as u64);
        }
    }
}
