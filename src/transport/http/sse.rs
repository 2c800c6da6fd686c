//! Server-sent events and their chunked transfer coding.
//!
//! [`begin_event`] appends what precedes the data, the caller appends one JSON text, and
//! [`end_event`] ends the event. Every call appends complete events or lines, each in one chunk, so
//! that a client can parse whatever a proxy passes on. The chunk size is eight hexadecimal digits,
//! filled in at the end.
//!
//! The data is one line: encoded JSON contains no raw line ends.
//!
//! Source: WHATWG HTML, section 9.2 "Server-sent events"; RFC 9112, section 7.1; MCP 2025-11-25
//! basic/transports, "Resumability and Redelivery"; MCP 2024-11-05 basic/transports, "HTTP with
//! SSE".

use std::fmt;

use super::fields::push_value;
use corelane_protocol::json::write;

/// The id of an event in a session: stream and sequence number, written as `3-17`.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct EventId {
    /// Stream within the session.
    pub stream: u32,
    /// Sequence number within the stream.
    pub number: u32,
}

impl EventId {
    /// Parses `Last-Event-ID`. Returns `None` if it is not in the form this server writes.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let dash = text.iter().position(|&byte| byte == b'-')?;
        let (stream, number) =
            (parse_canonical_number(&text[..dash])?, parse_canonical_number(&text[dash + 1..])?);
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

/// The transfer coding of an event stream.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct StreamFraming {
    /// Whether the stream is chunked (HTTP/1.1) or ends with the connection (HTTP/1.0).
    pub is_chunked: bool,
}

/// Positions of an unfinished event in its buffer.
#[derive(Debug)]
#[must_use = "finish the event with `end_event`"]
pub struct EventMark {
    chunk: Chunk,
    data: usize,
}

/// Appends what precedes the data of a message: the chunk size, the id if any, and the type.
#[inline]
pub fn begin_event(out: &mut Vec<u8>, framing: StreamFraming, id: Option<EventId>) -> EventMark {
    let chunk = Chunk::begin(out, framing);
    if let Some(id) = id {
        id.write_line(out);
    }
    out.extend_from_slice(b"event: message\ndata: ");
    EventMark { chunk, data: out.len() }
}

/// Ends an event: what was appended since [`begin_event`] is its data, one line.
///
/// # Panics
///
/// If a chunk has 4 GiB or more; with debug assertions also if the data contains a line end.
#[inline]
pub fn end_event(out: &mut Vec<u8>, mark: EventMark) {
    debug_assert!(memchr::memchr2(b'\n', b'\r', &out[mark.data..]).is_none(), "data has line ends");
    out.extend_from_slice(b"\n\n");
    mark.chunk.end(out);
}

/// Appends an encoded message as an event.
pub fn write_event(out: &mut Vec<u8>, framing: StreamFraming, id: Option<EventId>, text: &[u8]) {
    let mark = begin_event(out, framing, id);
    out.extend_from_slice(text);
    end_event(out, mark);
}

/// Appends the priming event of a resumable stream: an id, empty data, and the reconnection time in
/// milliseconds (MCP 2025-11-25; SEP-1699).
pub fn write_priming_event(
    out: &mut Vec<u8>,
    framing: StreamFraming,
    id: EventId,
    retry_ms: Option<u32>,
) {
    let chunk = Chunk::begin(out, framing);
    id.write_line(out);
    if let Some(retry_ms) = retry_ms {
        push_retry_field(out, retry_ms);
    }
    out.extend_from_slice(b"data: \n\n");
    chunk.end(out);
}

/// Appends the reconnection time, in milliseconds.
pub fn write_reconnection_time(out: &mut Vec<u8>, framing: StreamFraming, retry_ms: u32) {
    let chunk = Chunk::begin(out, framing);
    push_retry_field(out, retry_ms);
    out.push(b'\n');
    chunk.end(out);
}

