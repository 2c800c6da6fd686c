//! Lines of JSON: TCP and standard input and output.

use memchr::memchr;

use super::{Broken, Heard, Look, MESSAGE_BYTES_MAX};

/// Cuts a stream into lines.
#[derive(Clone, Debug, Default)]
pub struct LineReader {
    /// Bytes that were looked at before and hold no newline.
    scanned: usize,
}

impl LineReader {
    pub(super) const fn is_at_start(&self) -> bool {
        self.scanned == 0
    }

    /// See [`super::Reader::look`]. Empty lines are done with and say nothing.
    #[inline]
    pub fn look<'a>(&mut self, bytes: &'a [u8]) -> Look<'a> {
        let Some(end) = bytes.get(self.scanned..).and_then(|rest| memchr(b'\n', rest)) else {
            self.scanned = bytes.len();
            return if bytes.len() > MESSAGE_BYTES_MAX {
                Err(Broken("a line without end"))
            } else {
                Ok(None)
            };
        };
        let end = self.scanned + end;
        self.scanned = 0;
        let line = bytes[..end].trim_ascii();
        Ok(Some((end + 1, (!line.is_empty()).then_some(Heard::Text(line)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_and_empty_ones_say_nothing() {
        let mut reader = LineReader::default();
        let bytes = b"{\"a\":1}\r\n\n{\"b\":2}\n{";
        assert_eq!(reader.look(bytes), Ok(Some((9, Some(Heard::Text(b"{\"a\":1}"))))));
        assert_eq!(reader.look(&bytes[9..]), Ok(Some((1, None))));
        assert_eq!(reader.look(&bytes[10..]), Ok(Some((8, Some(Heard::Text(b"{\"b\":2}"))))));
        assert_eq!(reader.look(&bytes[18..]), Ok(None));
        assert_eq!(reader.look(b"{}\n"), Ok(Some((3, Some(Heard::Text(b"{}"))))));
    }
}
