//! Newline-delimited JSON: the framing of stdio and TCP (MCP 2026-07-28 basic/transports/stdio,
//! "Custom byte-stream transports").
//!
//! A line ends with `\n`, `\r\n` or `\r`; empty lines are ignored. Bytes are scanned once; a line
//! within one read is not copied; an idle reader holds no memory. A line over the limit is reported
//! as soon as it exceeds it, and then skipped to its end.

use crate::protocol::json::PaddedBuffer;
use memchr::memchr2;

/// The result of reading the next line.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LineEvent {
    /// A complete line within the input.
    InPlace {
        /// Start of the line in the input.
        start: usize,
        /// End of the line, without its terminator.
        end: usize,
    },
    /// A complete line from several reads: call [`LineReader::take`].
    Assembled,
    /// A line exceeds the limit. Reported once; its remaining bytes are skipped.
    TooLarge,
    /// All input is consumed.
    NeedMore,
}

/// Splits a stream into lines.
#[derive(Debug, Default)]
pub struct LineReader {
    /// The incomplete line.
    partial: Vec<u8>,
    is_skipping: bool,
}

impl LineReader {
    /// Creates a reader at the start of a line, without a buffer.
    pub const fn new() -> Self {
        Self { partial: Vec::new(), is_skipping: false }
    }

    /// Reads the next line from `arrival[*from..]` and advances `from`. `spare` provides an empty
    /// buffer if an incomplete line has to be stored.
    ///
    /// Call until it returns [`LineEvent::NeedMore`].
    #[inline]
    pub fn next(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        line_bytes_max: usize,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> LineEvent {
        loop {
            let rest = &arrival[*from..];
            if rest.is_empty() {
                return LineEvent::NeedMore;
            }
            let Some(length) = memchr2(b'\n', b'\r', rest) else {
                *from = arrival.len();
                return self.store_partial(rest, line_bytes_max, spare);
            };
            let start = *from;
            *from += length + 1;
            if self.is_skipping {
                self.is_skipping = false;
            } else if self.partial.is_empty() {
                if length > line_bytes_max {
                    return LineEvent::TooLarge;
                }
                if length > 0 {
                    return LineEvent::InPlace { start, end: start + length };
                }
            } else if self.partial.len() + length > line_bytes_max {
                self.partial.clear();
                return LineEvent::TooLarge;
            } else {
                self.partial.extend_from_slice(&rest[..length]);
                return LineEvent::Assembled;
            }
        }
    }

    /// Stores an incomplete line.
    fn store_partial(
        &mut self,
        rest: &[u8],
        line_bytes_max: usize,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> LineEvent {
        if self.is_skipping {
            return LineEvent::NeedMore;
        }
        if self.partial.len() + rest.len() > line_bytes_max {
            self.partial = Vec::new();
            self.is_skipping = true;
            return LineEvent::TooLarge;
        }
        if self.partial.capacity() == 0 {
            self.partial = spare();
        }
        self.partial.extend_from_slice(rest);
        LineEvent::NeedMore
    }

    /// Returns the line announced by [`LineEvent::Assembled`].
    pub fn take(&mut self) -> PaddedBuffer {
        PaddedBuffer::new(std::mem::take(&mut self.partial))
    }

    /// Returns the last line of a stream that ended without a terminator, if any.
    pub fn finish(&mut self) -> Option<PaddedBuffer> {
        (!self.partial.is_empty()).then(|| self.take())
    }

    /// Discards the incomplete line and skips the rest of it. Returns its buffer, or `None` if no
    /// line is incomplete.
    pub fn skip_line(&mut self) -> Option<Vec<u8>> {
        if self.partial.is_empty() {
            return None;
        }
        self.is_skipping = true;
        Some(std::mem::take(&mut self.partial))
    }

    /// Returns what has arrived of an incomplete line that is not skipped.
    pub fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Returns the bytes held for an incomplete line.
    pub const fn held_bytes(&self) -> usize {
        self.partial.len()
    }
}

/// Appends the line terminator to an outgoing text.
#[inline]
pub fn end_line(out: &mut Vec<u8>) {
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `arrivals` one by one and collects the lines; `!` stands for one that is too large.
    fn read(arrivals: &[&[u8]], line_bytes_max: usize) -> Vec<String> {
        let mut reader = LineReader::new();
        let mut lines = Vec::new();
        for arrival in arrivals {
            let mut from = 0;
            loop {
                match reader.next(arrival, &mut from, line_bytes_max, Vec::new) {
                    LineEvent::InPlace { start, end } => {
                        lines.push(String::from_utf8_lossy(&arrival[start..end]).into_owned());
                    }
                    LineEvent::Assembled => {
                        let line = reader.take();
                        lines.push(String::from_utf8_lossy(line.as_bytes()).into_owned());
                    }
                    LineEvent::TooLarge => lines.push("!".into()),
                    LineEvent::NeedMore => break,
                }
            }
        }
        lines.extend(
            reader.finish().map(|line| format!("{}$", String::from_utf8_lossy(line.as_bytes()))),
        );
        lines
    }

    #[test]
    fn all_line_terminators_end_a_line() {
        let lines = read(&[b"one\ntwo\r\nthree\r\n\n\r\r\nfour\rfive"], 100);
        assert_eq!(lines, ["one", "two", "three", "four", "five$"]);
    }

    #[test]
    fn split_stream_reads_same_lines() {
        let stream = b"{\"a\":1}\r\n\n{\"b\":[2,3]}\r{}\n  x \n";
        let whole = read(&[stream], 100);
        for split in 0..=stream.len() {
            assert_eq!(read(&[&stream[..split], &stream[split..]], 100), whole, "split {split}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&bytes, 100), whole);
    }

    #[test]
    fn oversized_line_is_reported_once_and_skipped() {
        let stream = b"0123456789ab\nok\n0123456789\n0123456789a\nend\n";
        let expected = ["!", "ok", "0123456789", "!", "end"];
        for split in 0..=stream.len() {
            assert_eq!(read(&[&stream[..split], &stream[split..]], 10), expected, "{split}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&bytes, 10), expected);
    }

    #[test]
    fn oversized_line_is_refused_before_buffering() {
        let mut reader = LineReader::new();
        let mut from = 0;
        assert_eq!(reader.next(b"01234567", &mut from, 10, Vec::new), LineEvent::NeedMore);
        from = 0;
        assert_eq!(reader.next(b"89abc", &mut from, 10, Vec::new), LineEvent::TooLarge);
        assert_eq!(reader.held_bytes(), 0);
        for _ in 0..1000 {
            from = 0;
            assert_eq!(reader.next(&[b'x'; 100], &mut from, 10, Vec::new), LineEvent::NeedMore);
        }
        assert_eq!(reader.held_bytes(), 0);
    }
}
