//! Parser for HTTP responses and event streams that rejects every deviation from the standards.

use std::io::BufRead;

/// The head of a response.
#[derive(Debug)]
pub struct ResponseHead {
    pub status: u16,
    fields: Vec<(String, String)>,
}

/// How the end of a body is found (RFC 9112, section 6.3).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BodyFraming {
    None,
    ContentLength(usize),
    Chunked,
    UntilClose,
}

impl ResponseHead {
    /// Reads a head, or returns `None` if the connection was closed in order.
    pub fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Self>> {
        let Some(line) = read_line(reader)? else { return Ok(None) };
        let rest = line.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("not HTTP/1.1: {line}"));
        let (code, reason) = rest.split_at(3);
        assert!(reason.starts_with(' ') && reason.len() > 1, "{line}");
        let status = code.parse().unwrap_or_else(|_| panic!("invalid status: {line}"));
        let mut fields = Vec::new();
        loop {
            let line = read_line(reader)?.expect("connection closed inside a head");
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no colon: {line}"));
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            assert!(!name.is_empty() && name.bytes().all(is_token), "invalid name: {line}");
            let is_padded = value.starts_with("  ") || value.ends_with(' ');
            assert!(!is_padded, "a padded value: {line}");
            let is_text = |byte: u8| byte == b'\t' || byte >= b' ' && byte != 0x7f;
            assert!(value.bytes().all(is_text), "invalid value: {line}");
            fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
        }
        let head = Self { status, fields };
        head.check_fields();
        Ok(Some(head))
    }

    /// Returns the value of a field, which must not be repeated.
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.fields.iter().filter(|field| field.0.eq_ignore_ascii_case(name));
        let value = lines.next().map(|field| field.1.as_str());
        assert!(lines.next().is_none(), "{name} is repeated: {self:?}");
        value
    }

    /// Iterates over the names and values of all fields.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns whether the server closes the connection after this response.
    pub fn closes_connection(&self) -> bool {
        match self.field("Connection") {
            None => false,
            // The connection switches protocols, or may.
            Some("Upgrade") if matches!(self.status, 101 | 426) => false,
            Some(value) => {
                assert!(matches!(value, "close" | "close, Upgrade"), "{self:?}");
                true
            }
        }
    }

    pub fn body_framing(&self) -> BodyFraming {
        match (self.field("Content-Length"), self.field("Transfer-Encoding")) {
            (Some(length), None) => {
                assert!(length.bytes().all(|byte| byte.is_ascii_digit()), "{self:?}");
                BodyFraming::ContentLength(length.parse().expect("invalid Content-Length"))
            }
            (None, Some(coding)) => {
                assert_eq!(coding, "chunked", "{self:?}");
                BodyFraming::Chunked
            }
            (None, None) if self.status < 200 || matches!(self.status, 204 | 304) => {
                BodyFraming::None
            }
            (None, None) => {
                assert!(self.closes_connection(), "the body has no end: {self:?}");
                BodyFraming::UntilClose
            }
            (Some(_), Some(_)) => {
                panic!("Content-Length and Transfer-Encoding: {self:?}")
            }
        }
    }

    /// Checks rules that apply to every response.
    fn check_fields(&self) {
        for (name, _) in &self.fields {
            let _: Option<&str> = self.field(name);
        }
        if self.status == 100 {
            assert!(self.fields.is_empty(), "{self:?}");
            return;
        }
        let date = self.field("Date").unwrap_or_else(|| panic!("no Date: {self:?}"));
        let is_date = date.len() == 29 && date.ends_with(" GMT") && date.as_bytes()[3] == b',';
        assert!(is_date, "{self:?}");
        let id = self.field("X-Request-ID").unwrap_or_else(|| panic!("no request id: {self:?}"));
        let is_visible = id.bytes().all(|byte| byte.is_ascii_graphic());
        assert!(is_visible && (1..=128).contains(&id.len()), "{self:?}");
        if matches!(self.status, 204 | 304) {
            assert_eq!(self.body_framing(), BodyFraming::None, "RFC 9110, section 8.6: {self:?}");
        }
        if self.status == 405 {
            assert!(self.field("Allow").is_some(), "RFC 9110, section 15.5.6: {self:?}");
        }
        if self.field("Content-Type") == Some("text/event-stream") {
            assert_eq!(self.status, 200, "{self:?}");
            let framing = self.body_framing();
            assert!(matches!(framing, BodyFraming::Chunked | BodyFraming::UntilClose), "{self:?}");
            let cached = self.field("Cache-Control").unwrap_or_default();
            assert!(cached.contains("no-cache") || cached.contains("no-store"), "{self:?}");
            assert_eq!(self.field("X-Accel-Buffering"), Some("no"), "{self:?}");
        }
    }
}

