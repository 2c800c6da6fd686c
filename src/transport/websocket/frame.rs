//! Frame headers, parsed and validated (RFC 6455, section 5.2), and the masking of payloads
//! (section 5.3).
//!
//! A header is validated as far as it has arrived, so that the same stream fails with the same
//! error wherever it is split, and before its payload arrives.

use super::limits::{CloseCode, ProtocolError};

/// FIN bit: the last frame of a message.
pub(super) const FINAL: u8 = 0x80;
/// RSV1 bit: the message is compressed (RFC 7692, section 6).
pub(super) const COMPRESSED: u8 = 0x40;
const RESERVED: u8 = 0x70;
const OPCODE: u8 = 0x0f;
/// Opcodes with this bit are control frames.
const CONTROL: u8 = 0x08;
pub(super) const MASKED: u8 = 0x80;

/// Opcodes.
const CONTINUATION: u8 = 0x0;
pub(super) const TEXT: u8 = 0x1;
pub(super) const BINARY: u8 = 0x2;
pub(super) const CLOSE: u8 = 0x8;
pub(super) const PING: u8 = 0x9;
pub(super) const PONG: u8 = 0xa;

/// Maximum size of a header: two bytes, an eight-byte length and a four-byte key.
pub(super) const HEADER_BYTES_MAX: usize = 14;
/// Maximum payload of a control frame (section 5.5).
pub(super) const CONTROL_BYTES_MAX: usize = 125;

/// A complete frame header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    first_byte: u8,
    /// Length of the header itself.
    pub(super) length: usize,
    pub(super) key: MaskKey,
    pub(super) payload_length: usize,
}

/// What the validity of a header depends on.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "four independent flags")]
pub(super) struct HeaderContext {
    /// Whether a fragmented message is incomplete.
    pub(super) is_inside_message: bool,
    /// Whether compression was negotiated.
    pub(super) is_compression_negotiated: bool,
    pub(super) is_binary_allowed: bool,
    /// Whether the sender is a client, which masks its frames.
    pub(super) is_masked: bool,
    /// Bytes left of the message size limit.
    pub(super) bytes_max: usize,
}

impl Header {
    /// Parses the header at the start of `bytes`. Returns `None` if it is incomplete.
    #[inline]
    pub(super) fn parse(bytes: &[u8], place: HeaderContext) -> Result<Option<Self>, ProtocolError> {
        let [first, second, rest @ ..] = bytes else { return Ok(None) };
        let first = *first;
        check_first_bytes(first, *second, place)?;
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
            2 if payload < 126 => return Err(ProtocolError::NON_MINIMAL_LENGTH),
            8 if payload <= 0xffff => return Err(ProtocolError::NON_MINIMAL_LENGTH),
            8 if payload >> 63 != 0 => return Err(ProtocolError::LENGTH_OVERFLOW),
            _ => {}
        }
        let payload = usize::try_from(payload).unwrap_or(usize::MAX);
        if payload > place.bytes_max && first & CONTROL == 0 {
            return Err(ProtocolError::MESSAGE_TOO_BIG);
        }
        let (key, key_bytes) = match rest.first_chunk::<4>() {
            _ if !place.is_masked => ([0; 4], 0),
            Some(key) => (*key, 4),
            None => return Ok(None),
        };
        Ok(Some(Self {
            first_byte: first,
            length: 2 + length_bytes + key_bytes,
            key,
            payload_length: payload,
        }))
    }

    #[inline]
    pub(super) const fn opcode(&self) -> u8 {
        self.first_byte & OPCODE
    }

    /// Returns the kind of the message that begins with this frame.
    #[inline]
    pub(super) const fn kind(&self) -> MessageKind {
        MessageKind(self.first_byte)
    }

    /// Returns whether this is a control frame.
    #[inline]
    pub(super) const fn is_control(&self) -> bool {
        self.first_byte & CONTROL != 0
    }

    /// Returns whether this is the last frame of its message.
    #[inline]
    pub(super) const fn is_final(&self) -> bool {
        self.first_byte & FINAL != 0
    }
}

/// The kind of a message, from the first byte of its first frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct MessageKind(u8);

impl MessageKind {
    #[inline]
    pub(super) const fn is_binary(self) -> bool {
        self.0 & OPCODE == BINARY
    }

    #[inline]
    pub(super) const fn is_compressed(self) -> bool {
        self.0 & COMPRESSED != 0
    }

    /// Returns whether the payload is uncompressed text.
    pub(super) const fn is_plain_text(self) -> bool {
        !self.is_binary() && !self.is_compressed()
    }
}

