//! Frames of a server: not masked, a message in one frame (RFC 6455, section 5).
//!
//! A text is written straight into the buffer that is sent: [`begin`] leaves a place for the
//! header, the caller appends the text, [`end`] puts the header in. What it keeps true: the header
//! is the shortest for its length (section 5.2); a text of 126 to 65,535 bytes is not moved, a
//! shorter one by two bytes; nothing is allocated but the growth of the buffer.

use super::code::CloseCode;
use super::deflate::Deflater;
use super::frame::{
    BINARY, CLOSE, COMPRESSED, CONTROL_BYTES_MAX, FINAL, HEADER_BYTES_MAX, MASKED, PING, PONG,
    TEXT, short,
};

/// Where a frame that has begun stands in its buffer. Valid as long as nothing before or inside the
/// frame is moved.
#[derive(Debug)]
#[must_use = "a frame that was begun has to be ended or cancelled"]
pub struct Mark(usize);

impl Mark {
    /// Where the frame begins.
    pub const fn head(&self) -> usize {
        self.0
    }

    /// Where its text begins, until the frame is ended.
    pub const fn body(&self) -> usize {
        self.0 + PLACE_BYTES
    }
}

/// Leaves a place for a header; the text is to be appended behind it.
#[inline]
pub fn begin(out: &mut Vec<u8>) -> Mark {
    let head = out.len();
    out.extend_from_slice(&[0; PLACE_BYTES]);
    Mark(head)
}

/// Ends a frame: what stands behind its place is the text of a message.
#[inline]
#[expect(clippy::needless_pass_by_value, reason = "a frame ends once: its mark is used up")]
pub fn end(out: &mut Vec<u8>, mark: Mark) {
    put_header(out, mark.0, FINAL | TEXT);
}

/// The same for a message that is not text. No message of MCP is such.
#[expect(clippy::needless_pass_by_value, reason = "a frame ends once: its mark is used up")]
pub fn end_binary(out: &mut Vec<u8>, mark: Mark) {
    put_header(out, mark.0, FINAL | BINARY);
}

/// The same for a peer that takes compressed messages. One that would not become shorter goes out
/// as it is.
#[expect(clippy::needless_pass_by_value, reason = "a frame ends once: its mark is used up")]
pub fn end_compressed(out: &mut Vec<u8>, mark: Mark, deflater: &mut Deflater) {
    let body = mark.body();
    let first = match deflater.deflate(&out[body..]) {
        Some(shorter) => {
            out.truncate(body);
            out.extend_from_slice(shorter);
            FINAL | COMPRESSED | TEXT
        }
        None => FINAL | TEXT,
    };
    put_header(out, mark.0, first);
}

/// Takes a frame back that was begun.
#[expect(clippy::needless_pass_by_value, reason = "the frame that it stands for is gone")]
pub fn cancel(out: &mut Vec<u8>, mark: Mark) {
    out.truncate(mark.0);
}

/// The header of a text message of `length` bytes as a client writes it, with a key that changes
/// nothing, and how many of its bytes count: what has been unmasked already can so be read again.
pub fn client_header(length: usize) -> ([u8; HEADER_BYTES_MAX], usize) {
    let mut header = [0; HEADER_BYTES_MAX];
    header[0] = FINAL | TEXT;
    let key = match u16::try_from(length) {
        Ok(_) if length < 126 => {
            header[1] = MASKED | short(length);
            2
        }
        Ok(length) => {
            header[1] = MASKED | MEDIUM;
            header[2..4].copy_from_slice(&length.to_be_bytes());
            4
        }
        Err(_) => {
            header[1] = MASKED | HUGE;
            header[2..10].copy_from_slice(&(length as u64).to_be_bytes());
            10
        }
    };
    (header, key + 4)
}

/// Asks the peer for a sign of life. Of `payload` the first 125 bytes are sent.
pub fn ping(out: &mut Vec<u8>, payload: &[u8]) {
    control(out, PING, payload);
}

/// Gives a sign of life: with the payload of the ping that asked for it.
pub fn pong(out: &mut Vec<u8>, payload: &[u8]) {
    control(out, PONG, payload);
}

/// Says that nothing more will be sent, with a code and, where there is one, a reason. Of `reason`
/// as many characters are sent as a control frame has room for.
pub fn close(out: &mut Vec<u8>, code: Option<CloseCode>, reason: &str) {
    let Some(code) = code else { return control(out, CLOSE, &[]) };
    let number = code.number().to_be_bytes();
    let reason = &reason[..reason.floor_char_boundary(CONTROL_BYTES_MAX - number.len())];
    let length = number.len() + reason.len();
    out.extend_from_slice(&[FINAL | CLOSE, short(length)]);
    out.extend_from_slice(&number);
    out.extend_from_slice(reason.as_bytes());
}

fn control(out: &mut Vec<u8>, opcode: u8, payload: &[u8]) {
    let payload = &payload[..payload.len().min(CONTROL_BYTES_MAX)];
    out.extend_from_slice(&[FINAL | opcode, short(payload.len())]);
    out.extend_from_slice(payload);
}

/// Puts the header of the frame that begins at `head` into its place.
#[inline]
fn put_header(out: &mut Vec<u8>, head: usize, first: u8) {
    let body = head + PLACE_BYTES;
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
        return;
    }
    let header = HUGE_BYTES - PLACE_BYTES;
    out.extend_from_slice(&[0; HUGE_BYTES - PLACE_BYTES]);
    out.copy_within(body..body + length, body + header);
    out[head..head + 2].copy_from_slice(&[first, 127]);
    out[head + 2..head + HUGE_BYTES].copy_from_slice(&(length as u64).to_be_bytes());
}

/// The place that is left for a header: the one of most messages, whose length takes two bytes.
const PLACE_BYTES: usize = 4;

/// Bytes of the header of a message of more than 65,535 bytes.
const HUGE_BYTES: usize = 10;

/// What stands for a length that takes two bytes, and for one that takes eight.
const MEDIUM: u8 = 0x7e;
const HUGE: u8 = 0x7f;
