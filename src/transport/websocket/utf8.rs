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
