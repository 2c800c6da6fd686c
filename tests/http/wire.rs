//! What a server says, held against RFC 9112 and the standard of event streams byte by byte.

use std::io::BufRead;

/// The head of an answer.
#[derive(Debug)]
pub(crate) struct Head {
    /// The status.
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
}

/// How the end of a body is known.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Ending {
    /// There is none.
    Empty,
    /// By its length.
    Counted(usize),
    /// By the last chunk.
    Chunked,
    /// By the end of the connection.
    Close,
}

impl Head {
    /// Reads a head; `None` where the connection has ended in order.
    pub(crate) fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Self>> {
        let Some(line) = read_line(reader)? else { return Ok(None) };
        let rest = line.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("no status: {line}"));
        let (code, reason) = rest.split_at(3);
        assert!(reason.starts_with(' ') && reason.len() > 1, "{line}");
        let status = code.parse().unwrap_or_else(|_| panic!("no status: {line}"));
        let mut fields = Vec::new();
        loop {
            let line = read_line(reader)?.expect("a head that ends");
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("no field: {line}"));
            let is_token = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            assert!(!name.is_empty() && name.bytes().all(is_token), "no name: {line}");
            let is_text = |byte: u8| byte == b'\t' || byte >= b' ' && byte != 0x7f;
            assert!(value.bytes().all(is_text), "no value: {line}");
            fields.push((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()));
        }
        let head = Self { status, fields };
        head.check();
        Ok(Some(head))
    }

    /// The one value of a field.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.fields.iter().filter(|field| field.0.eq_ignore_ascii_case(name));
        let value = lines.next().map(|field| field.1.as_str());
        assert!(lines.next().is_none(), "{name} stands twice: {self:?}");
        value
    }

    /// Whether the connection ends with the answer.
    pub(crate) fn closes(&self) -> bool {
        match self.field("Connection") {
            None => false,
            // It becomes something else, or could.
            Some("Upgrade") if matches!(self.status, 101 | 426) => false,
            Some(value) => {
                assert!(matches!(value, "close" | "close, Upgrade"), "{self:?}");
                true
            }
        }
    }

    /// How the end of its body is known.
    pub(crate) fn ending(&self) -> Ending {
        match (self.field("Content-Length"), self.field("Transfer-Encoding")) {
            (Some(length), None) => {
                assert!(length.bytes().all(|byte| byte.is_ascii_digit()), "{self:?}");
                Ending::Counted(length.parse().expect("a length"))
            }
            (None, Some(coding)) => {
                assert_eq!(coding, "chunked", "{self:?}");
                Ending::Chunked
            }
            (None, None) if self.status < 200 || self.status == 204 => Ending::Empty,
            (None, None) => {
                assert!(self.closes(), "nobody can tell where the body ends: {self:?}");
                Ending::Close
            }
            (Some(_), Some(_)) => panic!("two lengths: {self:?}"),
        }
    }

    /// What every answer keeps.
    fn check(&self) {
        for (name, _) in &self.fields {
            let _: Option<&str> = self.field(name);
        }
        if self.status == 100 {
            assert!(self.fields.is_empty(), "{self:?}");
            return;
        }
        let date = self.field("Date").unwrap_or_else(|| panic!("no date: {self:?}"));
        let is_date = date.len() == 29 && date.ends_with(" GMT") && date.as_bytes()[3] == b',';
        assert!(is_date, "{self:?}");
        if self.status == 204 {
            assert_eq!(self.ending(), Ending::Empty, "RFC 9110, section 8.6: {self:?}");
        }
        if self.status == 405 {
            assert!(self.field("Allow").is_some(), "RFC 9110, section 15.5.6: {self:?}");
        }
        if self.field("Content-Type") == Some("text/event-stream") {
            assert_eq!(self.status, 200, "{self:?}");
            assert!(matches!(self.ending(), Ending::Chunked | Ending::Close), "{self:?}");
            let cached = self.field("Cache-Control").unwrap_or_default();
            assert!(cached.contains("no-cache") || cached.contains("no-store"), "{self:?}");
            assert_eq!(self.field("X-Accel-Buffering"), Some("no"), "{self:?}");
        }
    }
}

/// A line without its end, which is that of HTTP; `None` where the stream has ended before it.
fn read_line(reader: &mut impl BufRead) -> std::io::Result<Option<String>> {
    let mut line = Vec::new();
    if reader.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let text = String::from_utf8_lossy(&line).into_owned();
    let line = text.strip_suffix("\r\n").unwrap_or_else(|| panic!("cut off: {text:?}"));
    assert!(!line.contains(['\r', '\n', '\0']), "{text:?}");
    Ok(Some(line.to_owned()))
}

/// The next chunk; `None` where it is the last.
pub(crate) fn read_chunk(reader: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let size = read_line(reader)?.expect("a stream that ends with its last chunk");
    let is_size = !size.is_empty() && size.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(is_size, "no size of a chunk: {size:?}");
    let size = usize::from_str_radix(&size, 16).expect("a size");
    let mut chunk = vec![0; size];
    reader.read_exact(&mut chunk)?;
    let end = read_line(reader)?;
    assert_eq!(end.as_deref(), Some(""), "a chunk, or the trailers, must end here");
    Ok((size > 0).then_some(chunk))
}

/// One event of a stream, or a comment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Event {
    /// Its name, by which a client comes back.
    pub(crate) id: Option<String>,
    /// Its type.
    pub(crate) kind: Option<String>,
    /// Its data: one line.
    pub(crate) data: Option<String>,
    /// When to come back, in milliseconds.
    pub(crate) retry_ms: Option<u64>,
    /// It says nothing but that the stream lives.
    pub(crate) is_comment: bool,
}

impl Event {
    /// Reads one event, which is the whole of `text`.
    pub(crate) fn parse(text: &[u8]) -> Self {
        let text = std::str::from_utf8(text).expect("event streams are UTF-8");
        let inner = text.strip_suffix("\n\n").unwrap_or_else(|| panic!("cut off: {text:?}"));
        assert!(!inner.contains("\n\n") && !inner.contains('\r'), "not one event: {text:?}");
        let mut event = Self::default();
        for line in inner.split('\n') {
            let (name, value) = line.split_once(':').unwrap_or_else(|| panic!("{text:?}"));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            let place = match name {
                "" => {
                    event.is_comment = true;
                    continue;
                }
                "retry" => {
                    event.retry_ms = Some(value.parse().expect("milliseconds"));
                    continue;
                }
                "id" => &mut event.id,
                "event" => &mut event.kind,
                "data" => &mut event.data,
                _ => panic!("no field of an event: {text:?}"),
            };
            assert_eq!(place.replace(value), None, "twice: {text:?}");
        }
        assert!(!event.is_comment || event == Self { is_comment: true, ..Self::default() });
        event
    }

    /// Reads the next one of a stream that only the end of the connection ends.
    pub(crate) fn read(reader: &mut impl BufRead) -> std::io::Result<Option<Self>> {
        let mut text = Vec::new();
        while !text.ends_with(b"\n\n") {
            if reader.read_until(b'\n', &mut text)? == 0 {
                assert!(text.is_empty(), "cut off: {}", String::from_utf8_lossy(&text));
                return Ok(None);
            }
        }
        Ok(Some(Self::parse(&text)))
    }
}
