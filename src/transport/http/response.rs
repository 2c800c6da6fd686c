//! The head of an answer, and what frames the body behind it.
//!
//! An answer is written in one go into one buffer: [`begin`] appends the head with an empty place
//! for the length, the caller appends the body, [`end`] puts the length in. What it keeps true: the
//! length is that of the body, an answer that may not have a body has none, and nothing is moved,
//! copied twice or allocated but the growth of the buffer. The length stands behind spaces, which
//! a field may begin with (RFC 9112, section 5.1).
//!
//! JSON answers have no `Cache-Control`: an answer to a POST is not kept by caches that were not
//! told to (RFC 9110, section 9.3.3). It does not know what a request asked for.
//!
//! Source: RFC 9112, sections 4, 6 and 9; MCP 2026-07-28 basic/transports/streamable-http.

use super::date::{self, Date};
use super::fields::Fields;
use super::status::Status;

/// What an answer says before its body.
#[derive(Clone, Copy, Debug)]
pub struct Response<'a> {
    /// How the request ended.
    pub status: Status,
    /// What follows the head.
    pub body: Body,
    /// Whether the connection closes behind the answer. An answer to HTTP/1.0 closes: nothing
    /// here says `keep-alive`.
    pub closes: bool,
    /// Whether an event stream comes in chunks. Without them (HTTP/1.0) only the end of the
    /// connection ends the stream, so it closes whatever `closes` says.
    pub is_chunked: bool,
    /// What only some answers say.
    pub fields: Fields<'a>,
}

impl Response<'_> {
    /// 200 with a JSON text on a connection that stays: the answer to most requests.
    pub const JSON: Self = Self::new(Status::OK, Body::Json);

    /// An answer on a connection that stays, streamed in chunks where it is a stream.
    pub const fn new(status: Status, body: Body) -> Self {
        Self { status, body, closes: false, is_chunked: true, fields: Fields::NONE }
    }

    /// Whether [`PLAIN`] is its head.
    #[inline]
    fn is_plain(&self) -> bool {
        self.status == Status::OK
            && self.body == Body::Json
            && !self.closes
            && self.fields.is_empty()
    }

    const fn ending(&self) -> Ending {
        if self.status.forbids_body() {
            return Ending::Empty;
        }
        match self.body {
            Body::EventStream => Ending::Open,
            Body::Json | Body::Text(_) => Ending::Counted,
            Body::Nothing => Ending::Empty,
        }
    }
}

/// What follows a head.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Body {
    /// Server-sent events, for as long as the stream lasts.
    EventStream,
    /// One JSON text.
    Json,
    /// Nothing.
    Nothing,
    /// A text of this media type.
    Text(&'static str),
}

/// Where an answer that has begun stands in its buffer. Valid as long as nothing before or inside
/// the answer is moved.
#[derive(Debug)]
#[must_use = "an answer that was begun has to be ended"]
pub struct Mark {
    head: usize,
    body: usize,
    ending: Ending,
}

impl Mark {
    /// Where the head begins.
    pub const fn head(&self) -> usize {
        self.head
    }

    /// Where the body begins.
    pub const fn body(&self) -> usize {
        self.body
    }
}

/// How the end of a body is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Ending {
    /// By its length, whose place is the end of the head.
    Counted,
    /// There is no body.
    Empty,
    /// By the last chunk, or by the end of the connection.
    Open,
}

/// Appends the head of an answer; the body is to be appended behind it.
///
/// Cost: two copies of 116 bytes for the plain answer ([`Response::JSON`]).
#[inline]
pub fn begin(out: &mut Vec<u8>, response: &Response<'_>, date: &Date) -> Mark {
    let head = out.len();
    let ending = if response.is_plain() {
        let mut text = *PLAIN;
        text[PLAIN_DATE_AT..PLAIN_DATE_AT + date::LENGTH].copy_from_slice(date.as_bytes());
        out.extend_from_slice(&text);
        Ending::Counted
    } else {
        write_head(out, response, date);
        response.ending()
    };
    Mark { head, body: out.len(), ending }
}

/// Ends an answer: what stands behind its head is its body. Where it has none, that is removed.
///
/// # Panics
///
/// If the body has more bytes than ten digits can tell.
#[inline]
#[expect(clippy::needless_pass_by_value, reason = "an answer ends once: its mark is used up")]
pub fn end(out: &mut Vec<u8>, mark: Mark) {
    match mark.ending {
        Ending::Counted => put_length(out, mark.body),
        Ending::Empty => out.truncate(mark.body),
        Ending::Open => {}
    }
}

/// Ends the answer to a HEAD: the head is that of the whole answer, the body is left out (RFC
/// 9110, section 9.3.2).
pub fn end_without_body(out: &mut Vec<u8>, mark: Mark) {
    let body = mark.body;
    end(out, mark);
    out.truncate(body);
}

