//! The head of one request: its verb, its target and the fields that MCP over HTTP and the framing
//! of HTTP/1.1 look at (RFC 9112, sections 2 to 6; MCP 2026-07-28 basic/transports).
//!
//! What it keeps true: a head is judged when it is whole, in one pass, without memory; a field that
//! means one thing stands once; the length of the body is known, or the head is refused. It holds
//! places, not bytes: whoever asks for a value brings the bytes that the head was read from.

mod media;

mod target;

mod reading;

mod parse;

use memchr::memchr;

use super::grammar::is_name;

pub use self::media::{Accept, ContentCoding, ContentType};

/// A place in the bytes of a request, counted from the first byte of its head.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// The one behind the last.
    pub end: u32,
}

impl Span {
    /// The place of `start..end`, which lies within a head.
    #[expect(clippy::cast_possible_truncation, reason = "a head is not that long")]
    const fn between(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// What stands there. Nothing, where `bytes` are not those of the request.
    #[inline]
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// What a request wants done (RFC 9110, section 9).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Verb {
    /// Ends a session.
    Delete,
    /// Opens a stream or reads a page.
    Get,
    /// What GET would say, without the body.
    Head,
    /// Asks what may be asked, mostly for a page of another origin.
    Options,
    /// Brings a message.
    Post,
    /// Anything else.
    #[default]
    Other,
}

/// The fields whose value is asked for. Each means one thing: twice in a head, it is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Field {
    /// `Access-Control-Request-Headers` (Fetch standard, CORS preflight).
    AccessControlRequestHeaders,
    /// `Access-Control-Request-Method` (Fetch standard, CORS preflight).
    AccessControlRequestMethod,
    /// `Authorization` (RFC 9110, section 11.6.2).
    Authorization,
    /// `Host` (RFC 9110, section 7.2), or the host of a target in absolute form.
    Host,
    /// `Last-Event-ID` (HTML standard, server-sent events).
    LastEventId,
    /// `Mcp-Method` (2026-07-28).
    McpMethod,
    /// `Mcp-Name` (2026-07-28).
    McpName,
    /// `MCP-Protocol-Version` (2025-06-18 and later).
    McpProtocolVersion,
    /// `Mcp-Session-Id` (2025-03-26 to 2025-11-25).
    McpSessionId,
    /// `Origin` (RFC 6454, section 7).
    Origin,
}

/// How many of [`Field`] there are.
const FIELDS: usize = Field::Origin as usize + 1;

/// How long the body of a request is (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum BodyLength {
    /// There is none.
    #[default]
    None,
    /// As many bytes as `Content-Length` says.
    Length(u64),
    /// It says so itself, chunk by chunk.
    Chunked,
}

/// One head. Places are counted from its first byte.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Head {
    /// What is wanted.
    pub verb: Verb,
    /// The path with its query; `*` for a question about the whole server.
    pub target: Span,
    /// 1 for HTTP/1.1, 0 for HTTP/1.0.
    pub minor_version: u8,
    /// How long the body is.
    pub body: BodyLength,
    /// Whether another request may follow on the connection (RFC 9112, section 9.3).
    pub keeps_alive: bool,
    /// Whether the peer waits for `100 Continue` before it sends the body (RFC 9110, section
    /// 10.1.1).
    pub expects_continue: bool,
    /// The type of the body.
    pub content_type: ContentType,
    /// What was done to the body.
    pub content_coding: ContentCoding,
    /// The types that an answer may have.
    pub accept: Accept,
    /// Whether a field begins with `Mcp-Param-`.
    pub has_params: bool,
    /// Bytes of the head with its last empty line.
    pub bytes: u32,
    /// Values by [`Field`]; one that begins at zero is missing, for the method begins there.
    fields: [Span; FIELDS],
}

impl Head {
    /// The head of nothing, where none is awaited.
    pub(super) const EMPTY: Self = Self {
        verb: Verb::Other,
        target: Span { start: 0, end: 0 },
        minor_version: 1,
        body: BodyLength::None,
        keeps_alive: false,
        expects_continue: false,
        content_type: ContentType::Missing,
        content_coding: ContentCoding::Identity,
        accept: Accept { is_present: false, json: false, event_stream: false },
        has_params: false,
        bytes: 0,
        fields: [Span { start: 0, end: 0 }; FIELDS],
    };

    /// The value of a field without the white space around it; `None` where it is missing.
    #[inline]
    pub fn field<'b>(&self, bytes: &'b [u8], field: Field) -> Option<&'b [u8]> {
        let span = self.fields[field as usize];
        (span.start != 0).then(|| span.of(bytes))
    }

    /// The fields that mirror arguments (MCP 2026-07-28 basic/transports/streamable-http,
    /// `x-mcp-header`): what follows `Mcp-Param-` in the name, and the value. Reads the lines
    /// again: ask where [`Head::has_params`] says that there are some.
    pub fn params<'b>(&self, bytes: &'b [u8]) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
        let head = bytes.get(..self.bytes as usize).unwrap_or_default();
        head.split(|&byte| byte == b'\n').skip(1).filter_map(|line| {
            let colon = memchr(b':', line)?;
            let (name, value) = (&line[..colon], &line[colon + 1..]);
            Some((mirrored(name)?, value.trim_ascii()))
        })
    }

    /// The target without its query.
    pub fn path<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let target = self.target.of(bytes);
        &target[..memchr(b'?', target).unwrap_or(target.len())]
    }
}

/// What follows `Mcp-Param-` in the name of a field that begins so.
#[inline]
fn mirrored(name: &[u8]) -> Option<&[u8]> {
    let (start, rest) = name.split_first_chunk::<10>()?;
    is_name(start, b"mcp-param-").then_some(rest)
}

/// Where the heads of a stream end: the first empty line behind the first line. Remembers what it
/// has seen, so that a head which comes byte by byte is looked at once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum HeadEnd {
    /// Within a line.
    #[default]
    InLine,
    /// At the beginning of a line.
    LineStart,
    /// A line has begun with a carriage return.
    AfterReturn,
}

impl HeadEnd {
    /// Looks at the next bytes of a head; says how many of them belong to it where it ends in them.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            let rest = &bytes[at..];
            let (next, length) = match (*self, rest.first()?) {
                (Self::LineStart | Self::AfterReturn, b'\n') => return Some(at + 1),
                (Self::LineStart, b'\r') => (Self::AfterReturn, 1),
                _ => match memchr(b'\n', rest) {
                    Some(length) => (Self::LineStart, length + 1),
                    None => (Self::InLine, rest.len()),
                },
            };
            *self = next;
            at += length;
        }
    }
}
