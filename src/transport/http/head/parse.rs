//! Parsing of a [`Head`]: httparse splits the lines; their meaning is decided here, and ambiguous
//! heads are rejected (RFC 9112, sections 2.2, 3, 5, 6 and 11.2).

use std::mem::MaybeUninit;
use std::ops::Range;

use httparse::{Header, Request};
use memchr::memchr;

use super::field_parser::{FieldParser, offset_in};
use super::{BodyLength, Head, HeadEnd, HttpMethod, Span, TargetSpan};
use crate::http::grammar::{is_host, is_token_byte};
use crate::http::head::{FIELDS_MAX, RequestError, RequestLimits};
use crate::http::status::Status;

impl Head {
    /// Parses the head at the start of `bytes`. Returns `None` if it is incomplete. Empty lines
    /// before it are not skipped. Does not allocate.
    ///
    /// # Errors
    ///
    /// The error response for an invalid head. It does not depend on how many of the following
    /// bytes have arrived.
    pub fn parse(bytes: &[u8], limits: &RequestLimits) -> Result<Option<Self>, RequestError> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        if !is_token_byte(first) {
            // Fail early: the input may be a TLS handshake.
            return Err(RequestError::bad_request("the request does not begin with a method"));
        }
        let mut lines = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS_MAX];
        let lines = &mut lines[..limits.fields_max.min(FIELDS_MAX)];
        let mut request = Request::new(&mut []);
        match request.parse_with_uninit_headers(bytes, lines) {
            Ok(httparse::Status::Complete(length)) if length <= limits.head_bytes_max => {
                let head = build_head(bytes, length, &request)?;
                match head.body {
                    BodyLength::Length(length) if length > limits.body_bytes_max as u64 => {
                        Err(RequestError::body_too_large())
                    }
                    _ => Ok(Some(head)),
                }
            }
            Ok(httparse::Status::Complete(_)) => Err(oversized_head_error(bytes, limits)),
            Ok(httparse::Status::Partial) => check_unparsed(bytes, limits, None),
            Err(error) => check_unparsed(bytes, limits, Some(error)),
        }
    }
}

/// Handles a head that httparse rejects or finds incomplete: an error once it is complete or over
/// the limit.
#[cold]
fn check_unparsed(
    bytes: &[u8],
    limits: &RequestLimits,
    error: Option<httparse::Error>,
) -> Result<Option<Head>, RequestError> {
    let window = &bytes[..bytes.len().min(limits.head_bytes_max)];
    match HeadEnd::default().find(window) {
        Some(end) => Err(malformed_head_error(&bytes[..end], error)),
        None if window.len() == limits.head_bytes_max => Err(oversized_head_error(bytes, limits)),
        None => Ok(None),
    }
}

/// Returns why a complete head is invalid.
fn malformed_head_error(head: &[u8], error: Option<httparse::Error>) -> RequestError {
    match error {
        Some(httparse::Error::TooManyHeaders) => {
            RequestError::fields_too_large("the head has too many fields")
        }
        Some(httparse::Error::Version) if has_unsupported_version(head) => RequestError {
            status: Status::VERSION_NOT_SUPPORTED,
            reason: "unsupported HTTP version: use HTTP/1.1 or HTTP/1.0",
        },
        Some(httparse::Error::HeaderName) => {
            RequestError::bad_request("a header field name is malformed")
        }
        Some(httparse::Error::HeaderValue) => {
            RequestError::bad_request("a header field value is malformed")
        }
        _ => RequestError::bad_request("the request line is malformed"),
    }
}

/// Returns whether the request line ends in an unsupported HTTP version.
fn has_unsupported_version(head: &[u8]) -> bool {
    let line = &head[..memchr(b'\n', head).unwrap_or(head.len())];
    let version = line.trim_ascii_end().rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    match version.strip_prefix(b"HTTP/") {
        Some(b"1.0" | b"1.1") | None => false,
        Some(number) => matches!(number, [b'0'..=b'9', b'.', b'0'..=b'9']),
    }
}

/// Returns the error for a head over the limit: 414 if the request line is incomplete (RFC 9110,
/// section 15.5.15), 431 otherwise (RFC 6585, section 5).
#[cold]
fn oversized_head_error(bytes: &[u8], limits: &RequestLimits) -> RequestError {
    let window = &bytes[..bytes.len().min(limits.head_bytes_max)];
    if window.contains(&b'\n') {
        return RequestError::fields_too_large("the head is too large");
    }
    RequestError { status: Status::URI_TOO_LONG, reason: "the request target is too long" }
}

