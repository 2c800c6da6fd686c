//! Writing of responses: the head, and the framing of the body.
//!
//! A response is written into one buffer: [`begin_response`] appends the head with a placeholder
//! for the length, the caller appends the body, [`end_response`] fills in the length. Nothing is
//! moved, copied twice or allocated except the growth of the buffer. The length is padded with
//! leading spaces, which are optional white space (RFC 9112, section 5.1).
//!
//! JSON responses have no `Cache-Control`: responses to POST are not cached by default (RFC 9110,
//! section 9.3.3).
//!
//! Source: RFC 9112, sections 4, 6 and 9; MCP 2026-07-28 basic/transports/streamable-http.

use super::date::{self, Date};
use super::fields::ResponseFields;
use super::status::Status;

/// The head of a response.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// The status.
    pub status: Status,
    /// The kind of body.
    pub body: BodyKind,
    /// Whether the connection closes after the response (`Connection: close`). Set it for HTTP/1.0:
    /// `keep-alive` is never sent.
    pub close: bool,
    /// Whether an event stream is chunked. Without chunks (HTTP/1.0) the stream ends with the
    /// connection, which closes regardless of `close`.
    pub is_chunked: bool,
    /// Additional fields.
    pub fields: ResponseFields<'a>,
}

impl Response<'_> {
    /// 200 with a JSON body on a persistent connection.
    #[cfg(feature = "internals")]
    pub const JSON: Self = Self::new(Status::OK, BodyKind::Json);

    /// Creates a response on a persistent connection; an event stream is chunked.
    pub const fn new(status: Status, body: BodyKind) -> Self {
        Self { status, body, close: false, is_chunked: true, fields: ResponseFields::NONE }
    }

    /// Returns whether [`JSON_HEAD`] is the head of this response.
    #[inline]
    fn is_default_json(&self) -> bool {
        self.status == Status::OK
            && self.body == BodyKind::Json
            && !self.close
            && self.fields.is_empty()
    }

    const fn body_framing(&self) -> BodyFraming {
        if self.status.forbids_body() {
            return BodyFraming::None;
        }
        match self.body {
            BodyKind::EventStream => BodyFraming::UntilEnd,
            BodyKind::Json | BodyKind::Text(_) => BodyFraming::ContentLength,
            BodyKind::Empty => BodyFraming::None,
        }
    }
}

/// The kind of body of a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BodyKind {
    /// Server-sent events until the stream ends.
    EventStream,
    /// One JSON text.
    Json,
    /// No body.
    Empty,
    /// Text of this media type.
    Text(&'static str),
}

/// Positions of an unfinished response in its buffer. Valid as long as nothing before or inside the
/// response moves.
#[derive(Debug)]
#[must_use = "finish the response with `end_response`"]
pub struct ResponseMark {
    head: usize,
    body: usize,
    framing: BodyFraming,
}

impl ResponseMark {
    /// Returns the start of the head.
    pub const fn head(&self) -> usize {
        self.head
    }

    /// Returns the start of the body.
    pub const fn body(&self) -> usize {
        self.body
    }
}

/// How the end of a body is determined (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum BodyFraming {
    /// By `Content-Length`; its placeholder is the end of the head.
    ContentLength,
    /// No body.
    None,
    /// By the last chunk, or by the end of the connection.
    UntilEnd,
}

/// Appends the head of a response; append the body after it.
///
/// Costs two copies of 116 bytes for [`Response::JSON`].
#[inline]
pub fn begin_response(out: &mut Vec<u8>, response: &Response<'_>, date: &Date) -> ResponseMark {
    let head = out.len();
    let ending = if response.is_default_json() {
        let mut text = *JSON_HEAD;
        text[JSON_HEAD_DATE_AT..JSON_HEAD_DATE_AT + date::LENGTH].copy_from_slice(date.as_bytes());
        out.extend_from_slice(&text);
        BodyFraming::ContentLength
    } else {
        write_head(out, response, date);
        response.body_framing()
    };
    ResponseMark { head, body: out.len(), framing: ending }
}

/// Ends a response: everything after its head is the body, which is removed if the response must
/// not have one.
///
/// # Panics
///
/// If the length of the body has more than ten digits.
#[inline]
#[expect(clippy::needless_pass_by_value, reason = "consumes the mark: a response ends once")]
pub fn end_response(out: &mut Vec<u8>, mark: ResponseMark) {
    match mark.framing {
        BodyFraming::ContentLength => write_length(out, mark.body),
        BodyFraming::None => out.truncate(mark.body),
        BodyFraming::UntilEnd => {}
    }
}

/// Ends a response to HEAD: the head of the full response, without its body (RFC 9110, section
/// 9.3.2).
pub fn end_head_response(out: &mut Vec<u8>, mark: ResponseMark) {
    let body = mark.body;
    end_response(out, mark);
    out.truncate(body);
}

/// Replaces the head before a body that is already written. The body is removed if the new response
/// has none or is a stream.
///
/// Moves the body; meant for responses that turn out to be errors.
#[expect(clippy::needless_pass_by_value, reason = "consumes the mark: its head is replaced")]
pub fn replace_head(
    out: &mut Vec<u8>,
    mark: ResponseMark,
    response: &Response<'_>,
    date: &Date,
) -> ResponseMark {
    if response.body_framing() != BodyFraming::ContentLength {
        out.truncate(mark.head);
        return begin_response(out, response, date);
    }
    out.drain(mark.head..mark.body);
    let written = out.len();
    let ResponseMark { head, body, framing: ending } = begin_response(out, response, date);
    let head_bytes = body - head;
    debug_assert_eq!(head, written);
    out[mark.head..].rotate_right(head_bytes);
    ResponseMark { head: mark.head, body: mark.head + head_bytes, framing: ending }
}

