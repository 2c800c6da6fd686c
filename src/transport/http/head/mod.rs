//! The head of a request: method, target, and the fields used by MCP over HTTP and by the framing
//! of HTTP/1.1 (RFC 9112, sections 2 to 6; MCP 2026-07-28 basic/transports); and the limits and
//! errors of a request.
//!
//! Invariants: a head is parsed once, when it is complete, without allocation; single-valued fields
//! occur once; the length of the body is known. A head holds positions, not bytes: the accessors
//! take the bytes it was parsed from.

mod media;

mod field_parser;

mod parse;

use memchr::memchr;

pub use self::media::{Accept, ContentCoding, ContentType};
use super::grammar::is_field_name;
use super::status::Status;

/// A byte range in a request, counted from the first byte of its head.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// Creates the span `start..end`, which lies within a head.
    #[expect(clippy::cast_possible_truncation, reason = "a head is not that long")]
    const fn new(start: usize, end: usize) -> Self {
        Self { start: start as u32, end: end as u32 }
    }

    /// Returns the bytes of the span, or an empty slice if it lies outside `bytes`.
    #[inline]
    pub fn slice(self, bytes: &[u8]) -> &[u8] {
        bytes.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// The target of a request: a path with its query, or `*` (asterisk form).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
struct TargetSpan {
    span: Span,
    /// The end of the path.
    path_end: u32,
}

impl TargetSpan {
    /// Creates the target `span` of the head in `bytes`.
    fn new(span: Span, bytes: &[u8]) -> Self {
        let target = span.slice(bytes);
        let path_bytes = memchr(b'?', target).unwrap_or(target.len());
        Self { span, path_end: Span::new(0, span.start as usize + path_bytes).end }
    }

    #[inline]
    fn path(self, bytes: &[u8]) -> &[u8] {
        Span { start: self.span.start, end: self.path_end }.slice(bytes)
    }

    #[inline]
    fn query(self, bytes: &[u8]) -> &[u8] {
        Span { start: self.path_end + 1, end: self.span.end }.slice(bytes)
    }
}

/// A request method (RFC 9110, section 9).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum HttpMethod {
    /// DELETE: ends a session.
    Delete,
    /// GET: opens a stream or reads a page.
    Get,
    /// HEAD: GET without the body.
    Head,
    /// OPTIONS: asks for the allowed methods, or is a CORS preflight.
    Options,
    /// POST: carries a message.
    Post,
    /// Any other method.
    #[default]
    Other,
}

/// A field whose value can be queried. A head that repeats one is rejected, unless it is a field of
/// MCP and all its values are equal: intermediaries repeat lines and combine them into lists.
///
/// A head is copied several times a request, so that fields of rare requests have no place here:
/// see [`Head::other_fields`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Field {
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
    /// `X-Forwarded-For`: the last line, which continues those before it.
    XForwardedFor,
    /// `X-Request-ID`; empty if it is repeated with different values.
    XRequestId,
}

/// Number of [`Field`] variants.
const FIELD_COUNT: usize = Field::XRequestId as usize + 1;

/// Length of the body of a request (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum BodyLength {
    /// No body.
    #[default]
    None,
    /// `Content-Length`, in bytes.
    Length(u64),
    /// `Transfer-Encoding: chunked`.
    Chunked,
}

/// The head of a request. Positions count from its first byte.
#[derive(Clone, Debug, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "one per independent property")]
pub struct Head {
    /// The method.
    pub method: HttpMethod,
    /// The path with its query.
    target: TargetSpan,
    /// 1 for HTTP/1.1, 0 for HTTP/1.0.
    pub minor_version: u8,
    /// The length of the body.
    pub body: BodyLength,
    /// Whether the connection persists after the response (RFC 9112, section 9.3).
    pub keep_alive: bool,
    /// Whether the client waits for `100 Continue` before sending the body (RFC 9110, section
    /// 10.1.1).
    pub expects_continue: bool,
    /// `Content-Type`.
    pub content_type: ContentType,
    /// `Content-Encoding`.
    pub content_coding: ContentCoding,
    /// `Accept`.
    pub accept: Accept,
    /// Whether a field name begins with `Mcp-Param-`.
    pub has_param_headers: bool,
    /// Whether there is a field `Forwarded` (RFC 7239).
    pub has_forwarded: bool,
    /// Bytes of the head including its final empty line.
    pub bytes: u32,
    /// Values by [`Field`]; a span that starts at zero is missing, since the method is there.
    fields: [Span; FIELD_COUNT],
}

impl Head {
    /// Placeholder where no head is pending.
    pub(super) const EMPTY: Self = Self {
        method: HttpMethod::Other,
        target: TargetSpan { span: Span { start: 0, end: 0 }, path_end: 0 },
        minor_version: 1,
        body: BodyLength::None,
        keep_alive: false,
        expects_continue: false,
        content_type: ContentType::Missing,
        content_coding: ContentCoding::Identity,
        accept: Accept { is_present: false, json: false, event_stream: false },
        has_param_headers: false,
        has_forwarded: false,
        bytes: 0,
        fields: [Span { start: 0, end: 0 }; FIELD_COUNT],
    };

