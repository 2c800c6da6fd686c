//! The fields of one head, gathered line by line: what each may say, how often it may stand, and
//! what they say together about the host and the body (RFC 9112, sections 3.2, 6 and 11.2).

use super::media::AcceptReading;
use super::{BodyLength, ContentCoding, ContentType, FIELDS, Field, Span, mirrored};
use crate::transport::http::grammar::{is_host, is_name};
use crate::transport::http::limits::Refusal;
use crate::transport::http::status::Status;

/// What the lines so far have said.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is something that a line may say")]
pub(super) struct Reading {
    pub(super) fields: [Span; FIELDS],
    pub(super) accept: AcceptReading,
    pub(super) content_type: Option<ContentType>,
    pub(super) content_coding: ContentCoding,
    pub(super) says_close: bool,
    pub(super) says_keep_alive: bool,
    pub(super) expects_continue: bool,
    pub(super) has_params: bool,
    content_length: Option<u64>,
    is_chunked: bool,
}

impl Reading {
    /// Takes the next line. Both slices stand in `bytes`.
    ///
    /// Names are told apart by their length first: most lines of a head cost one comparison.
    #[inline]
    pub(super) fn take(&mut self, bytes: &[u8], name: &[u8], value: &[u8]) -> Result<(), Refusal> {
        let field = match name.len() {
            4 if is_name(name, b"host") => Field::Host,
            6 if is_name(name, b"accept") => {
                self.accept.add(value);
                return Ok(());
            }
            6 if is_name(name, b"origin") => Field::Origin,
            6 if is_name(name, b"expect") => return self.take_expect(value),
            8 if is_name(name, b"mcp-name") => Field::McpName,
            10 if is_name(name, b"mcp-method") => Field::McpMethod,
            10 if is_name(name, b"connection") => {
                self.take_connection(value);
                return Ok(());
            }
            12 if is_name(name, b"content-type") => return self.take_content_type(value),
            13 if is_name(name, b"authorization") => Field::Authorization,
            13 if is_name(name, b"last-event-id") => Field::LastEventId,
            14 if is_name(name, b"content-length") => return self.take_content_length(value),
            14 if is_name(name, b"mcp-session-id") => Field::McpSessionId,
            16 if is_name(name, b"content-encoding") => {
                self.take_content_coding(value);
                return Ok(());
            }
            17 if is_name(name, b"transfer-encoding") => return self.take_transfer_encoding(value),
            20 if is_name(name, b"mcp-protocol-version") => Field::McpProtocolVersion,
            29 if is_name(name, b"access-control-request-method") => {
                Field::AccessControlRequestMethod
            }
            30 if is_name(name, b"access-control-request-headers") => {
                Field::AccessControlRequestHeaders
            }
            _ => {
                self.has_params |= mirrored(name).is_some();
                return Ok(());
            }
        };
        let place = &mut self.fields[field as usize];
        if place.start != 0 {
            return Err(Refusal::bad("a field that may stand once stands twice"));
        }
        let start = offset(bytes, value);
        *place = Span::between(start, start + value.len());
        Ok(())
    }

    /// Only `100-continue` can be met (RFC 9110, section 10.1.1).
    fn take_expect(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if !value.eq_ignore_ascii_case(b"100-continue") {
            let reason = "nothing but 100-continue can be expected";
            return Err(Refusal { status: Status::EXPECTATION_FAILED, reason });
        }
        self.expects_continue = true;
        Ok(())
    }

