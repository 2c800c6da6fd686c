//! A strict client-side parser, independent of the server's writers: heads by httparse, bodies by
//! RFC 9112 section 6.3, events by WHATWG HTML "Interpreting an event stream".
//!
//! Anything unexpected fails the test.

/// A response as parsed by a client.
#[derive(Debug, Default)]
pub(crate) struct ParsedResponse {
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// Names in lower case.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// Length of the response in bytes.
    pub(crate) length: usize,
}

impl ParsedResponse {
    /// Returns the value of the field `name`, which must not be repeated.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(held, _)| held == name);
        let first = found.next();
        assert!(found.next().is_none(), "{name} is repeated: {self:?}");
        first.map(|(_, value)| std::str::from_utf8(value).unwrap())
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.fields.iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// Parses the response at the start of `bytes`; `is_head_request` for the response to a HEAD.
pub(crate) fn parse_response(bytes: &[u8], is_head_request: bool) -> ParsedResponse {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(head_bytes) = head.parse(bytes).unwrap() else {
        panic!("incomplete head: {}", String::from_utf8_lossy(bytes));
    };
    assert_eq!(head.version, Some(1));
    let fields = head.headers.iter();
    let mut response = ParsedResponse {
        status: head.code.unwrap(),
        reason: head.reason.unwrap().to_owned(),
        fields: fields.map(|it| (it.name.to_ascii_lowercase(), it.value.to_vec())).collect(),
        ..ParsedResponse::default()
    };
    let rest = &bytes[head_bytes..];
    let used = match (response.field("transfer-encoding"), response.field("content-length")) {
        (coding, length) if is_head_request || matches!(response.status, 204 | 304) => {
            assert!(is_head_request || (coding, length) == (None, None));
            0
        }
        (Some("chunked"), None) => {
            let (chunks, used) = parse_chunks(rest);
            response.body = chunks.concat();
            used
        }
        (None, Some(length)) => {
            let used = length.trim_matches(' ').parse().unwrap();
            response.body = rest[..used].to_vec();
            used
        }
        (None, None) => {
            let connection = response.field("connection");
            assert!(matches!(connection, Some("close" | "close, Upgrade")), "body without an end");
            response.body = rest.to_vec();
            rest.len()
        }
        (coding, length) => panic!("{coding:?} and {length:?}"),
    };
    response.length = head_bytes + used;
    response
}

/// Parses the chunks at the start of `bytes`, up to the last chunk or the end of the bytes. Returns
/// them and the number of bytes used.
pub(crate) fn parse_chunks(bytes: &[u8]) -> (Vec<Vec<u8>>, usize) {
    let mut chunks = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let line = bytes[at..].windows(2).position(|pair| pair == b"\r\n").expect("chunk size");
        let digits = std::str::from_utf8(&bytes[at..at + line]).unwrap();
        assert!(digits.bytes().all(|digit| digit.is_ascii_hexdigit()), "chunk size {digits:?}");
        let size = usize::from_str_radix(digits, 16).unwrap();
        at += line + 2;
        assert_eq!(&bytes[at + size..at + size + 2], b"\r\n", "chunk longer than its size");
        let content = &bytes[at..at + size];
        at += size + 2;
        if size == 0 {
            break;
        }
        chunks.push(content.to_vec());
    }
    (chunks, at)
}

/// An event stream as parsed by a client.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct ParsedStream {
    /// Type, data and last event id.
    pub(crate) events: Vec<(String, String, String)>,
    pub(crate) retry_ms: Option<u64>,
    pub(crate) comments: usize,
}

/// Parses a complete stream; bytes after the last empty line would be lost, so there must be none.
pub(crate) fn parse_events(bytes: &[u8]) -> ParsedStream {
    let text = std::str::from_utf8(bytes).unwrap();
    let last = text.trim_end_matches('\n').lines().last().unwrap_or_default();
    let end = if last.starts_with(':') { "\n" } else { "\n\n" };
    assert!(text.is_empty() || text.ends_with(end), "incomplete event: {text:?}");
    assert!(!text.contains('\r'), "unexpected CR: {text:?}");
    let mut parsed = ParsedStream::default();
    let (mut kind, mut data, mut id) = (String::new(), String::new(), String::new());
    for line in text.lines() {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" if line.is_empty() => {
                let kind = std::mem::take(&mut kind);
                if let Some(data) = std::mem::take(&mut data).strip_suffix('\n') {
                    parsed.events.push((kind, data.to_owned(), id.clone()));
                }
            }
            "" => parsed.comments += 1,
            "data" => {
                data.push_str(value);
                data.push('\n');
            }
            "event" => value.clone_into(&mut kind),
            "id" => value.clone_into(&mut id),
            "retry" => parsed.retry_ms = Some(value.parse().unwrap()),
            other => panic!("unknown field {other:?}"),
        }
    }
    parsed
}
