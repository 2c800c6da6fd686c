//! From bytes to a [`Head`]: httparse cuts the lines, what follows here decides what they mean and
//! refuses what could be read in two ways (RFC 9112, sections 2.2, 3, 5, 6 and 11.2).

use std::mem::MaybeUninit;

use httparse::{Header, Request};
use memchr::memchr;

use super::reading::{Reading, offset};
use super::target::Target;
use super::{BodyLength, Head, HeadEnd, Span, Verb};
use crate::transport::http::grammar::is_token;
use crate::transport::http::limits::{FIELDS_MAX, Limits, Refusal};
use crate::transport::http::status::Status;

impl Head {
    /// Reads the head that `bytes` begin with; `None` where it does not end in them. Empty lines
    /// before it are not skipped. Takes no memory.
    ///
    /// # Errors
    ///
    /// What the head is answered with in place of what it asks for. It does not depend on how much
    /// of what follows has come: the same head is refused for the same reason.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Option<Self>, Refusal> {
        let Some(&first) = bytes.first() else { return Ok(None) };
        if !is_token(first) {
            // No need to wait for the end of a head: this is a handshake of TLS, or nothing.
            return Err(Refusal::bad("the request does not begin with a method"));
        }
        let mut lines = [const { MaybeUninit::<Header<'_>>::uninit() }; FIELDS_MAX];
        let lines = &mut lines[..limits.fields_max.min(FIELDS_MAX)];
        let mut request = Request::new(&mut []);
        match request.parse_with_uninit_headers(bytes, lines) {
            Ok(httparse::Status::Complete(length)) if length <= limits.head_bytes_max => {
                let head = read(bytes, length, &request)?;
                match head.body {
                    BodyLength::Length(length) if length > limits.body_bytes_max as u64 => {
                        Err(Refusal::large_body())
                    }
                    _ => Ok(Some(head)),
                }
            }
            Ok(httparse::Status::Complete(_)) => Err(refuse_large(bytes, limits)),
            Ok(httparse::Status::Partial) => judge_unread(bytes, limits, None),
            Err(error) => judge_unread(bytes, limits, Some(error)),
        }
    }
}

/// A head that could not be read, or not yet: refused once it is whole or too large.
#[cold]
fn judge_unread(
    bytes: &[u8],
    limits: &Limits,
    error: Option<httparse::Error>,
) -> Result<Option<Head>, Refusal> {
    let window = &bytes[..bytes.len().min(limits.head_bytes_max)];
    match HeadEnd::default().find(window) {
        Some(end) => Err(refuse_lines(&bytes[..end], error)),
        None if window.len() == limits.head_bytes_max => Err(refuse_large(bytes, limits)),
        None => Ok(None),
    }
}

/// Why a whole head is none.
fn refuse_lines(head: &[u8], error: Option<httparse::Error>) -> Refusal {
    match error {
        Some(httparse::Error::TooManyHeaders) => {
            Refusal::large_fields("the head has too many fields")
        }
        Some(httparse::Error::Version) if names_other_version(head) => Refusal {
            status: Status::VERSION_NOT_SUPPORTED,
            reason: "the version is neither HTTP/1.1 nor HTTP/1.0",
        },
        Some(httparse::Error::HeaderName) => Refusal::bad("the name of a field is malformed"),
        Some(httparse::Error::HeaderValue) => Refusal::bad("the value of a field is malformed"),
        _ => Refusal::bad("the request line is malformed"),
    }
}

/// Whether the first line ends in a version of HTTP that is not spoken.
fn names_other_version(head: &[u8]) -> bool {
    let line = &head[..memchr(b'\n', head).unwrap_or(head.len())];
    let version = line.trim_ascii_end().rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    match version.strip_prefix(b"HTTP/") {
        Some(b"1.0" | b"1.1") | None => false,
        Some(number) => matches!(number, [b'0'..=b'9', b'.', b'0'..=b'9']),
    }
}

/// A head longer than it may be: the target is to blame where its line does not end (RFC 9110,
/// section 15.5.15), else the fields are (RFC 6585, section 5).
#[cold]
fn refuse_large(bytes: &[u8], limits: &Limits) -> Refusal {
    let window = &bytes[..bytes.len().min(limits.head_bytes_max)];
    if window.contains(&b'\n') {
        return Refusal::large_fields("the head is too large");
    }
    Refusal { status: Status::URI_TOO_LONG, reason: "the request target is too long" }
}

/// Reads what httparse has cut out of `bytes[..length]`.
#[inline]
fn read(bytes: &[u8], length: usize, request: &Request<'_, '_>) -> Result<Head, Refusal> {
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Err(Refusal::bad("the request line is malformed"));
    };
    // httparse takes a line feed alone for the end of a line; others do not (section 2.2).
    let mut is_strict = bytes[..length].ends_with(b"\r\n\r\n");
    let mut reading = Reading::default();
    for line in &*request.headers {
        let start = offset(bytes, line.name.as_bytes());
        is_strict &= bytes.get(start.wrapping_sub(2)) == Some(&b'\r');
        reading.take(bytes, line.name.as_bytes(), line.value)?;
    }
    if !is_strict {
        return Err(Refusal::bad("a line ends in a line feed alone"));
    }
    let minor_version = request.version.unwrap_or(1);
    let start = offset(bytes, target.as_bytes());
    let target = Target::read(method, target.as_bytes())?;
    let authority =
        target.authority.map(|host| Span::between(start + host.start, start + host.end));
    reading.settle_host(bytes, minor_version, authority)?;
    Ok(Head {
        verb: verb(method),
        target: Span::between(start + target.path.start, start + target.path.end),
        minor_version,
        body: reading.body(minor_version)?,
        keeps_alive: !reading.says_close && (minor_version == 1 || reading.says_keep_alive),
        expects_continue: reading.expects_continue && minor_version == 1,
        content_type: reading.content_type.unwrap_or_default(),
        content_coding: reading.content_coding,
        accept: reading.accept.finish(),
        has_params: reading.has_params,
        bytes: Span::between(0, length).end,
        fields: reading.fields,
    })
}

/// The verb of a method; methods differ by case (RFC 9110, section 9.1).
fn verb(method: &str) -> Verb {
    match method {
        "POST" => Verb::Post,
        "GET" => Verb::Get,
        "DELETE" => Verb::Delete,
        "HEAD" => Verb::Head,
        "OPTIONS" => Verb::Options,
        _ => Verb::Other,
    }
}
