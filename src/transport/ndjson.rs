//! Newline-delimited JSON: the framing of stdio and TCP (MCP 2026-07-28 basic/transports/stdio,
//! "Custom byte-stream transports").
//!
//! A line ends with `\n` or `\r\n`; empty lines are ignored. Over stdio a bare `\r` ends a line,
//! too, if the bytes before it are a complete text; elsewhere it is white space. Bytes are scanned
//! once, those of a line with a bare `\r` over stdio twice; a line within one read is not copied;
//! an idle reader holds no buffer. A line over the limit is reported as soon as it exceeds it, and
//! then skipped to its end.

use std::mem::take;

use memchr::{memchr, memchr2_iter};

use corelane_base::pool::reserve_part;
use corelane_protocol::json::{PaddedBuffer, padding_of};
use corelane_protocol::message_head::MessageHead;

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
    /// A line exceeds the limit. Reported once; its remaining bytes are skipped. See
    /// [`LineReader::take_head`].
    TooLarge,
    /// All input is consumed.
    NeedMore,
}

/// Bytes at the start of a line over the limit in which its id is looked for.
const HEAD_BYTES: usize = 64 * 1024;

/// Splits a stream into lines.
#[derive(Debug, Default)]
pub struct LineReader {
    /// The incomplete line; allocated for the first one that arrives in pieces.
    partial: Option<Box<PartialLine>>,
}

/// The state of an incomplete line, of a line over the limit, or of one over stdio.
#[derive(Debug, Default)]
struct PartialLine {
    /// What of the line was read before.
    bytes: Vec<u8>,
    /// The rest of the line is skipped.
    is_skipped: bool,
    /// What the line over the limit is.
    head: MessageHead,
    /// What was read of the line in which a bare `\r` may be its end.
    scan: Option<TextScan>,
}

impl PartialLine {
    /// Returns where the line ends that goes on with `rest`.
    #[inline]
    fn find_line_end(&mut self, rest: &[u8]) -> Option<usize> {
        match &mut self.scan {
            Some(scan) if !self.is_skipped => scan.find_line_end(&self.bytes, rest),
            Some(_) | None => memchr(b'\n', rest),
        }
    }

    /// Forgets what was read of the line.
    fn reset_scan(&mut self) {
        self.scan = self.scan.take().map(|_| TextScan::default());
    }
}

/// A text that is read to find out whether it is complete.
#[derive(Debug, Default)]
struct TextScan {
    /// Bytes of the line that were read.
    bytes: usize,
    depth: usize,
    is_in_string: bool,
    is_escaped: bool,
    has_begun: bool,
}

impl TextScan {
    fn read(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len();
        for byte in bytes {
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' => self.is_escaped = self.is_in_string,
                b'"' => self.is_in_string = !self.is_in_string,
                _ if self.is_in_string => {}
                b'{' | b'[' => {
                    self.depth += 1;
                    self.has_begun = true;
                }
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }

    const fn is_complete(&self) -> bool {
        self.has_begun && self.depth == 0 && !self.is_in_string
    }

    /// Returns where the line ends that begins with `partial` and goes on with `rest`.
    fn find_line_end(&mut self, partial: &[u8], rest: &[u8]) -> Option<usize> {
        for found in memchr2_iter(b'\n', b'\r', rest) {
            if rest[found] == b'\r' {
                self.read(partial.get(self.bytes..).unwrap_or_default());
                let unread = self.bytes.saturating_sub(partial.len());
                self.read(&rest[unread..found]);
                if !self.is_complete() {
                    continue;
                }
            }
            *self = Self::default();
            return Some(found);
        }
        None
    }
}

impl LineReader {
    /// Creates a reader at the start of a line, without a buffer.
    pub const fn new() -> Self {
        Self { partial: None }
    }

