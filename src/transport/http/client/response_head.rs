//! The head of a response: its status, and the fields that a client of MCP and the framing of
//! HTTP/1.1 use (RFC 9112, sections 4 and 6; RFC 9110, section 10.2.3).

use std::fmt;
use std::time::{Duration, SystemTime};

use httparse::{Header, Response};

use crate::http::grammar::single_value;
use crate::http::head::{ContentCoding, FIELDS_MAX};

/// How every response begins.
const HTTP_START: &[u8] = b"HTTP/1.";
/// Why text of another protocol is no response.
pub(crate) const NOT_HTTP: &str = "the server does not speak HTTP/1.1";

/// Returns whether `bytes` may be the beginning of a response. Empty lines before it are ignored.
pub(crate) fn may_be_response(bytes: &[u8]) -> bool {
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let start = bytes.iter().position(|byte| !is_line_end(byte)).unwrap_or(bytes.len());
    let bytes = &bytes[start..];
    HTTP_START.starts_with(&bytes[..bytes.len().min(HTTP_START.len())])
}

/// Size limits of a response.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ResponseLimits {
    /// Bytes of a head including its final empty line. Default 64 KiB.
    pub head_bytes_max: usize,
    /// Bytes of a body that are held at a time. Default 16 MiB.
    pub body_bytes_max: usize,
}

impl Default for ResponseLimits {
    fn default() -> Self {
        Self { head_bytes_max: 64 << 10, body_bytes_max: 16 << 20 }
    }
}

/// Why a response cannot be read. The connection is of no use after it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ResponseError {
    /// It violates HTTP or a limit.
    Invalid(&'static str),
    /// The connection ended inside the response.
    Truncated,
}

impl fmt::Display for ResponseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Invalid(reason) => reason,
            Self::Truncated => "the connection ended inside the response",
        })
    }
}

/// The media type of a body.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum MediaType {
    /// `Content-Type` is missing.
    #[default]
    Missing,
    /// `application/json`, with or without parameters.
    Json,
    /// `text/event-stream`, with or without parameters.
    EventStream,
    /// Any other type.
    Other,
}

impl MediaType {
    fn parse(value: &[u8]) -> Self {
        let essence = value.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        if essence.eq_ignore_ascii_case(b"application/json") {
            Self::Json
        } else if essence.eq_ignore_ascii_case(b"text/event-stream") {
            Self::EventStream
        } else {
            Self::Other
        }
    }
}

/// Where the body of a response ends (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BodyEnd {
    /// After this many bytes.
    Length(u64),
    /// After the last chunk.
    Chunks,
    /// With the connection.
    Close,
}

/// When the server may be asked again (RFC 9110, section 10.2.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RetryAfter {
    /// After so many seconds.
    Seconds(u64),
    /// At this time, in seconds since 1970-01-01 UTC.
    Date(u64),
}

impl RetryAfter {
    /// Reads a value; `None` if it is neither a number of seconds nor a date.
    fn parse(value: &[u8]) -> Option<Self> {
        if !value.is_empty() && value.iter().all(u8::is_ascii_digit) {
            return Some(Self::Seconds(parse_length(value).unwrap_or(u64::MAX)));
        }
        parse_date(value).map(Self::Date)
    }
}

/// The head of a response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ResponseHead {
    /// The status code, such as 200.
    pub status: u16,
    /// `Content-Type`.
    pub media_type: MediaType,
    /// `Content-Encoding`.
    pub content_coding: ContentCoding,
    /// Where the body ends.
    pub body_end: BodyEnd,
    /// Whether the connection persists after the response (RFC 9112, section 9.3).
    pub keep_alive: bool,
    /// `Mcp-Session-Id`: visible ASCII characters; one value, if equal ones are repeated.
    pub session_id: Option<Box<str>>,
    /// `Retry-After`.
    pub retry_after: Option<RetryAfter>,
    /// `Date`, in seconds since 1970-01-01 UTC.
    pub date: Option<u64>,
    /// `timeout` of `Keep-Alive`: the server closes the connection once it has been idle for so
    /// many seconds (RFC 2068, section 19.7.1.1).
    pub keep_alive_seconds: Option<u32>,
    /// The values of `WWW-Authenticate` that are text.
    pub challenges: Vec<Box<str>>,
    /// `DPoP-Nonce`: visible ASCII characters (RFC 9449, section 8.1).
    pub dpop_nonce: Option<Box<str>>,
    /// `Location`: visible ASCII characters.
    pub location: Option<Box<str>>,
}

