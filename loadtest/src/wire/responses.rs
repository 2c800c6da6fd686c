//! HTTP/1.1 responses: with a length, chunked, up to the end of the connection, and as SSE streams.
//!
//! Source: RFC 9112 sections 4, 6 and 7.

use std::ops::Range;

use super::events::next_event;
use super::{FramingError, MESSAGE_BYTES_MAX, ReadResult, WireEvent};
use crate::metrics::failure_examples::{BODY_BYTES_MAX, HEAD_BYTES_MAX as EXCERPT_HEAD_BYTES_MAX};

/// Maximum number of fields in a response head.
const FIELDS_MAX: usize = 64;
/// Maximum length of a response head or trailer.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Error of a body longer than a message may be.
const BODY_TOO_LONG: FramingError = FramingError("HTTP body longer than 64 MiB");

/// Parser of a stream of responses; SSE streams are parsed into events.
#[derive(Debug, Default)]
pub struct ResponseReader {
    /// Response whose body is being read.
    current: Option<CurrentResponse>,
    /// Decoded body that has not been returned yet.
    body: Vec<u8>,
    /// Data of the event being returned.
    data: Vec<u8>,
    /// Head and beginning of the body of the last response.
    excerpt: Vec<u8>,
    /// Bytes of the body in it.
    excerpt_body_bytes: u16,
    /// Whether there are no excerpts.
    is_unquoted: bool,
    /// Value of `Mcp-Session-Id` in the last head.
    session: Option<Box<str>>,
}

/// Relevant parts of a response head.
#[derive(Clone, Debug)]
struct CurrentResponse {
    status: u16,
    body: Body,
    is_stream: bool,
    closes_connection: bool,
}

/// Unread part of a body.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Body {
    /// This many bytes.
    Length(usize),
    /// Chunks.
    Chunks,
    /// Everything up to the end of the connection.
    UntilEnd,
    /// None: all of it was read.
    Complete,
}

/// A parsed response head and its length.
struct ParsedHead {
    response: CurrentResponse,
    session: Option<Box<str>>,
    bytes: usize,
}

impl ResponseReader {
    pub(super) const fn is_at_message_start(&self) -> bool {
        self.current.is_none()
    }

    /// See [`super::Reader::shrink`].
    pub(super) fn shrink(&mut self, kept_bytes_max: usize) {
        if self.current.is_none() {
            for buffer in [&mut self.body, &mut self.data, &mut self.excerpt] {
                if buffer.capacity() > kept_bytes_max {
                    *buffer = Vec::new();
                }
            }
        }
    }

    pub(super) const fn is_in_event_stream(&self) -> bool {
        matches!(&self.current, Some(CurrentResponse { status: 200..300, is_stream: true, .. }))
    }

    /// See [`super::Reader::read_next`].
    pub fn read_next<'a>(&'a mut self, bytes: &'a [u8]) -> ReadResult<'a> {
        let Some(response) = &self.current else {
            let Some(head) = read_head(bytes)? else { return Ok(None) };
            // An interim response (100, 103) is skipped.
            if head.response.status >= 200 {
                self.current = Some(head.response);
                self.session = head.session;
                self.body.clear();
                self.quote_head(&bytes[..head.bytes]);
            }
            return Ok(Some((head.bytes, None)));
        };
        match response.body {
            Body::Length(0) | Body::Complete if self.body.is_empty() => {
                Ok(Some((0, self.finish_response())))
            }
            Body::Length(length) if !response.is_stream => {
                let Some(body) = bytes.get(..length) else { return Ok(None) };
                self.set_body(Body::Length(0));
                self.quote_body(body);
                Ok(Some((length, message_event(body))))
            }
            Body::Length(length) => {
                let taken = length.min(bytes.len());
                if taken == 0 && !self.has_event() {
                    return Ok(None);
                }
                self.body.extend_from_slice(&bytes[..taken]);
                self.quote_body(&bytes[..taken]);
                let rest =
                    if taken == length { Body::Complete } else { Body::Length(length - taken) };
                self.set_body(rest);
                Ok(Some((taken, self.take_event())))
            }
            Body::Chunks => self.take_chunk(bytes),
            Body::UntilEnd => {
                if bytes.is_empty() && !self.has_event() {
                    return Ok(None);
                }
                if self.body.len() + bytes.len() > MESSAGE_BYTES_MAX {
                    return Err(BODY_TOO_LONG);
                }
                self.body.extend_from_slice(bytes);
                self.quote_body(bytes);
                Ok(Some((bytes.len(), self.take_event())))
            }
            Body::Complete => Ok(Some((0, self.take_rest()))),
        }
    }

