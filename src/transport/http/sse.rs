//! Server-sent events, and the chunks in which they travel.
//!
//! An event is written like an answer: [`begin_event`] appends what stands before its data, the
//! caller appends one JSON text, [`end_event`] ends it. What it keeps true: every call appends
//! whole events only, each in one chunk of its own, so that whatever a proxy passes on can be read
//! at once. The size of a chunk stands in eight hexadecimal digits that are put in at the end.
//!
//! Data is one line: a JSON text as the writers of the protocol leave it has no raw line ends.
//! This page keeps no log and draws no ids.
//!
//! Source: WHATWG HTML, section 9.2 "Server-sent events"; RFC 9112, section 7.1; MCP 2025-11-25
//! basic/transports, "Resumability and Redelivery"; MCP 2024-11-05 basic/transports, "HTTP with
//! SSE".

use std::fmt;

use super::fields::push_value;
use crate::protocol::json::write;

/// Names an event of a session: its stream, and its number there. Written as `3-17`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct EventId {
    /// Which stream of the session.
    pub stream: u32,
    /// Which event of the stream.
    pub number: u32,
}

impl EventId {
    /// Reads what a client gave back in `Last-Event-ID`; `None` where we would not have written
    /// it so.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|&byte| byte == b'-')?;
        let (stream, number) = (parse_number(&text[..dash])?, parse_number(&text[dash + 1..])?);
        Some(Self { stream, number })
    }

    fn write_line(self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"id: ");
        write::unsigned(out, u64::from(self.stream));
        out.push(b'-');
        write::unsigned(out, u64::from(self.number));
        out.push(b'\n');
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.stream, self.number)
    }
}

/// How a stream is cut: what its head said.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Framing {
    /// Whether it comes in chunks (HTTP/1.1) or as it is, until the connection ends (HTTP/1.0).
    pub is_chunked: bool,
}

/// Where an event that has begun stands in its buffer.
#[derive(Debug)]
#[must_use = "an event that was begun has to be ended"]
pub struct EventMark {
    chunk: Chunk,
    data: usize,
}

/// Appends what stands before the data of a message: the chunk, the id if there is one, the type.
#[inline]
pub fn begin_event(out: &mut Vec<u8>, framing: Framing, id: Option<EventId>) -> EventMark {
    let chunk = Chunk::begin(out, framing);
    if let Some(id) = id {
        id.write_line(out);
    }
    out.extend_from_slice(b"event: message\ndata: ");
    EventMark { chunk, data: out.len() }
}

/// Ends an event: what was appended since it began is its data, one line.
///
/// # Panics
///
/// If a chunk has 4 GiB or more; with debug assertions also if the data has a raw line end.
#[inline]
pub fn end_event(out: &mut Vec<u8>, mark: EventMark) {
    debug_assert!(memchr::memchr2(b'\n', b'\r', &out[mark.data..]).is_none(), "more than a line");
    out.extend_from_slice(b"\n\n");
    mark.chunk.end(out);
}

/// Appends a message that is written already.
pub fn event(out: &mut Vec<u8>, framing: Framing, id: Option<EventId>, text: &[u8]) {
    let mark = begin_event(out, framing, id);
    out.extend_from_slice(text);
    end_event(out, mark);
}

/// Appends the first event of a stream that may be resumed: an id, no data, and the time after
/// which a client comes back, in milliseconds (2025-11-25; SEP-1699).
pub fn prime(out: &mut Vec<u8>, framing: Framing, id: EventId, retry_ms: Option<u32>) {
    let chunk = Chunk::begin(out, framing);
    id.write_line(out);
    if let Some(retry_ms) = retry_ms {
        write_retry(out, retry_ms);
    }
    out.extend_from_slice(b"data: \n\n");
    chunk.end(out);
}

/// Appends the time after which a client comes back once the stream has ended, in milliseconds.
pub fn retry(out: &mut Vec<u8>, framing: Framing, retry_ms: u32) {
    let chunk = Chunk::begin(out, framing);
    write_retry(out, retry_ms);
    out.push(b'\n');
    chunk.end(out);
}

