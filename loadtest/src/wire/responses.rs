//! HTTP/1.1 responses as a stream of messages, read by the client of the library.

use corelane_transport::http::client::event_reader::EventReader;
use corelane_transport::http::client::response_head::{
    BodyEnd, ResponseError, ResponseHead, ResponseLimits,
};
use corelane_transport::http::client::response_reader::{
    ResponseEvent, ResponseReader as HttpReader,
};

use super::{FramingError, MESSAGE_BYTES_MAX, PartialMessage, ReadResult, WireEvent};
use crate::metrics::failure_examples::{BODY_BYTES_MAX, HEAD_BYTES_MAX as EXCERPT_HEAD_BYTES_MAX};

const LIMITS: ResponseLimits =
    ResponseLimits { head_bytes_max: 64 << 10, body_bytes_max: MESSAGE_BYTES_MAX };

/// Position in a response.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Position {
    /// Before a response.
    #[default]
    Start,
    Head,
    Body,
    /// At the end of the body, of which a message was not returned yet.
    BodyEnd,
    /// At the end of the response.
    End,
}

/// Parser of a stream of responses; SSE streams are parsed into events.
#[derive(Debug, Default)]
pub struct ResponseReader {
    http: HttpReader,
    position: Position,
    /// Decoded body that has not been returned yet.
    body: Vec<u8>,
    /// The part of `body` that was read as events.
    body_read: usize,
    /// Parser of the current SSE stream.
    events: Option<Box<EventReader>>,
    /// Head and beginning of the body of the last response.
    excerpt: Vec<u8>,
    /// Bytes of the body in it.
    excerpt_body_bytes: u16,
    /// Whether there are no excerpts.
    is_unquoted: bool,
}

impl ResponseReader {
    pub(super) const fn is_at_message_start(&self) -> bool {
        matches!(self.position, Position::Start)
    }

    /// See [`super::Reader::shrink`].
    pub(super) fn shrink(&mut self, kept_bytes_max: usize) {
        if self.is_at_message_start() {
            for buffer in [&mut self.body, &mut self.excerpt] {
                if buffer.capacity() > kept_bytes_max {
                    *buffer = Vec::new();
                }
            }
        }
    }

    pub(super) const fn is_in_event_stream(&self) -> bool {
        self.events.is_some()
    }

    /// See [`super::Reader::read_next`].
    pub fn read_next<'a>(&'a mut self, bytes: &'a [u8]) -> ReadResult<'a> {
        if self.has_event()? {
            return Ok(Some((0, self.event())));
        }
        match self.position {
            Position::BodyEnd => {
                self.position = Position::End;
                return Ok(Some((0, message_event(&self.body))));
            }
            Position::End => return Ok(Some((0, self.finish_response()))),
            Position::Start if bytes.is_empty() => return Ok(None),
            Position::Start => {
                self.position = Position::Head;
                self.excerpt.clear();
            }
            Position::Head | Position::Body => {}
        }
        let (mut taken, read) = (0, self.body.len());
        let event = self.http.next(bytes, &mut taken, &LIMITS, &mut self.body);
        let event = event.map_err(framing_error)?;
        if self.position == Position::Head {
            self.quote(&bytes[..taken], EXCERPT_HEAD_BYTES_MAX);
        } else {
            self.quote_body(read);
        }
        match event {
            ResponseEvent::HeadComplete => self.begin_body(),
            ResponseEvent::Complete if self.events.is_some() => self.position = Position::End,
            ResponseEvent::Complete => {
                self.position = Position::End;
                return Ok(Some((taken, message_event(&self.body))));
            }
            ResponseEvent::NeedMore => {}
        }
        let event = if self.has_event()? { self.event() } else { None };
        let is_unchanged = taken == 0 && event.is_none() && self.position != Position::End;
        Ok((!is_unchanged).then_some((taken, event)))
    }

    /// See [`super::Reader::end`].
    pub(super) fn end(&mut self) -> bool {
        let is_complete = self.http.end_of_stream().unwrap_or(false);
        if is_complete {
            self.position = if self.events.is_some() { Position::End } else { Position::BodyEnd };
        }
        is_complete
    }