    /// See [`super::Reader::end`].
    pub(super) fn end(&mut self) -> bool {
        let is_delimiter =
            self.current.as_ref().is_some_and(|response| response.body == Body::UntilEnd);
        if is_delimiter {
            self.set_body(Body::Complete);
        }
        is_delimiter
    }

    fn set_body(&mut self, body: Body) {
        if let Some(response) = &mut self.current {
            response.body = body;
        }
    }

    /// Decodes the next chunk.
    fn take_chunk<'a>(&'a mut self, bytes: &[u8]) -> ReadResult<'a> {
        let Some((chunk, taken)) = read_chunk(bytes)? else {
            // Buffered events are returned while the next chunk is incomplete.
            return if self.has_event() { Ok(Some((0, self.take_event()))) } else { Ok(None) };
        };
        if self.body.len() + chunk.len() > MESSAGE_BYTES_MAX {
            return Err(BODY_TOO_LONG);
        }
        if chunk.is_empty() {
            self.set_body(Body::Complete);
        }
        self.quote_body(&bytes[chunk.clone()]);
        self.body.extend_from_slice(&bytes[chunk]);
        Ok(Some((taken, self.take_event())))
    }

    /// See [`super::Reader::stop_quoting`].
    pub(super) fn stop_quoting(&mut self) {
        self.is_unquoted = true;
        self.excerpt = Vec::new();
    }

    /// Begins the excerpt of a response.
    fn quote_head(&mut self, head: &[u8]) {
        if self.is_unquoted {
            return;
        }
        self.excerpt.clear();
        self.excerpt.extend_from_slice(&head[..head.len().min(EXCERPT_HEAD_BYTES_MAX)]);
        self.excerpt_body_bytes = 0;
    }

    /// Adds a part of the body to the excerpt.
    fn quote_body(&mut self, bytes: &[u8]) {
        if self.is_unquoted {
            return;
        }
        let taken = BODY_BYTES_MAX.saturating_sub(self.excerpt_body_bytes.into()).min(bytes.len());
        self.excerpt.extend_from_slice(&bytes[..taken]);
        self.excerpt_body_bytes += u16::try_from(taken).unwrap_or(u16::MAX);
    }

    fn is_stream(&self) -> bool {
        self.current.as_ref().is_some_and(|response| response.is_stream)
    }

    /// Returns whether a complete SSE event is buffered.
    fn has_event(&mut self) -> bool {
        self.is_stream() && next_event(&self.body, &mut self.data).is_some()
    }

    /// Takes the next complete SSE event.
    fn take_event(&mut self) -> Option<WireEvent<'_>> {
        if !self.is_stream() {
            return None;
        }
        let event = next_event(&self.body, &mut self.data)?;
        self.body.drain(..event);
        message_event(&self.data)
    }

    /// Takes the rest of a completely received body.
    fn take_rest(&mut self) -> Option<WireEvent<'_>> {
        if !self.is_stream() {
            self.data.clear();
            self.data.append(&mut self.body);
        } else if let Some(event) = next_event(&self.body, &mut self.data) {
            self.body.drain(..event);
        } else {
            // The SSE standard discards an incomplete event at the end of the stream.
            self.body.clear();
            self.data.clear();
        }
        message_event(&self.data)
    }

    fn finish_response(&mut self) -> Option<WireEvent<'_>> {
        let CurrentResponse { status, closes_connection: closes, is_stream, .. } =
            self.current.take()?;
        let session = self.session.as_deref();
        let excerpt = &self.excerpt[..];
        let closes_connection = closes;
        Some(WireEvent::ResponseEnd { status, session, closes_connection, is_stream, excerpt })
    }
}