/// Reads a line that ends with CRLF, without it; returns `None` at the end of the input.
fn read_line(reader: &mut impl BufRead) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    if reader.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&line).into_owned();
    let line = text.strip_suffix("\r\n").unwrap_or_else(|| panic!("no CRLF: {text:?}"));
    assert!(!line.contains(['\r', '\n', '\0']), "{text:?}");
    Ok(Some(line.to_owned()))
}

/// Reads the next chunk, or returns `None` for the last one.
pub(super) fn read_chunk(reader: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let size = read_line(reader)?.expect("connection closed before the last chunk");
    let is_size = !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_size, "invalid chunk size: {size:?}");
    let size = usize::from_str_radix(&size, 16).expect("invalid chunk size");
    let mut chunk = vec![0; size];
    reader.read_exact(&mut chunk)?;
    let end = read_line(reader)?;
    assert_eq!(end.as_deref(), Some(""), "no CRLF after a chunk");
    Ok((size > 0).then_some(chunk))
}

/// One event of a stream, or a comment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SseEvent {
    pub id: Option<String>,
    pub event_type: Option<String>,
    /// Only one line of data is accepted.
    pub data: Option<String>,
    pub retry_ms: Option<u64>,
    /// Whether this is a comment, which keeps the connection alive.
    pub is_comment: bool,
}

impl SseEvent {
    /// Parses an event that is the whole of `text`, or a comment, which is one line: an empty line
    /// would end an event.
    pub fn parse(text: &[u8]) -> Self {
        let text = std::str::from_utf8(text).expect("event stream is not UTF-8");
        if text.starts_with(':') {
            assert!(text.ends_with('\n') && text.lines().count() == 1, "{text:?}");
            return Self { is_comment: true, ..Self::default() };
        }
        let inner = text.strip_suffix("\n\n").unwrap_or_else(|| panic!("no blank line: {text:?}"));
        assert!(!inner.contains("\n\n") && !inner.contains('\r'), "not one event: {text:?}");
        let mut event = Self::default();
        for line in inner.split('\n') {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{text:?}"));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            let slot = match name {
                "retry" => {
                    event.retry_ms = Some(value.parse().expect("retry is not a number"));
                    continue;
                }
                "id" => &mut event.id,
                "event" => &mut event.event_type,
                "data" => &mut event.data,
                _ => panic!("unknown event field: {text:?}"),
            };
            assert_eq!(slot.replace(value), None, "repeated event field: {text:?}");
        }
        event
    }

    /// Reads an event of a stream that ends with the connection.
    pub fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Self>> {
        let mut text = Vec::new();
        let is_whole = |text: &[u8]| {
            text.ends_with(if text.starts_with(b":") { &b"\n"[..] } else { &b"\n\n"[..] })
        };
        while !is_whole(&text) {
            if reader.read_until(b'\n', &mut text)? == 0 {
                assert!(text.is_empty(), "incomplete event: {}", String::from_utf8_lossy(&text));
                return Ok(None);
            }
        }
        Ok(Some(Self::parse(&text)))
    }
}
