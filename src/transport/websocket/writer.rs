//! Writing of server frames: unmasked, one frame per message (RFC 6455, section 5).
//!
//! [`begin_message`] reserves space for the header, the caller appends the text, and
//! [`end_message`] inserts the minimal header (section 5.2). Text of 126 to 65,535 bytes is not
//! moved, shorter text by two bytes.

use super::deflate::Deflater;
use super::frame::{
    CLOSE, COMPRESSED, CONTROL_BYTES_MAX, FINAL, HEADER_BYTES_MAX, MASKED, PING, PONG, TEXT, to_u8,
};
use super::limits::CloseCode;

/// Position of an unfinished frame in its buffer. Valid as long as nothing before or inside the
/// frame moves.
#[derive(Debug)]
#[must_use = "finish the frame with `end_message` or `cancel_message`"]
pub struct FrameMark(usize);

impl FrameMark {
    /// Returns the start of the text, until the frame is ended.
    pub const fn body(&self) -> usize {
        self.0 + RESERVED_HEADER_BYTES
    }
}

/// Reserves space for a header; append the text after it.
#[inline]
pub fn begin_message(out: &mut Vec<u8>) -> FrameMark {
    let head = out.len();
    out.extend_from_slice(&[0; RESERVED_HEADER_BYTES]);
    FrameMark(head)
}

/// Ends a frame: everything after its header is the text of a message.
#[inline]
#[expect(clippy::needless_pass_by_value, reason = "consumes the mark: a frame ends once")]
pub fn end_message(out: &mut Vec<u8>, mark: FrameMark) {
    insert_header(out, mark.0, FINAL | TEXT);
}

/// Ends a frame with a binary message. MCP does not use these; the Autobahn echo server does.
#[expect(clippy::needless_pass_by_value, reason = "consumes the mark: a frame ends once")]
pub fn end_binary_message(out: &mut Vec<u8>, mark: FrameMark) {
    insert_header(out, mark.0, FINAL | super::frame::BINARY);
}

/// Ends a frame with a compressed message, or uncompressed if compression does not shorten it.
#[expect(clippy::needless_pass_by_value, reason = "consumes the mark: a frame ends once")]
pub fn end_compressed_message(out: &mut Vec<u8>, mark: FrameMark, deflater: &mut Deflater) {
    let body = mark.body();
    let first = match deflater.deflate(&out[body..]) {
        Some(shorter) => {
            out.truncate(body);
            out.extend_from_slice(shorter);
            FINAL | COMPRESSED | TEXT
        }
        None => FINAL | TEXT,
    };
    insert_header(out, mark.0, first);
}

/// Removes an unfinished frame.
#[expect(clippy::needless_pass_by_value, reason = "consumes the mark: its frame is removed")]
pub fn cancel_message(out: &mut Vec<u8>, mark: FrameMark) {
    out.truncate(mark.0);
}

/// Returns the header of a client text frame of `length` bytes with an all-zero key, and the length
/// of the header. Lets an unmasked message be parsed again.
pub fn client_header(length: usize) -> ([u8; HEADER_BYTES_MAX], usize) {
    let mut header = [0; HEADER_BYTES_MAX];
    header[0] = FINAL | TEXT;
    let key = match u16::try_from(length) {
        Ok(_) if length < 126 => {
            header[1] = MASKED | to_u8(length);
            2
        }
        Ok(length) => {
            header[1] = MASKED | LENGTH_16_BIT;
            header[2..4].copy_from_slice(&length.to_be_bytes());
            4
        }
        Err(_) => {
            header[1] = MASKED | LENGTH_64_BIT;
            header[2..10].copy_from_slice(&(length as u64).to_be_bytes());
            10
        }
    };
    (header, key + 4)
}

/// Appends a ping with the first 125 bytes of `payload`.
pub fn write_ping(out: &mut Vec<u8>, payload: &[u8]) {
    write_control(out, PING, payload);
}

/// Appends a pong with the payload of the ping.
pub fn write_pong(out: &mut Vec<u8>, payload: &[u8]) {
    write_control(out, PONG, payload);
}

/// Appends a close frame with a code and a reason, if any. The reason is truncated to fit a control
/// frame.
pub fn write_close(out: &mut Vec<u8>, code: Option<CloseCode>, reason: &str) {
    let Some(code) = code else { return write_control(out, CLOSE, &[]) };
    let number = code.as_u16().to_be_bytes();
    let reason = &reason[..reason.floor_char_boundary(CONTROL_BYTES_MAX - number.len())];
    let length = number.len() + reason.len();
    out.extend_from_slice(&[FINAL | CLOSE, to_u8(length)]);
    out.extend_from_slice(&number);
    out.extend_from_slice(reason.as_bytes());
}

fn write_control(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    let payload = &payload[..payload.len().min(CONTROL_BYTES_MAX)];
    out.extend_from_slice(&[FINAL | opcode, to_u8(payload.len())]);
    out.extend_from_slice(payload);
}

/// Inserts the header of the frame that starts at `head`.
#[expect(clippy::inline_always, reason = "part of each message, and called from three places")]
#[inline(always)]
fn insert_header(out: &mut Vec<u8>, head: usize, first: u8) {
    let body = head + RESERVED_HEADER_BYTES;
    let length = out.len() - body;
    if let Ok(length) = u16::try_from(length) {
        let [high, low] = length.to_be_bytes();
        if length < 126 {
            out.copy_within(body.., head + 2);
            out.truncate(out.len() - 2);
            out[head..head + 2].copy_from_slice(&[first, low]);
        } else {
            out[head..body].copy_from_slice(&[first, 126, high, low]);
        }
    } else {
        insert_long_header(out, head, first);
    }
}

/// Inserts the header with a 64-bit length, for which the text moves. Apart, so that the short ones
/// are inlined without it.
#[cold]
fn insert_long_header(out: &mut Vec<u8>, head: usize, first: u8) {
    let body = head + RESERVED_HEADER_BYTES;
    let length = out.len() - body;
    let header = LONG_HEADER_BYTES - RESERVED_HEADER_BYTES;
    out.extend_from_slice(&[0; LONG_HEADER_BYTES - RESERVED_HEADER_BYTES]);
    out.copy_within(body..body + length, body + header);
    out[head..head + 2].copy_from_slice(&[first, 127]);
    out[head + 2..head + LONG_HEADER_BYTES].copy_from_slice(&(length as u64).to_be_bytes());
}

/// Bytes reserved for a header: the size for a 16-bit length, which most messages have.
const RESERVED_HEADER_BYTES: usize = 4;

/// Size of a header with a 64-bit length.
const LONG_HEADER_BYTES: usize = 10;

/// Length codes: a 16-bit or a 64-bit length follows.
const LENGTH_16_BIT: u8 = 0x7e;
const LENGTH_64_BIT: u8 = 0x7f;