    /// Returns what has arrived of the current response: of its head, or of its body.
    pub(super) fn partial_response(&self) -> Option<PartialMessage> {
        let partial = |of, received: usize, length| {
            let received = received as u64;
            Some(PartialMessage { of, received, length })
        };
        match self.position {
            Position::Start => None,
            Position::Head => partial("the head", self.excerpt.len(), None),
            Position::Body | Position::BodyEnd | Position::End => {
                let end = self.http.head().map(|head| head.body_end);
                match end {
                    Some(BodyEnd::Length(length)) if self.events.is_none() => {
                        partial("the body", self.body.len(), Some(length))
                    }
                    _ if self.events.is_none() => partial("the body", self.body.len(), None),
                    _ => partial("the event stream", usize::from(self.excerpt_body_bytes), None),
                }
            }
        }
    }

    fn begin_body(&mut self) {
        self.position = Position::Body;
        self.body.clear();
        self.excerpt_body_bytes = 0;
        let is_stream = self.http.head().is_some_and(ResponseHead::is_event_stream);
        self.events = is_stream.then(Box::default);
    }

    /// See [`super::Reader::stop_quoting`].
    pub(super) fn stop_quoting(&mut self) {
        self.is_unquoted = true;
        self.excerpt = Vec::new();
    }

    /// Adds `bytes` to the excerpt, which has at most `bytes_max` then.
    fn quote(&mut self, bytes: &[u8], bytes_max: usize) {
        if !self.is_unquoted {
            let taken = bytes_max.saturating_sub(self.excerpt.len()).min(bytes.len());
            self.excerpt.extend_from_slice(&bytes[..taken]);
        }
    }

    /// Adds the part of the body from `read` on to the excerpt.
    fn quote_body(&mut self, read: usize) {
        if self.is_unquoted {
            return;
        }
        let bytes = &self.body[read..];
        let taken = BODY_BYTES_MAX.saturating_sub(self.excerpt_body_bytes.into()).min(bytes.len());
        self.excerpt.extend_from_slice(&bytes[..taken]);
        self.excerpt_body_bytes += u16::try_from(taken).unwrap_or(u16::MAX);
    }

    /// Reads the next event of a stream; returns whether there is one. Frees the body that was
    /// read.
    fn has_event(&mut self) -> Result<bool, FramingError> {
        let Some(events) = &mut self.events else { return Ok(false) };
        let found = events.next(&self.body, &mut self.body_read, MESSAGE_BYTES_MAX);
        let found = found.map_err(framing_error)?;
        if !found {
            self.body.clear();
            self.body_read = 0;
        }
        Ok(found)
    }

    /// Returns the event that was read.
    fn event(&self) -> Option<WireEvent<'_>> {
        message_event(self.events.as_ref()?.data())
    }

    fn finish_response(&mut self) -> Option<WireEvent<'_>> {
        self.position = Position::Start;
        self.body.clear();
        let is_stream = self.events.take().is_some();
        let head = self.http.head()?;
        Some(WireEvent::ResponseEnd {
            status: head.status,
            session: head.session_id.as_deref(),
            closes_connection: !head.keep_alive,
            is_stream,
            excerpt: &self.excerpt,
        })
    }
}

/// Returns a message event unless `bytes` is blank.
fn message_event(bytes: &[u8]) -> Option<WireEvent<'_>> {
    let text = bytes.trim_ascii();
    (!text.is_empty()).then_some(WireEvent::Message(text))
}

const fn framing_error(error: ResponseError) -> FramingError {
    FramingError(match error {
        ResponseError::Invalid(reason) => reason,
        ResponseError::Truncated => "the connection ended inside the response",
    })
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
            ("1.1 200 OK", "{}", &["{}", "200  true"]),
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
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        ] {
            assert!(read_events(stream, stream.len()).is_err(), "{}", stream.escape_ascii());
        }
    }
}