/// Puts another head before the body that was written behind the one of `mark`. Where the new
/// answer has no body, or one that comes later, what was written is removed.
///
/// Cost: it moves the body; meant for what turns out to be an error.
#[expect(clippy::needless_pass_by_value, reason = "the head that it stands for is gone")]
pub fn amend(out: &mut Vec<u8>, mark: Mark, response: &Response<'_>, date: &Date) -> Mark {
    if response.ending() != Ending::Counted {
        out.truncate(mark.head);
        return begin(out, response, date);
    }
    out.drain(mark.head..mark.body);
    let written = out.len();
    let Mark { head, body, ending } = begin(out, response, date);
    let head_bytes = body - head;
    debug_assert_eq!(head, written);
    out[mark.head..].rotate_right(head_bytes);
    Mark { head: mark.head, body: mark.head + head_bytes, ending }
}

/// Appends a whole answer.
pub fn whole(out: &mut Vec<u8>, response: &Response<'_>, date: &Date, body: &[u8]) {
    let mark = begin(out, response, date);
    out.extend_from_slice(body);
    end(out, mark);
}

/// What is said to a client that waits before it sends a body (RFC 9110, section 10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

fn write_head(out: &mut Vec<u8>, response: &Response<'_>, date: &Date) {
    let ending = response.ending();
    response.status.write_line(out);
    if ending != Ending::Empty {
        match response.body {
            Body::EventStream => out.extend_from_slice(STREAM),
            Body::Json => out.extend_from_slice(b"Content-Type: application/json\r\n"),
            Body::Nothing => {}
            Body::Text(media_type) => {
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
    let ends_with_connection = ending == Ending::Open && !response.is_chunked;
    let upgrades = response.status == Status::UPGRADE_REQUIRED;
    out.extend_from_slice(match (response.closes || ends_with_connection, upgrades) {
        (false, false) => b"",
        (false, true) => b"Connection: Upgrade\r\n",
        (true, false) => b"Connection: close\r\n",
        (true, true) => b"Connection: close, Upgrade\r\n",
    });
    if upgrades {
        out.extend_from_slice(UPGRADE);
    }
    out.extend_from_slice(match ending {
        Ending::Counted => LENGTH_TO_COME,
        Ending::Empty if response.status.forbids_body() => b"\r\n",
        Ending::Empty => b"Content-Length: 0\r\n\r\n",
        Ending::Open if ends_with_connection => b"\r\n",
        Ending::Open => b"Transfer-Encoding: chunked\r\n\r\n",
    });
}

/// Puts the length of the body that begins at `body` into the place before it.
#[inline]
fn put_length(out: &mut [u8], body: usize) {
    let mut rest = out.len() - body;
    let end = body - b"\r\n\r\n".len();
    for place in out[end - LENGTH_DIGITS..end].iter_mut().rev() {
        *place = b"0123456789"[rest % 10];
        rest /= 10;
        if rest == 0 {
            return;
        }
    }
    panic!("a body of more than {LENGTH_DIGITS} digits of bytes");
}

/// The head of the answer to most requests, with places for the date and the length.
const PLAIN: &[u8; 116] = b"HTTP/1.1 200 OK\r\n\
Content-Type: application/json\r\n\
Date: Ddd, 00 Mmm 0000 00:00:00 GMT\r\n\
Content-Length:          0\r\n\r\n";

const PLAIN_DATE_AT: usize = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: ".len();

/// The end of a head whose length is put in later.
const LENGTH_TO_COME: &[u8] = b"Content-Length:          0\r\n\r\n";

/// The place of a length: ten digits, more than any message may have bytes.
const LENGTH_DIGITS: usize = 10;

/// What to upgrade to, and to which version of it (RFC 9110, sections 7.8 and 15.5.22; RFC 6455,
/// section 4.4).
const UPGRADE: &[u8] = b"Upgrade: websocket\r\n\
Sec-WebSocket-Version: 13\r\n";

/// What a stream says of itself. No proxy on the way may collect or change it: each event is
/// wanted when it is written (MCP 2026-07-28 basic/transports/streamable-http asks for
/// `X-Accel-Buffering`).
const STREAM: &[u8] = b"Content-Type: text/event-stream\r\n\
Cache-Control: no-cache, no-transform\r\n\
X-Accel-Buffering: no\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plain_head_is_what_would_have_been_written_piece_by_piece() {
        let date = Date::new(784_111_777);
        let (mut short, mut long) = (Vec::new(), Vec::new());
        let mark = begin(&mut short, &Response::JSON, &date);
        write_head(&mut long, &Response::JSON, &date);
        assert_eq!(String::from_utf8(short), String::from_utf8(long));
        assert_eq!(mark.ending, Response::JSON.ending());
    }

    #[test]
    fn every_place_of_a_length_can_be_put_in() {
        let head = LENGTH_TO_COME.len();
        for bytes in [0, 1, 9, 10, 99, 100, 4_095, 65_536, 1_000_000] {
            let mut out = LENGTH_TO_COME.to_vec();
            out.resize(head + bytes, b'x');
            put_length(&mut out, head);
            let line = String::from_utf8(out[..head].to_vec()).unwrap();
            assert_eq!(line, format!("Content-Length: {bytes:>10}\r\n\r\n"));
        }
    }
}
