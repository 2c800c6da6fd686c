//! Parsing of the fields of a head, line by line, and the rules for repeated fields, host and body
//! length (RFC 9112, sections 3.2, 6 and 11.2).

use super::media::AcceptParser;
use super::{BodyLength, ContentCoding, ContentType, FIELD_COUNT, Field, Span, param_header_name};
use crate::http::grammar::{is_field_name, is_host, single_value};
use crate::http::head::{REPEATED_AUTHORIZATION, RequestError};
use crate::http::request_id::is_same;
use crate::http::status::Status;

/// The fields parsed so far.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one per independent field value")]
pub(super) struct FieldParser {
    pub(super) fields: [Span; FIELD_COUNT],
    pub(super) accept: AcceptParser,
    pub(super) content_type: Option<ContentType>,
    pub(super) content_coding: ContentCoding,
    pub(super) has_close: bool,
    pub(super) has_keep_alive: bool,
    pub(super) expects_continue: bool,
    pub(super) has_param_headers: bool,
    pub(super) has_forwarded: bool,
    content_length: Option<u64>,
    is_chunked: bool,
}

impl FieldParser {
    /// Parses the next field line. Both slices lie within `bytes`.
    ///
    /// Dispatches by the length of the name, so that most lines cost one comparison.
    #[inline]
    pub(super) fn parse_field(
        &mut self,
        bytes: &[u8],
        name: &[u8],
        value: &[u8],
    ) -> Result<(), RequestError> {
        let field = match name.len() {
            4 if is_field_name(name, b"host") => Field::Host,
            6 if is_field_name(name, b"accept") => {
                self.accept.add(value);
                return Ok(());
            }
            6 if is_field_name(name, b"origin") => Field::Origin,
            6 if is_field_name(name, b"expect") => return self.parse_expect(value),
            8 if is_field_name(name, b"mcp-name") => Field::McpName,
            9 if is_field_name(name, b"forwarded") => {
                self.has_forwarded = true;
                return Ok(());
            }
            10 if is_field_name(name, b"mcp-method") => Field::McpMethod,
            10 if is_field_name(name, b"connection") => {
                self.parse_connection(value);
                return Ok(());
            }
            12 if is_field_name(name, b"content-type") => return self.parse_content_type(value),
            12 if is_field_name(name, b"x-request-id") => Field::XRequestId,
            13 if is_field_name(name, b"authorization") => Field::Authorization,
            13 if is_field_name(name, b"last-event-id") => Field::LastEventId,
            14 if is_field_name(name, b"content-length") => {
                return self.parse_content_length(value);
            }
            14 if is_field_name(name, b"mcp-session-id") => Field::McpSessionId,
            15 if is_field_name(name, b"x-forwarded-for") => {
                let start = offset_in(bytes, value);
                self.fields[Field::XForwardedFor as usize] = Span::new(start, start + value.len());
                return Ok(());
            }
            16 if is_field_name(name, b"content-encoding") => {
                self.parse_content_coding(value);
                return Ok(());
            }
            17 if is_field_name(name, b"transfer-encoding") => {
                return self.parse_transfer_encoding(value);
            }
            20 if is_field_name(name, b"mcp-protocol-version") => Field::McpProtocolVersion,
            _ => {
                self.has_param_headers |= param_header_name(name).is_some();
                return Ok(());
            }
        };
        let value = match field {
            // Of another length than every supported value; what is no list stays as it is.
            Field::McpProtocolVersion if value.len() != VERSION_BYTES => single_value(value),
            Field::McpSessionId if value.len() != UUID_BYTES => single_value(value),
            Field::LastEventId => single_value(value),
            _ => value,
        };
        let place = &mut self.fields[field as usize];
        if place.start != 0 {
            let values = [place.slice(bytes), value];
            if field == Field::XRequestId {
                *place = repeated_request_id(*place, values);
                return Ok(());
            }
            return check_repeated(field, values);
        }
        let start = offset_in(bytes, value);
        *place = Span::new(start, start + value.len());
        Ok(())
    }

