//! What a client makes of the bytes of a server, without a line of our own writers: heads by
//! httparse, bodies by RFC 9112 section 6.3, events by the WHATWG's "Interpreting an event stream".
//!
//! It is strict where a client may be lenient: whatever it does not understand ends the test.

/// One answer, as a client sees it.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) reason: String,
    /// Names in lower case.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// How many bytes it took, head and all.
    pub(crate) bytes: usize,
}

impl Answer {
    /// The one value of the field `name`; `None` where there is none.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(held, _)| held == name);
        let first = found.next();
        assert!(found.next().is_none(), "{name} twice: {self:?}");
        first.map(|(_, value)| std::str::from_utf8(value).unwrap())
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.fields.iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// The answer at the beginning of `bytes`. `asked_for_head` says that the request was a HEAD.
pub(crate) fn read_answer(bytes: &[u8], asked_for_head: bool) -> Answer {
    let mut fields = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut fields);
    let httparse::Status::Complete(head_bytes) = head.parse(bytes).unwrap() else {
        panic!("half a head: {}", String::from_utf8_lossy(bytes));
    };
    assert_eq!(head.version, Some(1));
    let fields = head.headers.iter();
    let mut answer = Answer {
        status: head.code.unwrap(),
        reason: head.reason.unwrap().to_owned(),
        fields: fields.map(|it| (it.name.to_ascii_lowercase(), it.value.to_vec())).collect(),
        ..Answer::default()
    };
    let rest = &bytes[head_bytes..];
    let used = match (answer.field("transfer-encoding"), answer.field("content-length")) {
        (coding, length) if asked_for_head || matches!(answer.status, 204 | 304) => {
            assert!(asked_for_head || (coding, length) == (None, None));
            0
        }
        (Some("chunked"), None) => {
            let (chunks, used) = read_chunks(rest);
            answer.body = chunks.concat();
            used
        }
        (None, Some(length)) => {
            let used = length.trim_matches(' ').parse().unwrap();
            answer.body = rest[..used].to_vec();
            used
        }
        (None, None) => {
            let connection = answer.field("connection");
            assert!(
                matches!(connection, Some("close" | "close, Upgrade")),
                "a body without an end"
            );
            answer.body = rest.to_vec();
            rest.len()
        }
        (coding, length) => panic!("{coding:?} and {length:?}"),
    };
    answer.bytes = head_bytes + used;
    answer
}

/// The chunks at the beginning of `bytes`, up to the last one or the end of the bytes, and how many
/// bytes they took.
pub(crate) fn read_chunks(bytes: &[u8]) -> (Vec<Vec<u8>>, usize) {
    let mut chunks = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let line = bytes[at..].windows(2).position(|pair| pair == b"\r\n").expect("no size");
        let digits = std::str::from_utf8(&bytes[at..at + line]).unwrap();
        assert!(digits.bytes().all(|digit| digit.is_ascii_hexdigit()), "{digits:?} is no size");
        let size = usize::from_str_radix(digits, 16).unwrap();
        at += line + 2;
        assert_eq!(&bytes[at + size..at + size + 2], b"\r\n", "a chunk longer than its size");
        let content = &bytes[at..at + size];
        at += size + 2;
        if size == 0 {
            break;
        }
        chunks.push(content.to_vec());
    }
    (chunks, at)
}

/// What a client hears of a stream.
#[derive(Debug, Default, Eq, PartialEq)]
pub(crate) struct Heard {
    /// Type, data, and the last id so far.
    pub(crate) events: Vec<(String, String, String)>,
    pub(crate) retry_ms: Option<u64>,
    pub(crate) comments: usize,
}

/// Reads a whole stream; what stands behind its last empty line would be lost, so nothing may.
pub(crate) fn read_events(bytes: &[u8]) -> Heard {
    let text = std::str::from_utf8(bytes).unwrap();
    assert!(text.is_empty() || text.ends_with("\n\n"), "half an event: {text:?}");
    assert!(!text.contains('\r'), "an end of a line that we do not write: {text:?}");
    let mut heard = Heard::default();
    let (mut kind, mut data, mut id) = (String::new(), String::new(), String::new());
    for line in text.lines() {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" if line.is_empty() => {
                let kind = std::mem::take(&mut kind);
                if let Some(data) = std::mem::take(&mut data).strip_suffix('\n') {
                    heard.events.push((kind, data.to_owned(), id.clone()));
                }
            }
            "" => heard.comments += 1,
            "data" => {
                data.push_str(value);
                data.push('\n');
            }
            "event" => value.clone_into(&mut kind),
            "id" => value.clone_into(&mut id),
            "retry" => heard.retry_ms = Some(value.parse().unwrap()),
            other => panic!("a field that nobody knows: {other:?}"),
        }
    }
    heard
}
