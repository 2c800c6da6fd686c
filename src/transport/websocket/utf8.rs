//! Whether text that comes in pieces is UTF-8 (RFC 3629; RFC 6455, section 8.1).
//!
//! What it keeps true: it fails at the first piece whose bytes cannot become text whatever follows,
//! not at the end of the message; a character that is cut between pieces costs no memory but the
//! three bytes of it that may be awaited.

use simdutf8::compat;

use super::frame::short;

/// Text so far.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Checker {
    /// The beginning of a character whose end has not come.
    begun: [u8; 3],
    begun_bytes: u8,
}

impl Checker {
    /// Takes the next piece; says whether what has come can still become text.
    #[inline]
    #[must_use]
    pub fn push(&mut self, mut piece: &[u8]) -> bool {
        if self.begun_bytes > 0 {
            match self.complete(piece) {
                Some(used) => piece = &piece[used..],
                None => return false,
            }
        }
        match compat::from_utf8(piece) {
            Ok(_) => true,
            Err(error) if error.error_len().is_none() => {
                let rest = &piece[error.valid_up_to()..];
                self.begun[..rest.len()].copy_from_slice(rest);
                self.begun_bytes = short(rest.len());
                true
            }
            Err(_) => false,
        }
    }

    /// Whether no character is cut.
    #[inline]
    pub const fn is_whole(&self) -> bool {
        self.begun_bytes == 0
    }

    /// Goes on with the character that has begun; says how many bytes of `piece` it took. None
    /// where it cannot become one.
    fn complete(&mut self, piece: &[u8]) -> Option<usize> {
        let mut character = [0; 4];
        let mut length = usize::from(self.begun_bytes);
        character[..length].copy_from_slice(&self.begun[..length]);
        for (used, &byte) in piece.iter().enumerate() {
            character[length] = byte;
            length += 1;
            match std::str::from_utf8(&character[..length]) {
                Ok(_) => {
                    self.begun_bytes = 0;
                    return Some(used + 1);
                }
                Err(error) if error.error_len().is_some() => return None,
                Err(_) => {}
            }
        }
        self.begun.copy_from_slice(&character[..3]);
        self.begun_bytes = short(length);
        Some(piece.len())
    }
}

/// Whether a whole text is UTF-8: for whoever does not hand it to a parser that looks.
#[inline]
pub fn is_text(bytes: &[u8]) -> bool {
    simdutf8::basic::from_utf8(bytes).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where text in pieces is found to be none: the byte that was pushed last, or the end.
    fn failing(bytes: &[u8], cut: usize) -> Option<usize> {
        let mut checker = Checker::default();
        let (start, end) = bytes.split_at(cut);
        if !checker.push(start) {
            return Some(cut);
        }
        (!checker.push(end) || !checker.is_whole()).then_some(bytes.len())
    }

    #[test]
    fn every_cut_is_judged_as_the_whole_is() {
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
                let is_none = std::str::from_utf8(bytes).is_err();
                assert_eq!(failing(bytes, cut).is_some(), is_none, "{bytes:x?} {cut}");
            }
            assert_eq!(is_text(bytes), std::str::from_utf8(bytes).is_ok());
        }
    }

    #[test]
    fn single_bytes_fail_as_early_as_the_standard_library_knows_it() {
        for first in 0..=255_u8 {
            for second in [0x00, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xff] {
                for third in [0x41, 0x80, 0xbf, 0xc2] {
                    let bytes = [first, second, third];
                    let mut checker = Checker::default();
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
