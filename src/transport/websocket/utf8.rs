//! Incremental UTF-8 validation (RFC 3629; RFC 6455, section 8.1).
//!
//! Fails at the first piece that no continuation can make valid. Stores at most three bytes of a
//! split character.

use simdutf8::compat;

use super::frame::to_u8;

/// Validates text that arrives in pieces.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Utf8Validator {
    /// The bytes of an incomplete character.
    partial: [u8; 3],
    partial_length: u8,
}

impl Utf8Validator {
    /// Validates the next piece. Returns whether the text can still become valid.
    #[inline]
    #[must_use]
    pub fn push(&mut self, mut piece: &[u8]) -> bool {
        if self.partial_length > 0 {
            match self.complete_character(piece) {
                Some(used) => piece = &piece[used..],
                None => return false,
            }
        }
        match compat::from_utf8(piece) {
            Ok(_) => true,
            Err(error) if error.error_len().is_none() => {
                let rest = &piece[error.valid_up_to()..];
                self.partial[..rest.len()].copy_from_slice(rest);
                self.partial_length = to_u8(rest.len());
                true
            }
            Err(_) => false,
        }
    }

    /// Returns whether the text ends with a complete character.
    #[inline]
    pub const fn is_complete(self) -> bool {
        self.partial_length == 0
    }

    /// Completes a split character. Returns the number of bytes used of `piece`, or `None` if the
    /// character is invalid.
    fn complete_character(&mut self, piece: &[u8]) -> Option<usize> {
        let mut character = [0; 4];
        let mut length = usize::from(self.partial_length);
        character[..length].copy_from_slice(&self.partial[..length]);
        for (used, &byte) in piece.iter().enumerate() {
            character[length] = byte;
            length += 1;
            match std::str::from_utf8(&character[..length]) {
                Ok(_) => {
                    self.partial_length = 0;
                    return Some(used + 1);
                }
                Err(error) if error.error_len().is_some() => return None,
                Err(_) => {}
            }
        }
        self.partial.copy_from_slice(&character[..3]);
        self.partial_length = to_u8(length);
        Some(piece.len())
    }
}

/// Returns whether a complete text is valid UTF-8.
#[inline]
pub fn is_utf8(bytes: &[u8]) -> bool {
    simdutf8::basic::from_utf8(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of bytes pushed when validation failed.
    fn failing(bytes: &[u8], cut: usize) -> Option<usize> {
        let mut checker = Utf8Validator::default();
        let (start, end) = bytes.split_at(cut);
        if !checker.push(start) {
            return Some(cut);
        }
        (!checker.push(end) || !checker.is_complete()).then_some(bytes.len())
    }

    #[test]
    fn utf8_split_anywhere_validates_like_whole() {
        let samples: [&[u8]; 12] = [
            b"",
            b"plain",
            "κόσμε € 😀 \u{10ffff}".as_bytes(),
            b"a\x80",
            b"\xc1\xbf",
            b"\xe0\x80\xaf",
            b"\xed\xbf\xbf",
            b"\xf0\x80\x80\x80",
            b"\xf4\x90\x80\x80",
            b"\xf5\x80\x80\x80",
            b"\xf0\x9f\x98",
            b"\xe2\x82a",
        ];
        for bytes in samples {
            for cut in 0..=bytes.len() {
                let is_invalid = std::str::from_utf8(bytes).is_err();
                assert_eq!(failing(bytes, cut).is_some(), is_invalid, "{bytes:x?} {cut}");
            }
            assert_eq!(is_utf8(bytes), std::str::from_utf8(bytes).is_ok());
        }
    }

    #[test]
    fn utf8_error_is_found_at_earliest_byte() {
        for first in 0..=255_u8 {
            for second in [0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff] {
                for third in [0x41, 0x80, 0xbf, 0xc2] {
                    let bytes = [first, second, third];
                    let mut checker = Utf8Validator::default();
                    let failed = (1..=3).find(|&length| !checker.push(&bytes[length - 1..length]));
                    let expected = (1..=3).find(|&length| {
                        let result = std::str::from_utf8(&bytes[..length]);
                        result.is_err_and(|error| error.error_len().is_some())
                    });
                    assert_eq!(failed, expected, "{bytes:x?}");
                }
            }
        }
    }
}