    /// Lets a bare `\r` end a line, too, if the bytes before it are a complete text.
    pub fn end_at_carriage_returns(&mut self) {
        self.partial.get_or_insert_default().scan = Some(TextScan::default());
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
            let found = match &mut self.partial {
                None => memchr(b'\n', rest),
                Some(partial) => partial.find_line_end(rest),
            };
            let Some(found) = found else {
                *from = arrival.len();
                return self.store_partial(rest, line_bytes_max, spare);
            };
            let start = *from;
            *from += found + 1;
            let line = &rest[..found];
            let length = line.strip_suffix(b"\r").unwrap_or(line).len();
            if let Some(partial) = &mut self.partial {
                if take(&mut partial.is_skipped) {
                    continue;
                }
                if !partial.bytes.is_empty() {
                    // The line may end in another read than its `\r`.
                    let padding = padding_of(partial.bytes.len() + line.len());
                    let length_max = line_bytes_max.saturating_add(padding);
                    reserve_part(&mut partial.bytes, line.len() + padding, length_max);
                    partial.bytes.extend_from_slice(line);
                    if partial.bytes.last() == Some(&b'\r') {
                        partial.bytes.pop();
                    }
                    if partial.bytes.len() > line_bytes_max {
                        return self.reject_ended(&[], rest[found]);
                    }
                    if !partial.bytes.is_empty() {
                        return LineEvent::Assembled;
                    }
                    continue;
                }
            }
            if length > line_bytes_max {
                return self.reject_ended(line, rest[found]);
            }
            if length > 0 {
                return LineEvent::InPlace { start, end: start + length };
            }
        }
    }

    /// Rejects a line over the limit that has ended with `terminator`. After a bare `\r` the rest
    /// up to `\n` is skipped, as if the limit had been exceeded before it.
    #[cold]
    fn reject_ended(&mut self, rest: &[u8], terminator: u8) -> LineEvent {
        let event = self.reject(rest);
        if terminator == b'\r' {
            self.skip_rest();
        }
        event
    }

    /// Reads the head of a line over the limit, of which `rest` is not stored, and discards it.
    #[cold]
    fn reject(&mut self, rest: &[u8]) -> LineEvent {
        let partial = self.partial.get_or_insert_default();
        let mut start = take(&mut partial.bytes);
        start.truncate(HEAD_BYTES);
        start.extend_from_slice(&rest[..rest.len().min(HEAD_BYTES - start.len())]);
        partial.head = MessageHead::read(&start);
        partial.reset_scan();
        LineEvent::TooLarge
    }

    /// Skips the rest of the line.
    #[cold]
    fn skip_rest(&mut self) {
        let partial = self.partial.get_or_insert_default();
        partial.is_skipped = true;
        partial.reset_scan();
    }

    /// Returns what can be read of the line of the last [`LineEvent::TooLarge`]: its members within
    /// the first 64 KiB.
    #[cold]
    pub fn take_head(&mut self) -> MessageHead {
        self.partial.as_mut().map(|partial| take(&mut partial.head)).unwrap_or_default()
    }

    /// Stores an incomplete line.
    fn store_partial(
        &mut self,
        rest: &[u8],
        line_bytes_max: usize,
        spare: impl FnOnce() -> Vec<u8>,
    ) -> LineEvent {
        let partial = self.partial.get_or_insert_default();
        if partial.is_skipped {
            return LineEvent::NeedMore;
        }
        // The last byte may be the `\r` of the end.
        let length = rest.strip_suffix(b"\r").unwrap_or(rest).len();
        if partial.bytes.len() + length > line_bytes_max {
            self.skip_rest();
            return self.reject(rest);
        }
        if partial.bytes.capacity() == 0 {
            partial.bytes = spare();
        }
        let length_max = line_bytes_max.saturating_add(padding_of(line_bytes_max));
        reserve_part(&mut partial.bytes, rest.len(), length_max);
        partial.bytes.extend_from_slice(rest);
        LineEvent::NeedMore
    }

    /// Returns the line announced by [`LineEvent::Assembled`].
    pub fn take(&mut self) -> PaddedBuffer {
        let partial = self.partial.as_mut();
        PaddedBuffer::new(partial.map(|partial| take(&mut partial.bytes)).unwrap_or_default())
    }