impl ResponseHead {
    /// Parses a complete head.
    ///
    /// # Errors
    ///
    /// [`ResponseError::Invalid`].
    pub fn parse(bytes: &[u8]) -> Result<Self, ResponseError> {
        let mut lines = [httparse::EMPTY_HEADER; FIELDS_MAX];
        let mut response = Response::new(&mut lines);
        match response.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => {
                return Err(ResponseError::Invalid("the response has too many fields"));
            }
            _ => return Err(ResponseError::Invalid(NOT_HTTP)),
        }
        let mut fields = Fields::default();
        for line in &*response.headers {
            fields.read(line)?;
        }
        let status = response.code.unwrap_or_default();
        let is_persistent = response.version == Some(1) || fields.has_keep_alive;
        let body_end = fields.body_end(status);
        let is_ambiguous = fields.length.is_some() && fields.is_chunked;
        Ok(Self {
            status,
            media_type: fields.media_type,
            content_coding: fields.content_coding,
            body_end,
            keep_alive: is_persistent
                && !fields.has_close
                && !is_ambiguous
                && body_end != BodyEnd::Close,
            session_id: fields.session_id,
            retry_after: fields.retry_after,
            date: fields.date,
            keep_alive_seconds: fields.keep_alive_seconds,
            challenges: fields.challenges,
            dpop_nonce: fields.dpop_nonce,
            location: fields.location,
        })
    }

    /// Returns the time after which the server may be asked again, if it states one. `unix_ms` is
    /// the time of this machine, in milliseconds since 1970-01-01 UTC. A date counts from the
    /// `Date` of the response if it has one, since the clocks of the two may differ.
    pub fn retry_delay(&self, unix_ms: u64) -> Option<Duration> {
        Some(match (self.retry_after?, self.date) {
            (RetryAfter::Seconds(seconds), _) => Duration::from_secs(seconds),
            (RetryAfter::Date(at), Some(date)) => Duration::from_secs(at.saturating_sub(date)),
            (RetryAfter::Date(at), None) => {
                Duration::from_millis(at.saturating_mul(1_000).saturating_sub(unix_ms))
            }
        })
    }

    /// Returns whether the body is a stream of events of a successful response.
    pub fn is_event_stream(&self) -> bool {
        self.media_type == MediaType::EventStream && matches!(self.status, 200..300)
    }
}

/// The fields as far as they are read.
#[derive(Debug, Default)]
struct Fields {
    media_type: MediaType,
    content_coding: ContentCoding,
    length: Option<u64>,
    /// `Transfer-Encoding: chunked` is present.
    is_chunked: bool,
    has_close: bool,
    has_keep_alive: bool,
    session_id: Option<Box<str>>,
    retry_after: Option<RetryAfter>,
    date: Option<u64>,
    keep_alive_seconds: Option<u32>,
    challenges: Vec<Box<str>>,
    dpop_nonce: Option<Box<str>>,
    location: Option<Box<str>>,
}

impl Fields {
    fn read(&mut self, line: &Header<'_>) -> Result<(), ResponseError> {
        let value = line.value.trim_ascii();
        let is_named = |name: &str| line.name.eq_ignore_ascii_case(name);
        if is_named("content-length") {
            let length = parse_length(value);
            if length.is_none() || self.length.is_some_and(|other| Some(other) != length) {
                return Err(ResponseError::Invalid("Content-Length is invalid"));
            }
            self.length = length;
        } else if is_named("transfer-encoding") {
            if self.is_chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(ResponseError::Invalid("Transfer-Encoding is not chunked"));
            }
            self.is_chunked = true;
        } else if is_named("content-type") {
            self.media_type = MediaType::parse(value);
        } else if is_named("content-encoding") {
            if ContentCoding::parse(value) != ContentCoding::Identity {
                self.content_coding = ContentCoding::Other;
            }
        } else if is_named("connection") {
            for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
                self.has_close |= option.eq_ignore_ascii_case(b"close");
                self.has_keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
            }
        } else if is_named("mcp-session-id") {
            let text = visible_text(value).or_else(|| visible_text(single_value(value)));
            let text = text.ok_or(ResponseError::Invalid("Mcp-Session-Id is invalid"))?;
            if self.session_id.as_ref().is_some_and(|known| *known != text) {
                let reason = "Mcp-Session-Id is repeated with different values";
                return Err(ResponseError::Invalid(reason));
            }
            self.session_id = Some(text);
        } else if is_named("keep-alive") {
            let mut parameters = value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
            let timeout = parameters.find_map(|parameter| parameter.strip_prefix(b"timeout="));
            let timeout = timeout.and_then(|timeout| std::str::from_utf8(timeout).ok());
            self.keep_alive_seconds = timeout.and_then(|timeout| timeout.parse().ok());
        } else if is_named("retry-after") {
            self.retry_after = RetryAfter::parse(value);
        } else if is_named("date") {
            self.date = parse_date(value);
        } else if is_named("www-authenticate") {
            self.challenges.extend(std::str::from_utf8(value).ok().map(Into::into));
        } else if is_named("dpop-nonce") {
            self.dpop_nonce = visible_text(value);
        } else if is_named("location") {
            self.location = visible_text(value);
        }
        Ok(())
    }

    const fn body_end(&self, status: u16) -> BodyEnd {
        match (status, self.length) {
            (100..200 | 204 | 304, _) => BodyEnd::Length(0),
            _ if self.is_chunked => BodyEnd::Chunks,
            (_, Some(length)) => BodyEnd::Length(length),
            (_, None) => BodyEnd::Close,
        }
    }
}

/// Returns a value of visible ASCII characters.
fn visible_text(value: &[u8]) -> Option<Box<str>> {
    let is_valid = !value.is_empty() && value.iter().all(u8::is_ascii_graphic);
    std::str::from_utf8(value).ok().filter(|_| is_valid).map(Into::into)
}

/// Reads a date in one of the forms of HTTP (RFC 9110, section 5.6.7), as seconds since 1970-01-01
/// UTC.
fn parse_date(value: &[u8]) -> Option<u64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()?;
    Some(date.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
}

/// Parses a decimal number without a sign.
fn parse_length(value: &[u8]) -> Option<u64> {
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| is_number)?.parse().ok()
}