    /// Returns the value of a field without surrounding white space, or `None` if it is missing.
    #[inline]
    pub fn field<'b>(&self, bytes: &'b [u8], field: Field) -> Option<&'b [u8]> {
        let span = self.fields[field as usize];
        (span.start != 0).then(|| span.slice(bytes))
    }

    /// Iterates over the fields that mirror arguments (`x-mcp-header`, MCP 2026-07-28
    /// basic/transports/streamable-http): the part of the name after `Mcp-Param-`, and the value.
    /// Scans the lines again; call only if [`Head::has_param_headers`] is set.
    pub fn param_headers<'b>(&self, bytes: &'b [u8]) -> impl Iterator<Item = (&'b [u8], &'b [u8])> {
        let head = bytes.get(..self.bytes as usize).unwrap_or_default();
        head.split(|&byte| byte == b'\n').skip(1).filter_map(|line| {
            let colon = memchr(b':', line)?;
            let (name, value) = (&line[..colon], &line[colon + 1..]);
            Some((param_header_name(name)?, value.trim_ascii()))
        })
    }

    /// Iterates over the values of the fields with a name that is no [`Field`], without surrounding
    /// white space; `name` is in lower case. Scans the lines again.
    pub fn other_fields<'b>(
        &self,
        bytes: &'b [u8],
        name: &'static [u8],
    ) -> impl Iterator<Item = &'b [u8]> {
        field_values(bytes.get(..self.bytes as usize).unwrap_or_default(), name)
    }

    /// Returns the target without its query.
    #[inline]
    pub fn path<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        self.target.path(bytes)
    }

    /// Returns whether the target has a query.
    #[inline]
    pub const fn has_query(&self) -> bool {
        self.target.path_end < self.target.span.end
    }

    /// Returns the query of the target without its `?`; empty if there is none.
    #[inline]
    pub fn query<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        self.target.query(bytes)
    }
}

/// Iterates over the values of the fields of a head with this name, which is in lower case, without
/// surrounding white space. The head may be invalid.
pub fn field_values<'b>(head: &'b [u8], name: &'static [u8]) -> impl Iterator<Item = &'b [u8]> {
    head.split(|&byte| byte == b'\n').skip(1).filter_map(move |line| {
        let (own, value) = line.split_at_checked(name.len())?;
        let value = value.strip_prefix(b":")?;
        own.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
    })
}

/// Returns the path of the request that `head` begins, which may be cut or malformed.
pub fn target_path(head: &[u8]) -> &[u8] {
    let line = head.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let target = line.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
    target.split(|&byte| byte == b'?').next().unwrap_or_default()
}

/// Returns the part of a field name after `Mcp-Param-`, if it has this prefix.
#[inline]
fn param_header_name(name: &[u8]) -> Option<&[u8]> {
    let (start, rest) = name.split_first_chunk::<10>()?;
    is_field_name(start, b"mcp-param-").then_some(rest)
}

/// Finds the end of a head: the first empty line after the first line. Keeps its state between
/// calls, so that each byte is scanned once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum HeadEnd {
    /// Inside a line.
    #[default]
    InLine,
    /// At the start of a line.
    LineStart,
    /// After a carriage return at the start of a line.
    AfterReturn,
}

impl HeadEnd {
    /// Scans the next bytes of a head. Returns the number of bytes up to its end if it ends there.
    pub(crate) fn find(&mut self, bytes: &[u8]) -> Option<usize> {
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

/// Hard limit on the fields of a head; their positions are stored on the stack.
pub const FIELDS_MAX: usize = 64;

/// Size limits of a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestLimits {
    /// Bytes of a head including its final empty line. An incomplete head is buffered up to this
    /// size. Default 16 KiB.
    pub head_bytes_max: usize,
    /// Fields of a head, at most [`FIELDS_MAX`]. Default 64.
    pub fields_max: usize,
    /// Bytes of a decoded body. An incomplete body is buffered up to this size. Default 4 MiB.
    pub body_bytes_max: usize,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self { head_bytes_max: 16 << 10, fields_max: FIELDS_MAX, body_bytes_max: 4 << 20 }
    }
}

/// Why a request was rejected. The connection closes after the response, because the start of the
/// next request is unknown or cannot be trusted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestError {
    /// Status of the response.
    pub status: Status,
    /// Human-readable reason, without any data of the peer.
    pub reason: &'static str,
}

/// The reason for which a request with two `Authorization` fields is rejected.
pub const REPEATED_AUTHORIZATION: &str = "the header field Authorization is repeated";

impl RequestError {
    /// 400: malformed or ambiguous.
    pub(super) const fn bad_request(reason: &'static str) -> Self {
        Self { status: Status::BAD_REQUEST, reason }
    }

    /// 413: a body over `body_bytes_max`.
    pub(super) const fn body_too_large() -> Self {
        Self { status: Status::CONTENT_TOO_LARGE, reason: "the body is too large" }
    }

    /// 431: header or trailer fields too many or too long.
    pub(super) const fn fields_too_large(reason: &'static str) -> Self {
        Self { status: Status::REQUEST_HEADER_FIELDS_TOO_LARGE, reason }
    }
}