/// Appends a comment, which keeps an idle connection alive: one line, without the empty line that
/// ends an event. At an empty line some clients, among them httpx-sse of Python, dispatch an event
/// without data once any event had an id.
pub fn write_comment(out: &mut Vec<u8>, framing: StreamFraming) {
    let chunk = Chunk::begin(out, framing);
    out.extend_from_slice(b": keep-alive\n");
    chunk.end(out);
}

/// Appends the `endpoint` event of MCP 2024-11-05: the URI to post messages to.
pub fn write_endpoint(out: &mut Vec<u8>, framing: StreamFraming, uri: &str) {
    let chunk = Chunk::begin(out, framing);
    out.extend_from_slice(b"event: endpoint\ndata: ");
    push_value(out, uri.as_bytes());
    out.extend_from_slice(b"\n\n");
    chunk.end(out);
}

/// Appends an event with a name, and an id if there is one. `data` is one line.
pub fn write_named_event(
    out: &mut Vec<u8>,
    framing: StreamFraming,
    name: &str,
    id: Option<&str>,
    data: &[u8],
) {
    let chunk = Chunk::begin(out, framing);
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    if let Some(id) = id {
        out.extend_from_slice(b"\nid: ");
        out.extend_from_slice(id.as_bytes());
    }
    out.extend_from_slice(b"\ndata: ");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\n\n");
    chunk.end(out);
}

/// Appends the last chunk. A stream without chunks ends with the connection.
pub fn end_stream(out: &mut Vec<u8>, framing: StreamFraming) {
    if framing.is_chunked {
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

fn push_retry_field(out: &mut Vec<u8>, retry_ms: u32) {
    out.extend_from_slice(b"retry: ");
    write::unsigned(out, u64::from(retry_ms));
    out.push(b'\n');
}

/// An unfinished chunk, or nothing for a stream without chunks.
#[derive(Debug)]
struct Chunk {
    /// Start of the chunk's content.
    content: Option<usize>,
}

impl Chunk {
    #[inline]
    fn begin(out: &mut Vec<u8>, framing: StreamFraming) -> Self {
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
        let size = u32::try_from(out.len() - content).expect("a chunk is smaller than 4 GiB");
        let size_at = content - SIZE_DIGITS - b"\r\n".len();
        for (digit, byte) in out[size_at..size_at + SIZE_DIGITS].iter_mut().rev().enumerate() {
            *byte = b"0123456789abcdef"[(size >> (4 * digit)) as usize & 0xf];
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// Parses a decimal number without leading zeros.
fn parse_canonical_number(text: &[u8]) -> Option<u32> {
    if text.is_empty() || text.len() > 1 && text[0] == b'0' {
        return None;
    }
    text.iter().try_fold(0_u32, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then(|| number.checked_mul(10)?.checked_add(u32::from(digit))).flatten()
    })
}

/// Hexadecimal digits of a chunk size.
const SIZE_DIGITS: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_is_one_chunk_of_its_size() {
        let (mut chunked, mut plain) = (Vec::new(), Vec::new());
        let id = Some(EventId { stream: 3, number: 17 });
        write_event(&mut chunked, StreamFraming { is_chunked: true }, id, b"{}");
        write_event(&mut plain, StreamFraming { is_chunked: false }, id, b"{}");
        assert_eq!(plain, b"id: 3-17\nevent: message\ndata: {}\n\n");
        let expected = b"00000022\r\nid: 3-17\nevent: message\ndata: {}\n\n\r\n";
        assert_eq!(plain.len(), 0x22);
        assert_eq!(chunked, expected);
    }

    #[test]
    fn event_id_parses_only_canonical_form() {
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
    #[should_panic(expected = "data has line ends")]
    #[cfg(debug_assertions)]
    fn event_data_with_line_end_panics() {
        write_event(&mut Vec::new(), StreamFraming { is_chunked: true }, None, b"{\n}");
    }
}