/// Returns a message event unless `bytes` is blank.
fn message_event(bytes: &[u8]) -> Option<WireEvent<'_>> {
    let text = bytes.trim_ascii();
    (!text.is_empty()).then_some(WireEvent::Message(text))
}

/// Parses the head at the beginning of `bytes`; returns `None` if it is incomplete.
fn read_head(bytes: &[u8]) -> Result<Option<ParsedHead>, FramingError> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut fields);
    let bytes = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD_BYTES_MAX => return Ok(None),
        _ => return Err(FramingError("not an HTTP/1.1 response")),
    };
    let status = parsed.code.unwrap_or_default();
    let mut response = CurrentResponse {
        status,
        body: Body::Length(0),
        is_stream: false,
        closes_connection: parsed.version == Some(0),
    };
    let mut session = None;
    let mut has_length = matches!(status, 100..200 | 204 | 304);
    for field in parsed.headers.iter() {
        let value = field.value.trim_ascii();
        match field.name {
            name if name.eq_ignore_ascii_case("content-length") => {
                let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                let length = length.filter(|length| *length <= MESSAGE_BYTES_MAX);
                response.body = Body::Length(length.ok_or(FramingError("invalid Content-Length"))?);
                has_length = true;
            }
            name if name.eq_ignore_ascii_case("transfer-encoding") => {
                response.body = Body::Chunks;
                has_length = true;
            }
            name if name.eq_ignore_ascii_case("content-type") => {
                response.is_stream = value.starts_with(b"text/event-stream");
            }
            name if name.eq_ignore_ascii_case("connection") => {
                let mut options = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
                response.closes_connection =
                    options.any(|option| option.eq_ignore_ascii_case(b"close"));
            }
            name if name.eq_ignore_ascii_case("mcp-session-id") => {
                let text = std::str::from_utf8(value).ok();
                let text = text.filter(|text| text.bytes().all(|byte| byte.is_ascii_graphic()));
                session = Some(text.ok_or(FramingError("invalid Mcp-Session-Id"))?.into());
            }
            _ => {}
        }
    }
    if !has_length {
        if !response.closes_connection {
            return Err(FramingError("HTTP response without Content-Length or chunked encoding"));
        }
        response.body = Body::UntilEnd;
    }
    Ok(Some(ParsedHead { response, session, bytes }))
}

/// Parses the chunk at the beginning of `bytes`: the range of its data, and its length. Returns
/// `None` if it is incomplete. The last chunk is empty and includes the trailer.
fn read_chunk(bytes: &[u8]) -> Result<Option<(Range<usize>, usize)>, FramingError> {
    const BROKEN: FramingError = FramingError("invalid HTTP chunk");
    let (start, length) = match httparse::parse_chunk_size(bytes) {
        Ok(httparse::Status::Complete(found)) => found,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err(BROKEN),
    };
    let length = usize::try_from(length).map_err(|_| BROKEN)?;
    if length > MESSAGE_BYTES_MAX {
        return Err(BROKEN);
    }
    if length == 0 {
        return read_trailer(&bytes[start..]).map(|trailer| {
            let taken = trailer? + start;
            Some((start..start, taken))
        });
    }
    let end = start + length;
    match bytes.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((start..end, end + 2))),
        Some(_) => Err(BROKEN),
    }
}