/// Appends a complete response.
#[cfg(feature = "internals")]
pub fn write_response(out: &mut Vec<u8>, response: &Response<'_>, date: &Date, body: &[u8]) {
    let mark = begin_response(out, response, date);
    out.extend_from_slice(body);
    end_response(out, mark);
}

/// The interim response to `Expect: 100-continue` (RFC 9110, section 10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

fn write_head(out: &mut Vec<u8>, response: &Response<'_>, date: &Date) {
    let ending = response.body_framing();
    response.status.write_line(out);
    if ending != BodyFraming::None {
        match response.body {
            BodyKind::EventStream => out.extend_from_slice(EVENT_STREAM_FIELDS),
            BodyKind::Json => out.extend_from_slice(b"Content-Type: application/json\r\n"),
            BodyKind::Empty => {}
            BodyKind::Text(media_type) => {
                out.extend_from_slice(b"Content-Type: ");
                out.extend_from_slice(media_type.as_bytes());
                out.extend_from_slice(b"\r\n");
            }
        }
    }
    out.extend_from_slice(b"Date: ");
    out.extend_from_slice(date.as_bytes());
    out.extend_from_slice(b"\r\n");
    response.fields.write(out);
    let closes_at_end = ending == BodyFraming::UntilEnd && !response.is_chunked;
    let is_upgrade = response.status == Status::UPGRADE_REQUIRED;
    out.extend_from_slice(match (response.close || closes_at_end, is_upgrade) {
        (false, false) => b"",
        (false, true) => b"Connection: Upgrade\r\n",
        (true, false) => b"Connection: close\r\n",
        (true, true) => b"Connection: close, Upgrade\r\n",
    });
    if is_upgrade {
        out.extend_from_slice(UPGRADE_FIELDS);
    }
    out.extend_from_slice(match ending {
        BodyFraming::ContentLength => LENGTH_PLACEHOLDER,
        BodyFraming::None if response.status.forbids_body() => b"\r\n",
        BodyFraming::None => b"Content-Length: 0\r\n\r\n",
        BodyFraming::UntilEnd if closes_at_end => b"\r\n",
        BodyFraming::UntilEnd => b"Transfer-Encoding: chunked\r\n\r\n",
    });
}

/// Fills in the length of the body that starts at `body`.
#[inline]
fn write_length(out: &mut [u8], body: usize) {
    let mut rest = out.len() - body;
    let end = body - b"\r\n\r\n".len();
    for digit in out[end - LENGTH_DIGITS..end].iter_mut().rev() {
        *digit = b"0123456789"[rest % 10];
        rest /= 10;
        if rest == 0 {
            return;
        }
    }
    panic!("the body length has more than {LENGTH_DIGITS} digits");
}

/// The head of [`Response::JSON`], with placeholders for date and length.
const JSON_HEAD: &[u8; 116] = b"HTTP/1.1 200 OK\r\n\
Content-Type: application/json\r\n\
Date: Ddd, 00 Mmm 0000 00:00:00 GMT\r\n\
Content-Length:          0\r\n\r\n";

const JSON_HEAD_DATE_AT: usize =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: ".len();

/// The end of a head whose length is filled in later.
const LENGTH_PLACEHOLDER: &[u8] = b"Content-Length:          0\r\n\r\n";

/// Digits of the length placeholder.
const LENGTH_DIGITS: usize = 10;

/// The fields of a 426 response (RFC 9110, sections 7.8 and 15.5.22; RFC 6455, section 4.4).
const UPGRADE_FIELDS: &[u8] = b"Upgrade: websocket\r\n\
Sec-WebSocket-Version: 13\r\n";

/// The fields of an event stream. Proxies must not buffer or transform it: MCP 2026-07-28
/// basic/transports/streamable-http asks for `X-Accel-Buffering`.
const EVENT_STREAM_FIELDS: &[u8] = b"Content-Type: text/event-stream\r\n\
Cache-Control: no-cache, no-transform\r\n\
X-Accel-Buffering: no\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prebuilt_json_head_equals_written_head() {
        let date = Date::new(784_111_777);
        let (mut short, mut long) = (Vec::new(), Vec::new());
        let mark = begin_response(&mut short, &Response::JSON, &date);
        write_head(&mut long, &Response::JSON, &date);
        assert_eq!(String::from_utf8(short), String::from_utf8(long));
        assert_eq!(mark.framing, Response::JSON.body_framing());
    }

    #[test]
    fn content_length_is_filled_in_for_any_size() {
        let head = LENGTH_PLACEHOLDER.len();
        for bytes in [0, 1, 9, 10, 99, 100, 4_095, 65_536, 1_000_000] {
            let mut out = LENGTH_PLACEHOLDER.to_vec();
            out.resize(head + bytes, b'x');
            write_length(&mut out, head);
            let line = String::from_utf8(out[..head].to_vec()).unwrap();
            assert_eq!(line, format!("Content-Length: {bytes:>10}\r\n\r\n"));
        }
    }
}
