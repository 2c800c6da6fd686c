//! Writing of responses: the head, and the framing of the body.
//!
//! A response is written into one buffer: [`begin_response`] appends the head with a placeholder
//! for the length, the caller appends the body, [`end_response`] fills in the length. The
//! placeholder has as many digits as the lengths before; a body whose length has more or fewer
//! digits is moved by the difference. Nothing else is moved, copied twice or allocated except the
//! growth of the buffer.
//!
//! JSON responses have no `Cache-Control`: responses to POST are not cached by default (RFC 9110,
//! section 9.3.3).
//!
//! Source: RFC 9112, sections 4, 6 and 9; MCP 2026-07-28 basic/transports/streamable-http.

use super::fields::ResponseFields;
use super::head_template::{HEAD_END, HeadTemplate, LENGTH_DIGITS_MAX};
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
    pub const JSON: Self = Self::new(Status::OK, BodyKind::Json);

    /// Creates a response on a persistent connection; an event stream is chunked.
    pub const fn new(status: Status, body: BodyKind) -> Self {
        Self { status, body, close: false, is_chunked: true, fields: ResponseFields::NONE }
    }

    /// Returns whether the head of this response is that of the [`HeadTemplate`].
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
    /// Digits of the placeholder of the length.
    length_digits: usize,
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
/// Costs one copy of 180 bytes for [`Response::JSON`].
#[inline]
pub fn begin_response(
    out: &mut Vec<u8>,
    response: &Response<'_>,
    template: &HeadTemplate,
) -> ResponseMark {
    if response.is_default_json() {
        return begin_json_response(out, response.fields.request_id, template);
    }
    let head = out.len();
    write_head(out, response, template);
    let framing = response.body_framing();
    ResponseMark { head, body: out.len(), framing, length_digits: template.length_digits() }
}

/// Appends the head of [`Response::JSON`]. `request_id` is that of its request, if it is not the
/// UUID of the template.
#[inline]
pub fn begin_json_response(
    out: &mut Vec<u8>,
    request_id: Option<&[u8]>,
    template: &HeadTemplate,
) -> ResponseMark {
    let head = out.len();
    match request_id {
        None => template.write_json_head(out),
        Some(request_id) => template.write_json_head_for(out, request_id),
    }
    let framing = BodyFraming::ContentLength;
    ResponseMark { head, body: out.len(), framing, length_digits: template.length_digits() }
}

/// Ends a response: everything after its head is the body, which is removed if the response must
/// not have one. Give it the template of [`begin_response`].
#[inline]
pub fn end_response(out: &mut Vec<u8>, mark: ResponseMark, template: &mut HeadTemplate) {
    end_response_at(out, mark, template);
}

/// Ends a response to HEAD: the head of the full response, without its body (RFC 9110, section
/// 9.3.2).
pub fn end_head_response(out: &mut Vec<u8>, mark: ResponseMark, template: &mut HeadTemplate) {
    let body = end_response_at(out, mark, template);
    out.truncate(body);
}

/// Ends a response, and returns where its body starts.
#[inline]
#[expect(clippy::needless_pass_by_value, reason = "consumes the mark: a response ends once")]
fn end_response_at(out: &mut Vec<u8>, mark: ResponseMark, template: &mut HeadTemplate) -> usize {
    match mark.framing {
        BodyFraming::ContentLength if !write_length(out, &mark) => {
            return write_other_length(out, &mark, template);
        }
        BodyFraming::None => out.truncate(mark.body),
        BodyFraming::ContentLength | BodyFraming::UntilEnd => {}
    }
    mark.body
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
    template: &HeadTemplate,
) -> ResponseMark {
    if response.body_framing() != BodyFraming::ContentLength {
        out.truncate(mark.head);
        return begin_response(out, response, template);
    }
    out.drain(mark.head..mark.body);
    let written = begin_response(out, response, template);
    let head_bytes = written.body - written.head;
    out[mark.head..].rotate_right(head_bytes);
    ResponseMark { head: mark.head, body: mark.head + head_bytes, ..written }
}

/// Appends a complete response.
pub fn write_response(
    out: &mut Vec<u8>,
    response: &Response<'_>,
    template: &mut HeadTemplate,
    body: &[u8],
) {
    let mark = begin_response(out, response, template);
    out.extend_from_slice(body);
    end_response(out, mark, template);
}

/// The interim response to `Expect: 100-continue` (RFC 9110, section 10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