/// Returns the length of the trailer including the empty line that ends it.
fn read_trailer(bytes: &[u8]) -> Result<Option<usize>, FramingError> {
    if bytes.starts_with(b"\r\n") {
        return Ok(Some(2));
    }
    match memchr::memmem::find(bytes, b"\r\n\r\n") {
        Some(end) => Ok(Some(end + 4)),
        None if bytes.len() > HEAD_BYTES_MAX => {
            Err(FramingError("HTTP trailer longer than 64 KiB"))
        }
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the events of a stream that arrives in pieces of this length.
    fn read_events(stream: &[u8], piece: usize) -> Result<Vec<String>, FramingError> {
        read_events_with(&mut ResponseReader::default(), stream, piece)
    }

    /// Returns the events of a stream that continues, or ends.
    fn read_events_with(
        reader: &mut ResponseReader,
        stream: &[u8],
        piece: usize,
    ) -> Result<Vec<String>, FramingError> {
        let (mut bytes, mut events) = (Vec::new(), Vec::new());
        let pieces = stream.chunks(piece).chain(stream.is_empty().then_some(&[][..]));
        for piece in pieces {
            bytes.extend_from_slice(piece);
            while let Some((taken, event)) = reader.read_next(&bytes)? {
                match event {
                    Some(WireEvent::Message(text)) => {
                        events.push(String::from_utf8_lossy(text).into());
                    }
                    Some(WireEvent::ResponseEnd {
                        status,
                        session,
                        closes_connection: closes,
                        ..
                    }) => {
                        let session = session.unwrap_or_default();
                        events.push(format!("{status} {session} {closes}"));
                    }
                    _ => {}
                }
                bytes.drain(..taken);
            }
        }
        Ok(events)
    }

    fn assert_events(stream: &[u8], expected: &[&str]) {
        for piece in 1..=stream.len() {
            assert_eq!(read_events(stream, piece).unwrap(), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn response_with_length_is_message_and_end() {
        let stream = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
            Mcp-Session-Id: abc\r\n\r\n{}HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
        assert_events(stream, &["{}", "200 abc false", "202  false"]);
    }

    #[test]
    fn chunked_response_is_decoded() {
        let stream = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n\
            4;x=y\r\n\":1}\r\n0\r\nTrailer: 1\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        assert_events(stream, &["{\"a\":1}", "200  false", "204  false"]);
    }

    #[test]
    fn sse_response_returns_each_message_then_end() {
        let stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
            Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
            15\r\nid: 1\r\ndata:\n\ndata: 1\r\n4\r\n0\n\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n";
        assert_events(stream, &["10", "2", "200  true"]);
    }

    #[test]
    fn sse_response_with_length_returns_messages() {
        let stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
            Content-Length: 18\r\n\r\ndata: 1\n\ndata: 2\n\nHTTP/1.1 404 Not Found\r\n\
            Content-Length: 0\r\n\r\n";
        assert_events(stream, &["1", "2", "200  false", "404  false"]);
    }

    #[test]
    fn body_without_length_ends_with_connection() {
        let json = "Content-Type: application/json";
        let sse = "Content-Type: text/event-stream";
        for (head, body, events) in [
            ("1.1 200 OK\r\nConnection: Close", " {}\n", &["{}", "200  true"][..]),
            ("1.1 200 OK\r\nConnection: x, close", "", &["200  true"]),
            (&format!("1.0 200 OK\r\n{json}"), "{}", &["{}", "200  true"]),
            (&format!("1.0 200 OK\r\n{sse}"), "data: 1\n\ndata: 2\n\n", &["1", "2", "200  true"]),
        ] {
            let stream = format!("HTTP/{head}\r\n\r\n{body}");
            for piece in 1..=stream.len() {
                let mut reader = ResponseReader::default();
                let mut seen = read_events_with(&mut reader, stream.as_bytes(), piece).unwrap();
                assert!(!seen.iter().any(|event| event.starts_with("200")), "{seen:?}");
                assert!(reader.end() && !reader.end());
                seen.extend(read_events_with(&mut reader, b"", 1).unwrap());
                assert_eq!(seen, events, "{stream} in pieces of {piece}");
            }
        }
        let kept = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n";
        assert!(read_events(kept, kept.len()).is_err());
    }

    #[test]
    fn interim_response_is_skipped() {
        let stream = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n7";
        assert_events(stream, &["7", "200  false"]);
    }

    #[test]
    fn invalid_response_is_framing_error() {
        for stream in [
            &b"{\"jsonrpc\":\"2.0\"}\n"[..],
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        ] {
            assert!(read_events(stream, stream.len()).is_err(), "{}", stream.escape_ascii());
        }
    }
}