    /// A list in which anybody may have added a word (RFC 9110, section 7.6.1).
    fn take_connection(&mut self, value: &[u8]) {
        if value == b"keep-alive" {
            self.says_keep_alive = true;
            return;
        }
        for word in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            self.says_close |= word.eq_ignore_ascii_case(b"close");
            self.says_keep_alive |= word.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn take_content_type(&mut self, value: &[u8]) -> Result<(), Refusal> {
        match self.content_type.replace(ContentType::read(value)) {
            Some(_) => Err(Refusal::bad("the type of the body is given twice")),
            None => Ok(()),
        }
    }

    /// A list that may stand in several lines, as if they were one (RFC 9110, section 5.3).
    fn take_content_coding(&mut self, value: &[u8]) {
        if ContentCoding::read(value) == ContentCoding::Other {
            self.content_coding = ContentCoding::Other;
        }
    }

    /// Digits and nothing else, once. The same length again could be taken for one, but nobody who
    /// means well sends it (RFC 9112, section 6.3, item 5).
    fn take_content_length(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(Refusal::bad("the length of the body is not a number"));
        }
        // What does not fit is too large by any limit.
        let length = value.iter().fold(0_u64, |length, &digit| {
            length.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
        });
        match self.content_length.replace(length) {
            Some(_) => Err(Refusal::bad("the length of the body is given twice")),
            None => Ok(()),
        }
    }

    /// `chunked`, once and alone. A list in which it is not last, or stands twice, has no end that
    /// everybody finds at the same place (RFC 9112, sections 6.1, 6.3 and 7).
    fn take_transfer_encoding(&mut self, value: &[u8]) -> Result<(), Refusal> {
        if self.is_chunked {
            return Err(Refusal::bad("the body is chunked twice"));
        }
        if value.eq_ignore_ascii_case(CHUNKED) {
            self.is_chunked = true;
            return Ok(());
        }
        let (mut is_uncertain, mut was_chunked) = (false, false);
        for coding in value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii) {
            is_uncertain |= was_chunked || coding.is_empty();
            was_chunked = coding.eq_ignore_ascii_case(CHUNKED);
        }
        Err(if is_uncertain {
            Refusal::bad("the transfer codings have no certain end")
        } else {
            let reason = "chunked is the only transfer coding that is decoded";
            Refusal { status: Status::NOT_IMPLEMENTED, reason }
        })
    }

    /// One host, and the same in the target where that names one (RFC 9112, sections 3.2 and
    /// 3.2.2: the one in the target would win, but whoever sends two means to confuse).
    pub(super) fn settle_host(
        &mut self,
        bytes: &[u8],
        minor_version: u8,
        authority: Option<Span>,
    ) -> Result<(), Refusal> {
        let place = &mut self.fields[Field::Host as usize];
        if place.start == 0 {
            if minor_version == 1 {
                return Err(Refusal::bad("the host is missing"));
            }
            *place = authority.unwrap_or_default();
            return Ok(());
        }
        let host = place.of(bytes);
        if !is_host(host) {
            return Err(Refusal::bad("the host is malformed"));
        }
        match authority {
            Some(other) if !other.of(bytes).eq_ignore_ascii_case(host) => {
                Err(Refusal::bad("the target and the host field name different hosts"))
            }
            _ => Ok(()),
        }
    }

    /// How long the body is, where that can be said in one way only (RFC 9112, sections 6.1 and
    /// 6.3, items 3 to 7).
    pub(super) const fn body(&self, minor_version: u8) -> Result<BodyLength, Refusal> {
        match (self.is_chunked, self.content_length) {
            (true, Some(_)) => Err(Refusal::bad("the body has a length and is chunked")),
            (true, None) if minor_version == 0 => {
                Err(Refusal::bad("HTTP/1.0 knows no transfer codings"))
            }
            (true, None) => Ok(BodyLength::Chunked),
            (false, Some(length)) => Ok(BodyLength::Length(length)),
            (false, None) => Ok(BodyLength::None),
        }
    }
}

/// Where `part`, which stands in `bytes`, begins.
#[inline]
pub(super) fn offset(bytes: &[u8], part: &[u8]) -> usize {
    part.as_ptr().addr().wrapping_sub(bytes.as_ptr().addr())
}

const CHUNKED: &[u8] = b"chunked";