/// Appends a comment: it keeps a quiet connection alive and means nothing.
pub fn comment(out: &mut Vec<u8>, framing: Framing) {
    let chunk = Chunk::begin(out, framing);
    out.extend_from_slice(b": keep-alive\n\n");
    chunk.end(out);
}

/// Appends the first event of a stream of 2024-11-05: where the client is to post.
pub fn endpoint(out: &mut Vec<u8>, framing: Framing, uri: &str) {
    let chunk = Chunk::begin(out, framing);
    out.extend_from_slice(b"event: endpoint\ndata: ");
    push_value(out, uri.as_bytes());
    out.extend_from_slice(b"\n\n");
    chunk.end(out);
}

/// Ends a stream: the last chunk. A stream without chunks is ended by closing the connection.
pub fn end_stream(out: &mut Vec<u8>, framing: Framing) {
    if framing.is_chunked {
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

fn write_retry(out: &mut Vec<u8>, retry_ms: u32) {
    out.extend_from_slice(b"retry: ");
    write::unsigned(out, u64::from(retry_ms));
    out.push(b'\n');
}

/// A chunk that has begun, or none where the stream has no chunks.
#[derive(Debug)]
struct Chunk {
    /// Where what it carries begins.
    content: Option<usize>,
}

impl Chunk {
    #[inline]
    fn begin(out: &mut Vec<u8>, framing: Framing) -> Self {
        if !framing.is_chunked {
            return Self { content: None };
        }
        out.extend_from_slice(b"00000000\r\n");
        Self { content: Some(out.len()) }
    }

    #[inline]
    fn end(self, out: &mut Vec<u8>) {
        let Some(content) = self.content else {
            return;
        };
        let size = u32::try_from(out.len() - content).expect("a message is far below 4 GiB");
        let place = content - SIZE_DIGITS - b"\r\n".len();
        for (digit, place) in out[place..place + SIZE_DIGITS].iter_mut().rev().enumerate() {
            *place = b"0123456789abcdef"[(size >> (4 * digit)) as usize & 0xf];
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// The number that `text` is: digits without a leading zero.
fn parse_number(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 1 && text[0] == b'0' {
        return None;
    }
    text.iter().try_fold(0_u32, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| number.checked_mul(10)?.checked_add(u32::from(digit))).flatten()
    })
}

/// Hexadecimal digits of the size of a chunk.
const SIZE_DIGITS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_stands_in_a_chunk_of_its_size() {
        let (mut chunked, mut plain) = (Vec::new(), Vec::new());
        let id = Some(EventId { stream: 3, number: 17 });
        event(&mut chunked, Framing { is_chunked: true }, id, b"{}");
        event(&mut plain, Framing { is_chunked: false }, id, b"{}");
        assert_eq!(plain, b"id: 3-17\nevent: message\ndata: {}\n\n");
        let expected = b"00000022\r\nid: 3-17\nevent: message\ndata: {}\n\n\r\n";
        assert_eq!(plain.len(), 0x22);
        assert_eq!(chunked, expected);
    }

    #[test]
    fn an_id_is_read_only_in_the_form_in_which_it_was_written() {
        let id = EventId { stream: 0, number: u32::MAX };
        assert_eq!(EventId::parse(b"0-4294967295"), Some(id));
        assert_eq!(id.to_string(), "0-4294967295");
        for text in [
            "",
            "-",
            "1",
            "1-",
            "-1",
            "01-2",
            "1-02",
            "+1-2",
            "1-+2",
            " 1-2",
            "1-2 ",
            "1--2",
            "1-2-3",
            "a-b",
            "0-4294967296",
            "4294967296-0",
            "1-99999999999999999999",
            "1-0x2",
        ] {
            assert_eq!(EventId::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    #[should_panic(expected = "more than a line")]
    #[cfg(debug_assertions)]
    fn data_of_two_lines_is_a_broken_invariant() {
        event(&mut Vec::new(), Framing { is_chunked: true }, None, b"{\n}");
    }
}
