//! The header of one frame (RFC 6455, section 5.2): what it says, and what it may not say.
//!
//! What it keeps true: a header is judged byte by byte as far as it has come, so that the same
//! stream breaks for the same reason wherever it is cut; no payload is awaited that will not be
//! taken.

use super::limits::Fault;
use super::mask::Key;

/// The last frame of its message.
pub(super) const FINAL: u8 = 0x80;
/// The first reserved bit: the message is compressed (RFC 7692, section 6).
pub(super) const COMPRESSED: u8 = 0x40;
const RESERVED: u8 = 0x70;
const OPCODE: u8 = 0x0f;
/// Opcodes from here on are those of control frames.
const CONTROL: u8 = 0x08;
pub(super) const MASKED: u8 = 0x80;

/// Opcodes.
pub(super) const CONTINUATION: u8 = 0x0;
pub(super) const TEXT: u8 = 0x1;
pub(super) const BINARY: u8 = 0x2;
pub(super) const CLOSE: u8 = 0x8;
pub(super) const PING: u8 = 0x9;
pub(super) const PONG: u8 = 0xa;

/// Bytes of a header, at most: two, a length of eight, a key of four.
pub(super) const HEADER_BYTES_MAX: usize = 14;
/// Bytes of the payload of a control frame, at most (section 5.5).
pub(super) const CONTROL_BYTES_MAX: usize = 125;

/// A header that is whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// Its first byte.
    first: u8,
    /// Its own bytes.
    pub(super) bytes: usize,
    pub(super) key: Key,
    pub(super) payload: usize,
}

/// What a header is judged by besides itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Whether it stands behind a fragment of a message that is not over.
    pub(super) is_inside: bool,
    /// Whether compressed messages were agreed on.
    pub(super) is_deflating: bool,
    pub(super) is_binary_allowed: bool,
    /// Bytes that may still come of the message.
    pub(super) bytes_max: usize,
}

impl Header {
    /// Reads the header that `bytes` begin with; `None` where it does not end in them.
    #[inline]
    pub(super) fn read(bytes: &[u8], place: Place) -> Result<Option<Self>, Fault> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        let first = *first;
        judge(first, *second, place)?;
        let (payload, rest, length_bytes) = match (second & !MASKED, rest) {
            (126, [high, low, rest @ ..]) => {
                (u64::from(u16::from_be_bytes([*high, *low])), rest, 2)
            }
            (127, [_, _, _, _, _, _, _, _, ..]) => {
                let (length, rest) = rest.split_at(8);
                let mut number = [0; 8];
                number.copy_from_slice(length);
                (u64::from_be_bytes(number), rest, 8)
            }
            (126 | 127, _) => return Ok(None),
            (length, rest) => (u64::from(length), rest, 0),
        };
        match length_bytes {
            2 if payload < 126 => return Err(Fault::LONG_LENGTH),
            8 if payload <= 0xffff => return Err(Fault::LONG_LENGTH),
            8 if payload >> 63 != 0 => return Err(Fault::HUGE_LENGTH),
            _ => {}
        }
        let payload = usize::try_from(payload).unwrap_or(usize::MAX);
        if payload > place.bytes_max && first & CONTROL == 0 {
            return Err(Fault::TOO_BIG);
        }
        let Some(&key) = rest.first_chunk::<4>() else { return Ok(None) };
        Ok(Some(Self { first, bytes: 2 + length_bytes + 4, key, payload }))
    }

    #[inline]
    pub(super) const fn opcode(&self) -> u8 {
        self.first & OPCODE
    }

    /// What message it begins.
    #[inline]
    pub(super) const fn kind(&self) -> Kind {
        Kind(self.first)
    }

    /// Whether it is one of a control frame.
    #[inline]
    pub(super) const fn is_control(&self) -> bool {
        self.first & CONTROL != 0
    }

    /// Whether the message ends with this frame.
    #[inline]
    pub(super) const fn is_final(&self) -> bool {
        self.first & FINAL != 0
    }
}

/// What a message is: the first byte of its first frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kind(u8);

impl Kind {
    #[inline]
    pub(super) const fn is_binary(self) -> bool {
        self.0 & OPCODE == BINARY
    }

    #[inline]
    pub(super) const fn is_compressed(self) -> bool {
        self.0 & COMPRESSED != 0
    }

    /// Whether its bytes are text as they come.
    pub(super) const fn is_plain_text(self) -> bool {
        !self.is_binary() && !self.is_compressed()
    }
}

/// A count of bytes of a header or of the payload of a control frame.
#[expect(clippy::cast_possible_truncation, reason = "neither has more than 125 bytes")]
pub(super) const fn short(count: usize) -> u8 {
    count as u8
}

/// What the first two bytes may not say.
#[inline]
fn judge(first: u8, second: u8, place: Place) -> Result<(), Fault> {
    let opcode = first & OPCODE;
    // Only the first frame of a message says that it is compressed (RFC 7692, section 6.1).
    let begins = matches!(opcode, TEXT | BINARY);
    let known = if place.is_deflating && begins { COMPRESSED } else { 0 };
    if first & RESERVED & !known != 0 {
        return Err(Fault::RESERVED_BIT);
    }
    match opcode {
        CONTINUATION if !place.is_inside => return Err(Fault::LONE_CONTINUATION),
        TEXT | BINARY if place.is_inside => return Err(Fault::INTERLEAVED),
        BINARY if !place.is_binary_allowed => return Err(Fault::BINARY),
        CLOSE | PING | PONG if first & FINAL == 0 => return Err(Fault::FRAGMENTED_CONTROL),
        CLOSE | PING | PONG if second & !MASKED > 125 => return Err(Fault::LONG_CONTROL),
        CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG => {}
        _ => return Err(Fault::RESERVED_OPCODE),
    }
    if second & MASKED == 0 { Err(Fault::UNMASKED) } else { Ok(()) }
}
