//! Splits a WebSocket message into JSON texts separated by line feeds.
//!
//! Empty lines are ignored. The last line feed is optional unless the delimiter is strict.

use std::ops::Range;

use memchr::memchr;

use super::limits::ProtocolError;

/// Iterator over the JSON texts of a message, as byte ranges.
#[derive(Clone, Debug)]
pub struct DelimitedMessages<'t> {
    text: &'t [u8],
    from: usize,
}

impl<'t> DelimitedMessages<'t> {
    /// Creates an iterator; the last text may lack its line feed.
    #[inline]
    pub const fn new(text: &'t [u8]) -> Self {
        Self { text, from: 0 }
    }

    /// Creates an iterator; the last text must have its line feed.
    ///
    /// # Errors
    ///
    /// [`ProtocolError::MISSING_DELIMITER`] if it has none.
    #[inline]
    pub const fn strict(text: &'t [u8]) -> Result<Self, ProtocolError> {
        match text {
            [.., b'\n'] => Ok(Self::new(text)),
            _ => Err(ProtocolError::MISSING_DELIMITER),
        }
    }
}

impl Iterator for DelimitedMessages<'_> {
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
