//! Newline-delimited JSON over TCP and stdio.

use memchr::memchr;

use super::{FramingError, MESSAGE_BYTES_MAX, ReadResult, WireEvent};

/// Splits a stream into lines.
#[derive(Clone, Debug, Default)]
pub struct LineReader {
    /// Bytes already searched without finding a newline.
    scanned: usize,
}

impl LineReader {
    pub(super) const fn is_at_message_start(&self) -> bool {
        self.scanned == 0
    }

    /// See [`super::Reader::read_next`]. Empty lines are consumed without an event.
    #[inline]
    pub fn read_next<'a>(&mut self, bytes: &'a [u8]) -> ReadResult<'a> {
        let Some(end) = bytes.get(self.scanned..).and_then(|rest| memchr(b'\n', rest)) else {
            self.scanned = bytes.len();
            return if bytes.len() > MESSAGE_BYTES_MAX {
                Err(FramingError("line longer than 64 MiB"))
            } else {
                Ok(None)
            };
        };
        let end = self.scanned + end;
        self.scanned = 0;
        let line = bytes[..end].trim_ascii();
        Ok(Some((end + 1, (!line.is_empty()).then_some(WireEvent::Message(line)))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_split_and_empty_ones_skipped() {
        let mut reader = LineReader::default();
        let bytes = b"{\"a\":1}\r\n\n{\"b\":2}\n{";
        assert_eq!(reader.read_next(bytes), Ok(Some((9, Some(WireEvent::Message(b"{\"a\":1}"))))));
        assert_eq!(reader.read_next(&bytes[9..]), Ok(Some((1, None))));
        assert_eq!(
            reader.read_next(&bytes[10..]),
            Ok(Some((8, Some(WireEvent::Message(b"{\"b\":2}")))))
        );
        assert_eq!(reader.read_next(&bytes[18..]), Ok(None));
        assert_eq!(reader.read_next(b"{}\n"), Ok(Some((3, Some(WireEvent::Message(b"{}"))))));
    }
}
