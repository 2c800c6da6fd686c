//! Several JSON texts in one message, each ended by a line feed (seed 001, section 4).
//!
//! What it keeps true: texts are told apart in one pass without memory; the line feed behind the
//! last may be missing unless the delimiter is strict; empty lines are none.

use std::ops::Range;

use memchr::memchr;

use super::limits::Fault;

/// The JSON texts of one message, as ranges of it.
#[derive(Clone, Debug)]
pub struct Messages<'t> {
    text: &'t [u8],
    from: usize,
}

impl<'t> Messages<'t> {
    /// The texts in `text`, the last with or without its line feed.
    #[inline]
    pub const fn new(text: &'t [u8]) -> Self {
        Self { text, from: 0 }
    }

    /// The texts in `text`, the last with its line feed.
    ///
    /// # Errors
    ///
    /// [`Fault::NO_DELIMITER`], where it has none.
    #[inline]
    pub const fn strict(text: &'t [u8]) -> Result<Self, Fault> {
        match text {
            [.., b'\n'] => Ok(Self::new(text)),
            _ => Err(Fault::NO_DELIMITER),
        }
    }
}

impl Iterator for Messages<'_> {
    type Item = Range<usize>;

    #[inline]
    fn next(&mut self) -> Option<Range<usize>> {
        while self.from < self.text.len() {
            let start = self.from;
            let rest = &self.text[start..];
            let length = memchr(b'\n', rest).unwrap_or(rest.len());
            self.from = start + length + 1;
            let line = &rest[..length];
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if !line.is_empty() {
                return Some(start..start + line.len());
            }
        }
        None
    }
}