/// Converts a byte count of a header or control payload.
#[expect(clippy::cast_possible_truncation, reason = "counts are at most 125")]
pub(super) const fn to_u8(count: usize) -> u8 {
    count as u8
}

/// Validates the first two bytes.
#[inline]
fn check_first_bytes(first: u8, second: u8, place: HeaderContext) -> Result<(), ProtocolError> {
    let opcode = first & OPCODE;
    // RSV1 is allowed only on the first frame of a message (RFC 7692, section 6.1).
    let begins = matches!(opcode, TEXT | BINARY);
    let known = if place.is_compression_negotiated && begins { COMPRESSED } else { 0 };
    if first & RESERVED & !known != 0 {
        return Err(ProtocolError::RESERVED_BIT);
    }
    match opcode {
        CONTINUATION if !place.is_inside_message => {
            return Err(ProtocolError::UNEXPECTED_CONTINUATION);
        }
        TEXT | BINARY if place.is_inside_message => return Err(ProtocolError::INTERLEAVED),
        BINARY if !place.is_binary_allowed => return Err(ProtocolError::UNSUPPORTED_BINARY),
        CLOSE | PING | PONG if first & FINAL == 0 => return Err(ProtocolError::FRAGMENTED_CONTROL),
        CLOSE | PING | PONG if second & !MASKED > 125 => {
            return Err(ProtocolError::OVERSIZED_CONTROL);
        }
        CONTINUATION | TEXT | BINARY | CLOSE | PING | PONG => {}
        _ => return Err(ProtocolError::RESERVED_OPCODE),
    }
    match (second & MASKED != 0, place.is_masked) {
        (false, true) => Err(ProtocolError::UNMASKED),
        (true, false) => Err(ProtocolError::MASKED),
        _ => Ok(()),
    }
}

/// Parses the code of a close frame (RFC 6455, sections 5.5.1 and 7.4).
pub(super) fn parse_close_code(payload: &[u8]) -> Result<Option<CloseCode>, ProtocolError> {
    match payload {
        [] => Ok(None),
        [_] => Err(ProtocolError::TRUNCATED_CLOSE_CODE),
        [high, low, reason @ ..] => {
            let Some(code) = CloseCode::from_u16(u16::from_be_bytes([*high, *low])) else {
                return Err(ProtocolError::INVALID_CLOSE_CODE);
            };
            match std::str::from_utf8(reason) {
                Ok(_) => Ok(Some(code)),
                Err(_) => Err(ProtocolError::INVALID_CLOSE_REASON),
            }
        }
    }
}

/// A masking key, rotated to the next byte.
pub(super) type MaskKey = [u8; 4];

/// Applies `key` to `bytes`; the first byte of the key belongs to the first of `bytes`.
#[inline]
pub(super) fn apply_mask(bytes: &mut [u8], key: MaskKey) {
    let [a, b, c, d] = key;
    let wide = u128::from_ne_bytes([a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d]);
    let (words, rest) = bytes.as_chunks_mut::<16>();
    for word in words {
        *word = (u128::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    let narrow = u32::from_ne_bytes(key);
    let (words, rest) = rest.as_chunks_mut::<4>();
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ narrow).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(key) {
        *byte ^= key;
    }
}

/// Returns the key rotated by `count` bytes.
#[inline]
pub(super) const fn rotate_key(key: MaskKey, count: usize) -> MaskKey {
    let [a, b, c, d] = key;
    match count % 4 {
        0 => key,
        1 => [b, c, d, a],
        2 => [c, d, a, b],
        _ => [d, a, b, c],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_is_equal_at_any_length_and_rotation() {
        let key = [0x37, 0xfa, 0x21, 0x3d];
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..100 {
            for start in 0..5 {
                let plain = &bytes[start..start + length];
                let key = rotate_key(key, start);
                let mut masked = plain.to_vec();
                apply_mask(&mut masked, key);
                let expected = plain.iter().enumerate().map(|(at, byte)| byte ^ key[at % 4]);
                assert!(masked.iter().copied().eq(expected), "{length} from {start}");
                apply_mask(&mut masked, key);
                assert_eq!(masked, plain);
            }
        }
    }

    #[test]
    fn rotated_key_starts_at_next_byte() {
        let key = [1, 2, 3, 4];
        for count in 0..9 {
            assert_eq!(rotate_key(key, count), std::array::from_fn(|at| key[(at + count) % 4]));
        }
    }
}
