//! Responses of HTTP/1.1: with a length, in chunks, and as streams of events.
//!
//! Source: RFC 9112 sections 4, 6 and 7.

use std::ops::Range;

use super::events::next_event;
use super::{Broken, Heard, Look, MESSAGE_BYTES_MAX};

/// Fields of a head that are looked at; a server with more is told apart as broken.
const FIELDS_MAX: usize = 64;
/// Bytes of a head that are waited for.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// Cuts a stream into responses, and those that are streams into their events.
#[derive(Debug, Default)]
pub struct ResponseReader {
    /// The response whose body is being read.
    current: Option<Response>,
    /// What of a body in chunks has been taken out of them and not been told.
    body: Vec<u8>,
    /// The data of the event that is being told.
    data: Vec<u8>,
}

/// What the head of a response says.
#[derive(Clone, Debug)]
struct Response {
    status: u16,
    body: Body,
    is_stream: bool,
    closes: bool,
    session: Option<Box<[u8]>>,
}

/// How far a body reaches.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Body {
    /// So many bytes.
    Length(usize),
    /// Chunks.
    Chunks,
    /// All chunks have come.
    Complete,
}

/// What a head was read as.
struct Head {
    response: Response,
    bytes: usize,
}

impl ResponseReader {
    pub(super) const fn is_at_start(&self) -> bool {
        self.current.is_none()
    }

    /// See [`super::Reader::rest`].
    pub(super) fn rest(&mut self, kept_bytes_max: usize) {
        if self.current.is_none() {
            for buffer in [&mut self.body, &mut self.data] {
                if buffer.capacity() > kept_bytes_max {
                    *buffer = Vec::new();
                }
            }
        }
    }

    pub(super) const fn is_in_stream(&self) -> bool {
        matches!(&self.current, Some(Response { status: 200..300, is_stream: true, .. }))
    }

    /// See [`super::Reader::look`].
    pub fn look<'a>(&'a mut self, bytes: &'a [u8]) -> Look<'a> {
        let Some(response) = &self.current else {
            let Some(head) = read_head(bytes)? else { return Ok(None) };
            // An interim response (100, 103) stands for nothing.
            if head.response.status >= 200 {
                self.current = Some(head.response);
                self.body.clear();
            }
            return Ok(Some((head.bytes, None)));
        };
        match response.body {
            Body::Length(0) | Body::Complete if self.body.is_empty() => Ok(Some((0, self.over()))),
            Body::Length(length) if !response.is_stream => {
                let Some(body) = bytes.get(..length) else { return Ok(None) };
                self.set_body(Body::Length(0));
                Ok(Some((length, text(body))))
            }
            Body::Length(length) => {
                let taken = length.min(bytes.len());
                if taken == 0 && !self.has_event() {
                    return Ok(None);
                }
                self.body.extend_from_slice(&bytes[..taken]);
                let rest =
                    if taken == length { Body::Complete } else { Body::Length(length - taken) };
                self.set_body(rest);
                Ok(Some((taken, self.tell_event())))
            }
            Body::Chunks => self.take_chunk(bytes),
            Body::Complete => Ok(Some((0, self.tell_rest()))),
        }
    }

    fn set_body(&mut self, body: Body) {
        if let Some(response) = &mut self.current {
            response.body = body;
        }
    }

    /// Takes the next chunk out of its wrapping.
    fn take_chunk<'a>(&'a mut self, bytes: &[u8]) -> Look<'a> {
        let Some((chunk, taken)) = read_chunk(bytes)? else {
            // What has come of a stream before is told while the next chunk is on its way.
            return if self.has_event() { Ok(Some((0, self.tell_event()))) } else { Ok(None) };
        };
        if self.body.len() + chunk.len() > MESSAGE_BYTES_MAX {
            return Err(Broken("a body without end"));
        }
        if chunk.is_empty() {
            self.set_body(Body::Complete);
        }
        self.body.extend_from_slice(&bytes[chunk]);
        Ok(Some((taken, self.tell_event())))
    }

    fn is_stream(&self) -> bool {
        self.current.as_ref().is_some_and(|response| response.is_stream)
    }

    /// Whether an event of a stream is complete.
    fn has_event(&mut self) -> bool {
        self.is_stream() && next_event(&self.body, &mut self.data).is_some()
    }

    /// Tells the next event of a stream, where one is complete.
    fn tell_event(&mut self) -> Option<Heard<'_>> {
        if !self.is_stream() {
            return None;
        }
        let event = next_event(&self.body, &mut self.data)?;
        self.body.drain(..event);
        text(&self.data)
    }

    /// Tells what is left of a body of which all has come.
    fn tell_rest(&mut self) -> Option<Heard<'_>> {
        if !self.is_stream() {
            self.data.clear();
            self.data.append(&mut self.body);
        } else if let Some(event) = next_event(&self.body, &mut self.data) {
            self.body.drain(..event);
        } else {
            // An event that never ended is none (the standard says so).
            self.body.clear();
            self.data.clear();
        }
        text(&self.data)
    }

    fn over(&mut self) -> Option<Heard<'_>> {
        let Response { status, session, closes, is_stream, .. } = self.current.take()?;
        self.data.clear();
        let session = session.map(|session| {
            self.data.extend_from_slice(&session);
            &self.data[..]
        });
        Some(Heard::Over { status, session, closes, is_stream })
    }
}