fn write_head(out: &mut Vec<u8>, response: &Response<'_>, template: &HeadTemplate) {
    let framing = response.body_framing();
    response.status.write_line(out);
    if framing != BodyFraming::None {
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
    out.extend_from_slice(template.date().as_bytes());
    out.extend_from_slice(b"\r\nX-Request-ID: ");
    out.extend_from_slice(response.fields.request_id.unwrap_or_else(|| template.request_id()));
    out.extend_from_slice(b"\r\n");
    response.fields.write(out);
    let closes_at_end = framing == BodyFraming::UntilEnd && !response.is_chunked;
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
    out.extend_from_slice(match framing {
        BodyFraming::ContentLength => b"Content-Length: ",
        BodyFraming::None if response.status.forbids_body() => b"\r\n",
        BodyFraming::None => b"Content-Length: 0\r\n\r\n",
        BodyFraming::UntilEnd if closes_at_end => b"\r\n",
        BodyFraming::UntilEnd => b"Transfer-Encoding: chunked\r\n\r\n",
    });
    if framing == BodyFraming::ContentLength {
        out.resize(out.len() + template.length_digits(), b'0');
        out.extend_from_slice(HEAD_END);
    }
}

/// Fills in the length of the body that starts at `mark`, unless it has more or fewer digits than
/// the placeholder; returns whether it has as many.
#[inline]
fn write_length(out: &mut [u8], mark: &ResponseMark) -> bool {
    let mut rest = out.len() - mark.body;
    let end = mark.body - HEAD_END.len();
    let mut first = b'0';
    for digit in out[end - mark.length_digits..end].iter_mut().rev() {
        first = DIGITS[rest % 10];
        *digit = first;
        rest /= 10;
    }
    rest == 0 && (first != b'0' || mark.length_digits == 1)
}

/// Writes the length of the body that starts at `mark` with as many digits as it has, and moves the
/// body; returns where the body starts now. The next lengths are expected to have as many.
#[cold]
#[inline(never)]
fn write_other_length(
    out: &mut Vec<u8>,
    mark: &ResponseMark,
    template: &mut HeadTemplate,
) -> usize {
    let mut rest = out.len() - mark.body;
    let (mut text, mut first) = ([b'0'; LENGTH_DIGITS_MAX], LENGTH_DIGITS_MAX - 1);
    text[first] = DIGITS[rest % 10];
    while rest >= 10 {
        rest /= 10;
        first -= 1;
        text[first] = DIGITS[rest % 10];
    }
    let digits = &text[first..];
    let end = mark.body - HEAD_END.len();
    out.splice(end - mark.length_digits..end, digits.iter().copied());
    template.expect_length_digits(digits.len());
    mark.body - mark.length_digits + digits.len()
}

const DIGITS: &[u8; 10] = b"0123456789";

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
        let mut template = HeadTemplate::new(0, 7, 0);
        template.advance(784_111_777);
        let ids = [None, Some(&b"a"[..])];
        for (digits, request_id) in [3, 1, 20, 7].into_iter().flat_map(|it| ids.map(|id| (it, id)))
        {
            template.begin_request();
            template.expect_length_digits(digits);
            let fields = ResponseFields { request_id, ..ResponseFields::NONE };
            let response = Response { fields, ..Response::JSON };
            let (mut short, mut long) = (Vec::new(), Vec::new());
            let mark = begin_response(&mut short, &response, &template);
            write_head(&mut long, &response, &template);
            assert_eq!(String::from_utf8(short), String::from_utf8(long));
            assert_eq!(mark.framing, Response::JSON.body_framing());
        }
    }

    #[test]
    fn content_length_has_no_padding_at_any_size() {
        let mut template = HeadTemplate::new(784_111_777, 0, 0);
        let sizes = [0, 1, 9, 10, 99, 100, 999, 1_000, 4_095, 65_536, 1_000_000, 7, 123, 0, 0];
        let mut out = Vec::new();
        let mut expected = String::new();
        for bytes in sizes {
            let body = "x".repeat(bytes);
            write_response(&mut out, &Response::JSON, &mut template, body.as_bytes());
            expected += "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
                         Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n\
                         X-Request-ID: 00000000-0000-4000-8000-000000000000\r\n";
            expected += "Content-Length: ";
            expected += &bytes.to_string();
            expected += "\r\n\r\n";
            expected += &body;
        }
        assert!(String::from_utf8(out) == Ok(expected), "lengths {sizes:?}");
    }

    #[test]
    fn head_response_has_length_of_full_response() {
        let mut template = HeadTemplate::new(0, 0, 0);
        for bytes in [12, 123_456] {
            let mut out = Vec::new();
            let mark = begin_response(&mut out, &Response::JSON, &template);
            out.resize(out.len() + bytes, b'x');
            end_head_response(&mut out, mark, &mut template);
            let text = String::from_utf8(out).unwrap();
            assert!(text.ends_with(&format!("\r\nContent-Length: {bytes}\r\n\r\n")), "{text}");
        }
    }
}