    /// Accepts only `100-continue` (RFC 9110, section 10.1.1).
    fn parse_expect(&mut self, value: &[u8]) -> Result<(), RequestError> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            let reason = "unsupported Expect: only 100-continue";
            return Err(RequestError { status: Status::EXPECTATION_FAILED, reason });
        }
        self.expects_continue = true;
        Ok(())
    }

    /// Parses the list of connection options (RFC 9110, section 7.6.1).
    fn parse_connection(&mut self, value: &[u8]) {
        if value == b"keep-alive" {
            self.has_keep_alive = true;
            return;
        }
        for option in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            self.has_close |= option.eq_ignore_ascii_case(b"close");
            self.has_keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn parse_content_type(&mut self, value: &[u8]) -> Result<(), RequestError> {
        match self.content_type.replace(ContentType::parse(value)) {
            Some(_) => Err(RequestError::bad_request("Content-Type is repeated")),
            None => Ok(()),
        }
    }

    /// Parses a list that may span several lines (RFC 9110, section 5.3).
    fn parse_content_coding(&mut self, value: &[u8]) {
        if ContentCoding::parse(value) == ContentCoding::Other {
            self.content_coding = ContentCoding::Other;
        }
    }

    /// Parses digits only, once. Repeating the same length would be allowed, but only attacks do it
    /// (RFC 9112, section 6.3, item 5).
    fn parse_content_length(&mut self, value: &[u8]) -> Result<(), RequestError> {
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(RequestError::bad_request("Content-Length is not a number"));
        }
        // Saturates: a length that does not fit is over any limit.
        let length = value.iter().fold(0_u64, |length, &digit| {
            length.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
        });
        match self.content_length.replace(length) {
            Some(_) => Err(RequestError::bad_request("Content-Length is repeated")),
            None => Ok(()),
        }
    }

    /// Accepts `chunked` only, once. If it is not last or is repeated, parsers disagree about the
    /// end of the body (RFC 9112, sections 6.1, 6.3 and 7).
    fn parse_transfer_encoding(&mut self, value: &[u8]) -> Result<(), RequestError> {
        if self.is_chunked {
            return Err(RequestError::bad_request("Transfer-Encoding chunked is repeated"));
        }
        if value.eq_ignore_ascii_case(CHUNKED) {
            self.is_chunked = true;
            return Ok(());
        }
        let (mut is_ambiguous, mut was_chunked) = (false, false);
        for coding in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            is_ambiguous |= was_chunked || coding.is_empty();
            was_chunked = coding.eq_ignore_ascii_case(CHUNKED);
        }
        Err(if is_ambiguous {
            RequestError::bad_request("Transfer-Encoding does not end with a single chunked")
        } else {
            let reason = "unsupported Transfer-Encoding: only chunked";
            RequestError { status: Status::NOT_IMPLEMENTED, reason }
        })
    }

    /// Requires one `Host`. The host of an absolute-form target takes precedence over it (RFC 9112,
    /// sections 3.2 and 3.2.2).
    pub(super) fn check_host(
        &mut self,
        bytes: &[u8],
        minor_version: u8,
        authority: Option<Span>,
    ) -> Result<(), RequestError> {
        let place = &mut self.fields[Field::Host as usize];
        if place.start == 0 {
            if minor_version == 1 {
                return Err(RequestError::bad_request("Host is missing"));
            }
            *place = authority.unwrap_or_default();
            return Ok(());
        }
        let host = place.slice(bytes);
        if !is_host(host) {
            return Err(RequestError::bad_request("Host is malformed"));
        }
        if let Some(authority) = authority {
            *place = authority;
        }
        Ok(())
    }

    /// Returns the length of the body if it is unambiguous (RFC 9112, sections 6.1 and 6.3, items 3
    /// to 7).
    pub(super) const fn body_length(&self, minor_version: u8) -> Result<BodyLength, RequestError> {
        match (self.is_chunked, self.content_length) {
            (true, Some(_)) => Err(RequestError::bad_request(
                "Content-Length and Transfer-Encoding are both present",
            )),
            (true, None) if minor_version == 0 => {
                Err(RequestError::bad_request("Transfer-Encoding is not allowed in HTTP/1.0"))
            }
            (true, None) => Ok(BodyLength::Chunked),
            (false, Some(length)) => Ok(BodyLength::Length(length)),
            (false, None) => Ok(BodyLength::None),
        }
    }
}

/// Returns the place of `X-Request-ID`, which occurs again: an empty one if it has another value.
#[cold]
fn repeated_request_id(place: Span, [first, second]: [&[u8]; 2]) -> Span {
    if is_same(first, second) { place } else { Span { end: place.start, ..place } }
}

/// Accepts a field that occurs again if it is one of MCP and its values are equal.
#[cold]
fn check_repeated(field: Field, [first, second]: [&[u8]; 2]) -> Result<(), RequestError> {
    let differing = match field {
        Field::LastEventId => "Last-Event-ID is repeated with different values",
        Field::McpMethod => "Mcp-Method is repeated with different values",
        Field::McpName => "Mcp-Name is repeated with different values",
        Field::McpProtocolVersion => "MCP-Protocol-Version is repeated with different values",
        Field::McpSessionId => "Mcp-Session-Id is repeated with different values",
        Field::Authorization => return Err(RequestError::bad_request(REPEATED_AUTHORIZATION)),
        _ => {
            let reason = "a header field that must occur once is repeated";
            return Err(RequestError::bad_request(reason));
        }
    };
    if first == second || single_value(first) == single_value(second) {
        return Ok(());
    }
    Err(RequestError::bad_request(differing))
}

/// Bytes of a revision, such as `2025-11-25`.
const VERSION_BYTES: usize = b"2025-11-25".len();

/// Bytes of a UUID, which every session id of a server is.
const UUID_BYTES: usize = 36;

/// Returns the offset of `part`, which lies within `bytes`.
#[inline]
pub(super) fn offset_in(bytes: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr())
}

const CHUNKED: &[u8] = b"chunked";