/// A message, where there is more than nothing.
fn text(bytes: &[u8]) -> Option<Heard<'_>> {
    let text = bytes.trim_ascii();
    (!text.is_empty()).then_some(Heard::Text(text))
}

/// The head at the beginning of `bytes`; `None` until it is all there.
fn read_head(bytes: &[u8]) -> Result<Option<Head>, Broken> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut parsed = httparse::Response::new(&mut fields);
    let bytes = match parsed.parse(bytes) {
        Ok(httparse::Status::Complete(bytes)) => bytes,
        Ok(httparse::Status::Partial) if bytes.len() <= HEAD_BYTES_MAX => return Ok(None),
        _ => return Err(Broken("not a response of HTTP")),
    };
    let status = parsed.code.unwrap_or_default();
    let mut response = Response {
        status,
        body: Body::Length(0),
        is_stream: false,
        closes: parsed.version == Some(0),
        session: None,
    };
    let mut has_length = matches!(status, 100..200 | 204 | 304);
    for field in parsed.headers.iter() {
        let value = field.value.trim_ascii();
        match field.name {
            name if name.eq_ignore_ascii_case("content-length") => {
                let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                let length = length.filter(|length| *length <= MESSAGE_BYTES_MAX);
                response.body = Body::Length(length.ok_or(Broken("a length that is none"))?);
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
                response.closes = value.eq_ignore_ascii_case(b"close");
            }
            name if name.eq_ignore_ascii_case("mcp-session-id") => {
                response.session = Some(value.into());
            }
            _ => {}
        }
    }
    if has_length {
        Ok(Some(Head { response, bytes }))
    } else {
        Err(Broken("a response whose end nobody can tell"))
    }
}

/// The chunk at the beginning of `bytes`: where its data lies, and how many bytes it takes; `None`
/// until it is all there. The last chunk is empty, and its trailer is taken with it.
fn read_chunk(bytes: &[u8]) -> Result<Option<(Range<usize>, usize)>, Broken> {
    const BROKEN: Broken = Broken("a chunk that is none");
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

/// How many bytes the trailer takes with the empty line that ends it.
fn read_trailer(bytes: &[u8]) -> Result<Option<usize>, Broken> {
    if bytes.starts_with(b"\r\n") {
        return Ok(Some(2));
    }
    match memchr::memmem::find(bytes, b"\r\n\r\n") {
        Some(end) => Ok(Some(end + 4)),
        None if bytes.len() > HEAD_BYTES_MAX => Err(Broken("a trailer without end")),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is heard of a stream that comes in pieces of this many bytes.
    fn hear(stream: &[u8], piece: usize) -> Result<Vec<String>, Broken> {
        let mut reader = ResponseReader::default();
        let (mut bytes, mut heard) = (Vec::new(), Vec::new());
        for piece in stream.chunks(piece) {
            bytes.extend_from_slice(piece);
            while let Some((taken, event)) = reader.look(&bytes)? {
                match event {
                    Some(Heard::Text(text)) => heard.push(String::from_utf8_lossy(text).into()),
                    Some(Heard::Over { status, session, closes, .. }) => {
                        let session = session.map(String::from_utf8_lossy).unwrap_or_default();
                        heard.push(format!("{status} {session} {closes}"));
                    }
                    _ => {}
                }
                bytes.drain(..taken);
            }
        }
        Ok(heard)
    }

    fn assert_heard(stream: &[u8], expected: &[&str]) {
        for piece in 1..=stream.len() {
            assert_eq!(hear(stream, piece).unwrap(), expected, "in pieces of {piece}");
        }
    }

    #[test]
    fn a_body_with_a_length_is_a_message_and_the_end() {
        let stream = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\
            Mcp-Session-Id: abc\r\n\r\n{}HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n";
        assert_heard(stream, &["{}", "200 abc false", "202  false"]);
    }

    #[test]
    fn a_body_in_chunks_is_put_together() {
        let stream = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{\"a\r\n\
            4;x=y\r\n\":1}\r\n0\r\nTrailer: 1\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n";
        assert_heard(stream, &["{\"a\":1}", "200  false", "204  false"]);
    }

    #[test]
    fn a_stream_of_events_tells_each_message_then_its_end() {
        let stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n\
            Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n\
            15\r\nid: 1\r\ndata:\n\ndata: 1\r\n4\r\n0\n\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n";
        assert_heard(stream, &["10", "2", "200  true"]);
    }

    #[test]
    fn a_stream_of_events_with_a_length_is_one_too() {
        let stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
            Content-Length: 18\r\n\r\ndata: 1\n\ndata: 2\n\nHTTP/1.1 404 Not Found\r\n\
            Content-Length: 0\r\n\r\n";
        assert_heard(stream, &["1", "2", "200  false", "404  false"]);
    }

    #[test]
    fn an_interim_response_stands_for_nothing() {
        let stream = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n7";
        assert_heard(stream, &["7", "200  false"]);
    }

    #[test]
    fn what_is_no_response_is_told() {
        for stream in [
            &b"{\"jsonrpc\":\"2.0\"}\n"[..],
            b"HTTP/1.1 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        ] {
            assert!(hear(stream, stream.len()).is_err(), "{}", stream.escape_ascii());
        }
    }
}
