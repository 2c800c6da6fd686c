//! Newline-delimited JSON: the framing of stdio and TCP (MCP 2026-07-28 basic/transports/stdio,
//! "custom byte-stream transports"; seed 001, sections 1 and 2).
//!
//! A line ends with `\n`, `\r\n` or `\r`; empty lines are ignored. What it keeps true: bytes are
//! scanned once; a line inside one arrival is never copied; an idle reader holds no memory; a line
//! that outgrows its limit is refused as soon as that is known, before the rest is buffered, and
//! is then skipped to its end.

use memchr::memchr2;

/// Bytes kept free behind an assembled line, so that a parser may read in whole vectors.
pub const PADDING: usize = 64;

/// What the next bytes of a stream are.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Line {
    /// A whole line, found inside the arrival itself.
    Inside {
        /// Where it begins in the arrival.
        start: usize,
        /// Where it ends, without its terminator.
        end: usize,
    },
    /// A whole line that came in several arrivals: fetch it with [`LineReader::take`].
    Assembled,
    /// A line has outgrown the limit. Reported once; its remaining bytes are skipped.
    TooLarge,
    /// The arrival is used up.
    NeedMore,
}

/// Cuts one stream into lines.
#[derive(Debug, Default)]
pub struct LineReader {
    /// The beginning of a line whose end has not come.
    partial: Vec<u8>,
    skipping: bool,
}

impl LineReader {
    /// A reader at the beginning of a line, holding no memory.
    pub const fn new() -> Self {
        Self { partial: Vec::new(), skipping: false }
    }

    /// Looks at `arrival[*from..]` for the next line and moves `from` behind what was used.
    /// `spare` provides the memory when a line has to be kept (an empty buffer from a pool).
    ///
    /// Call it until it says [`Line::NeedMore`].
    #[inline]
    pub fn next(
        &mut self,
        arrival: &[u8],
        from: &mut usize,
        line_bytes_max: usize,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> Line {
        loop {
            let rest = &arrival[*from..];
            if rest.is_empty() {
                return Line::NeedMore;
            }
            let Some(length) = memchr2(b'\n', b'\r', rest) else {
                *from = arrival.len();
                return self.keep(rest, line_bytes_max, spare);
            };
            let start = *from;
            *from += length + 1;
            if self.skipping {
                self.skipping = false;
            } else if self.partial.is_empty() {
                if length > line_bytes_max {
                    return Line::TooLarge;
                }
                if length > 0 {
                    return Line::Inside { start, end: start + length };
                }
            } else if self.partial.len() + length > line_bytes_max {
                self.partial.clear();
                return Line::TooLarge;
            } else {
                self.partial.extend_from_slice(&rest[..length]);
                return Line::Assembled;
            }
        }
    }

    /// Keeps the beginning of a line whose end has not come.
    fn keep(
        &mut self,
        rest: &[u8],
        line_bytes_max: usize,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> Line {
        if self.skipping {
            return Line::NeedMore;
        }
        if self.partial.len() + rest.len() > line_bytes_max {
            self.partial = Vec::new();
            self.skipping = true;
            return Line::TooLarge;
        }
        if self.partial.capacity() == 0 {
            self.partial = spare();
        }
        self.partial.extend_from_slice(rest);
        Line::NeedMore
    }

    /// The line announced by [`Line::Assembled`], followed by [`PADDING`] bytes of zeros: the
    /// buffer and the length of the line in it.
    pub fn take(&mut self) -> (Vec<u8>, usize) {
        let mut line = std::mem::take(&mut self.partial);
        let length = line.len();
        line.resize(length + PADDING, 0);
        (line, length)
    }

    /// The last line of a stream that ended without a terminator, if there is one.
    pub fn finish(&mut self) -> Option<(Vec<u8>, usize)> {
        (!self.partial.is_empty()).then(|| self.take())
    }

    /// Forgets the line that has begun and skips what is still to come of it; hands its memory
    /// back. `None` where none has begun.
    pub fn skip(&mut self) -> Option<Vec<u8>> {
        if self.partial.is_empty() {
            return None;
        }
        self.skipping = true;
        Some(std::mem::take(&mut self.partial))
    }

    /// Bytes held for an unfinished line.
    pub const fn held_bytes(&self) -> usize {
        self.partial.len()
    }
}

/// Ends one outgoing text: the terminator of this framing.
#[inline]
pub fn end_line(out: &mut Vec<u8>) {
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `arrivals` one after the other and notes every line, `!` for one too large.
    fn read(arrivals: &[&[u8]], line_bytes_max: usize) -> Vec<String> {
        let mut reader = LineReader::new();
        let mut lines = Vec::new();
        for arrival in arrivals {
            let mut from = 0;
            loop {
                match reader.next(arrival, &mut from, line_bytes_max, Vec::new) {
                    Line::Inside { start, end } => {
                        lines.push(String::from_utf8_lossy(&arrival[start..end]).into_owned());
                    }
                    Line::Assembled => {
                        let (line, length) = reader.take();
                        assert!(line[length..].len() >= PADDING);
                        lines.push(String::from_utf8_lossy(&line[..length]).into_owned());
                    }
                    Line::TooLarge => lines.push("!".into()),
                    Line::NeedMore => break,
                }
            }
        }
        lines.extend(
            reader
                .finish()
                .map(|(line, length)| format!("{}$", String::from_utf8_lossy(&line[..length]))),
        );
        lines
    }

    #[test]
    fn all_three_terminators_end_a_line_and_empty_lines_are_ignored() {
        let lines = read(&[b"one\ntwo\r\nthree\r\n\n\r\r\nfour\rfive"], 100);
        assert_eq!(lines, ["one", "two", "three", "four", "five$"]);
    }

    #[test]
    fn a_stream_reads_the_same_wherever_it_is_split() {
        let stream = b"{\"a\":1}\r\n\n{\"b\":[2,3]}\r{}\n  x \n";
        let whole = read(&[stream], 100);
        for split in 0..=stream.len() {
            assert_eq!(read(&[&stream[..split], &stream[split..]], 100), whole, "split {split}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&bytes, 100), whole);
    }

    #[test]
    fn a_line_too_large_is_reported_once_and_the_next_one_is_read() {
        let stream = b"0123456789ab\nok\n0123456789\n0123456789a\nend\n";
        let expected = ["!", "ok", "0123456789", "!", "end"];
        for split in 0..=stream.len() {
            assert_eq!(read(&[&stream[..split], &stream[split..]], 10), expected, "{split}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(read(&bytes, 10), expected);
    }

    #[test]
    fn a_line_too_large_is_refused_before_its_rest_is_buffered() {
        let mut reader = LineReader::new();
        let mut from = 0;
        assert_eq!(reader.next(b"01234567", &mut from, 10, Vec::new), Line::NeedMore);
        from = 0;
        assert_eq!(reader.next(b"89abc", &mut from, 10, Vec::new), Line::TooLarge);
        assert_eq!(reader.held_bytes(), 0);
        for _ in 0..1000 {
            from = 0;
            assert_eq!(reader.next(&[b'x'; 100], &mut from, 10, Vec::new), Line::NeedMore);
        }
        assert_eq!(reader.held_bytes(), 0);
    }
}