/// Builds the head from the lines that httparse found in `bytes[..length]`.
#[inline]
fn build_head(
    bytes: &[u8],
    length: usize,
    request: &Request<'_, '_>,
) -> Result<Head, RequestError> {
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Err(RequestError::bad_request("the request line is malformed"));
    };
    // httparse accepts LF as a line end; other parsers do not (section 2.2).
    let mut is_strict = bytes[..length].ends_with(b"\r\n\r\n");
    let mut parser = FieldParser::default();
    for line in &*request.headers {
        let start = offset_in(bytes, line.name.as_bytes());
        is_strict &= bytes.get(start.wrapping_sub(2)) == Some(&b'\r');
        parser.parse_field(bytes, line.name.as_bytes(), line.value)?;
    }
    if !is_strict {
        return Err(RequestError::bad_request("a line ends in LF without CR"));
    }
    let minor_version = request.version.unwrap_or(1);
    let start = offset_in(bytes, target.as_bytes());
    let target = Target::parse(method, target.as_bytes())?;
    let authority = target.authority.map(|host| Span::new(start + host.start, start + host.end));
    parser.check_host(bytes, minor_version, authority)?;
    let path = Span::new(start + target.path.start, start + target.path.end);
    Ok(Head {
        method: parse_method(method),
        target: TargetSpan::new(path, bytes),
        minor_version,
        body: parser.body_length(minor_version)?,
        keep_alive: !parser.has_close && (minor_version == 1 || parser.has_keep_alive),
        expects_continue: parser.expects_continue && minor_version == 1,
        content_type: parser.content_type.unwrap_or_default(),
        content_coding: parser.content_coding,
        accept: parser.accept.finish(),
        has_param_headers: parser.has_param_headers,
        has_forwarded: parser.has_forwarded,
        bytes: Span::new(0, length).end,
        fields: parser.fields,
    })
}

/// Parses a method name, which is case-sensitive (RFC 9110, section 9.1).
fn parse_method(method: &str) -> HttpMethod {
    match method {
        "POST" => HttpMethod::Post,
        "GET" => HttpMethod::Get,
        "DELETE" => HttpMethod::Delete,
        "HEAD" => HttpMethod::Head,
        "OPTIONS" => HttpMethod::Options,
        _ => HttpMethod::Other,
    }
}

/// A request target as ranges of its bytes.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Target {
    /// The path with its query, or `*`.
    pub(super) path: Range<usize>,
    /// The host of an absolute-form target.
    pub(super) authority: Option<Range<usize>>,
}

impl Target {
    /// Parses the target of a request with `method`.
    pub(super) fn parse(method: &str, target: &[u8]) -> Result<Self, RequestError> {
        if !target.iter().all(|&byte| byte.is_ascii_graphic() && byte != b'#') {
            return Err(RequestError::bad_request("the request target has an invalid character"));
        }
        match target {
            // A tunnel would turn all following bytes into unparsed data.
            _ if method == "CONNECT" => Err(RequestError {
                status: Status::NOT_IMPLEMENTED,
                reason: "CONNECT is not supported",
            }),
            [b'/', ..] => Ok(Self { path: 0..target.len(), authority: None }),
            b"*" if method == "OPTIONS" => Ok(Self { path: 0..1, authority: None }),
            _ => Self::parse_absolute(target),
        }
    }

    /// Parses the absolute form, `http://host/path`, which every server must accept.
    fn parse_absolute(target: &[u8]) -> Result<Self, RequestError> {
        let scheme = SCHEMES.iter().find(|scheme| {
            target.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        let Some(scheme) = scheme else {
            return Err(RequestError::bad_request(
                "the request target is neither a path nor an http URI",
            ));
        };
        let start = scheme.len();
        let rest = &target[start..];
        let length = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
        let end = start + length.unwrap_or(rest.len());
        if end == start || !is_host(&target[start..end]) {
            return Err(RequestError::bad_request("the request target has no valid host"));
        }
        // A URI without a path means `/`: point at the slash before the host. Its query is dropped;
        // `/` takes none.
        let path =
            if target.get(end) == Some(&b'/') { end..target.len() } else { start - 1..start };
        Ok(Self { path, authority: Some(start..end) })
    }
}

const SCHEMES: [&[u8]; 2] = [b"http://", b"https://"];

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the path and host of a target, or the error status.
    fn read<'t>(method: &str, target: &'t str) -> Result<(&'t str, Option<&'t str>), u16> {
        let read = Target::parse(method, target.as_bytes());
        let read = read.map_err(|error| error.status.code())?;
        Ok((&target[read.path], read.authority.map(|authority| &target[authority])))
    }

    #[test]
    fn origin_form_target_is_the_path() {
        assert_eq!(read("POST", "/mcp?a=b"), Ok(("/mcp?a=b", None)));
        assert_eq!(read("GET", "//evil"), Ok(("//evil", None)));
    }

    #[test]
    fn absolute_form_target_yields_path_and_host() {
        assert_eq!(read("GET", "http://a.b:8/c?d"), Ok(("/c?d", Some("a.b:8"))));
        assert_eq!(read("GET", "HTTPS://[::1]/"), Ok(("/", Some("[::1]"))));
        assert_eq!(read("GET", "http://a"), Ok(("/", Some("a"))));
        assert_eq!(read("GET", "http://a?b"), Ok(("/", Some("a"))));
    }

    #[test]
    fn asterisk_target_is_only_for_options() {
        assert_eq!(read("OPTIONS", "*"), Ok(("*", None)));
        assert_eq!(read("GET", "*"), Err(400));
    }

    #[test]
    fn other_request_targets_are_rejected() {
        for target in ["mcp", "ftp://a/", "http:///a", "http://u@a/", "/a#b", "/\u{e9}", "http:/"] {
            assert_eq!(read("GET", target), Err(400), "{target}");
        }
        assert_eq!(read("CONNECT", "a:443"), Err(501));
    }
}