    /// Returns the last line of a stream that ended without a terminator, if any.
    pub fn finish(&mut self) -> Option<PaddedBuffer> {
        let bytes = &mut self.partial.as_mut()?.bytes;
        if bytes.last() == Some(&b'\r') {
            bytes.pop();
        }
        (!bytes.is_empty()).then(|| self.take())
    }

    /// Discards the incomplete line and skips the rest of it. Returns its buffer, or `None` if no
    /// line is incomplete.
    pub fn skip_line(&mut self) -> Option<Vec<u8>> {
        let partial = self.partial.as_mut().filter(|partial| !partial.bytes.is_empty())?;
        let bytes = take(&mut partial.bytes);
        self.skip_rest();
        Some(bytes)
    }

    /// Returns the buffer of an incomplete line, which may be replaced by one with the same bytes.
    #[cold]
    pub fn buffer_mut(&mut self) -> Option<&mut Vec<u8>> {
        self.partial.as_mut().map(|partial| &mut partial.bytes)
    }

    /// Returns the bytes held for an incomplete line.
    pub const fn held_bytes(&self) -> usize {
        self.held().len()
    }

    /// Returns the capacity of the buffer of an incomplete line.
    pub const fn held_capacity(&self) -> usize {
        match &self.partial {
            Some(partial) => partial.bytes.capacity(),
            None => 0,
        }
    }

    /// Returns what was read of an incomplete line.
    pub const fn held(&self) -> &[u8] {
        match &self.partial {
            Some(partial) => partial.bytes.as_slice(),
            None => &[],
        }
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
        read_with(LineReader::new(), arrivals, line_bytes_max)
    }

    fn read_with(mut reader: LineReader, arrivals: &[&[u8]], line_bytes_max: usize) -> Vec<String> {
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
    fn carriage_return_ends_line_before_newline_only() {
        let lines = read(&[b"one\ntwo\r\nthree\r\n\n\r\nfour\r4\nfive"], 100);
        assert_eq!(lines, ["one", "two", "three", "four\r4", "five$"]);
    }

    #[test]
    fn carriage_return_ends_complete_text_over_stdio() {
        let stream =
            b"{\"a\":\"}\\\"\"}\r{\"b\":\r[1,\r2]}\r\n[\"{\r\"]\n\r\r\n7\r{}\r{}\r\r\n}\r{\n";
        let expected =
            ["{\"a\":\"}\\\"\"}", "{\"b\":\r[1,\r2]}", "[\"{\r\"]", "\r", "7\r{}", "{}", "}\r{"];
        for split in 0..=stream.len() {
            let mut reader = LineReader::new();
            reader.end_at_carriage_returns();
            let arrivals = [&stream[..split], &stream[split..]];
            assert_eq!(read_with(reader, &arrivals, 100), expected, "split {split}");
        }
    }

    #[test]
    fn line_of_limit_may_end_with_carriage_return() {
        let stream = b"0123456789\r\n0123456789a\r\n0123456789\rb\nend\n";
        for split in 0..=stream.len() {
            let lines = read(&[&stream[..split], &stream[split..]], 10);
            assert_eq!(lines, ["0123456789", "!", "!", "end"], "split {split}");
        }
    }

    #[test]
    fn oversized_line_keeps_its_head() {
        let line = br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":"bcdef"}}"#;
        for split in 0..line.len() {
            let mut reader = LineReader::new();
            let mut event = LineEvent::NeedMore;
            for arrival in [&line[..split], &line[split..]] {
                if event == LineEvent::NeedMore {
                    event = reader.next(arrival, &mut 0, 40, Vec::new);
                }
            }
            assert_eq!(event, LineEvent::TooLarge);
            assert_eq!(reader.take_head().id(), Some(7_i64.into()), "split {split}");
            assert_eq!((reader.take_head().id(), reader.held_bytes()), (None, 0));
        }
    }

    #[test]
    fn split_stream_reads_same_lines() {
        let stream = b"{\"a\":1}\r\n\n{\"b\":[2,3]}\r\r\n{}\n  x \n";
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
