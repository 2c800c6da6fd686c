//! Parser of HTTP responses with messages of the dialect, and of their event streams.

/// A parsed part of a response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Part {
    Head(Head),
    /// A complete body that is no event stream.
    Body(Vec<u8>),
    /// An event: its name, its id, its data.
    Event(String, Option<String>, Vec<u8>),
    /// The end of an event stream.
    End,
}

/// A response head.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) session: Option<String>,
    pub(super) is_stream: bool,
    pub(super) closes: bool,
    length: Option<usize>,
}

/// Parser of one connection.
#[derive(Debug, Default)]
pub(super) struct HttpReader {
    bytes: Vec<u8>,
    head: Option<Head>,
}

impl HttpReader {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn describe(&self) -> String {
        format!("{:?}, {}", self.head, self.bytes.escape_ascii())
    }

    /// Returns the next complete part.
    ///
    /// # Errors
    ///
    /// The bytes are no response.
    pub(super) fn next_part(&mut self) -> Result<Option<Part>, String> {
        let Some(head) = self.head.clone() else { return self.parse_head() };
        if head.is_stream {
            return self.parse_chunk();
        }
        let length = head.length.unwrap_or_default();
        if self.bytes.len() < length {
            return Ok(None);
        }
        self.head = None;
        Ok(Some(Part::Body(self.bytes.drain(..length).collect())))
    }

    fn parse_head(&mut self) -> Result<Option<Part>, String> {
        let Some(end) = memchr::memmem::find(&self.bytes, b"\r\n\r\n") else { return Ok(None) };
        let text: Vec<u8> = self.bytes.drain(..end + 4).collect();
        let text = String::from_utf8(text).map_err(|error| error.to_string())?;
        let mut lines = text.trim_end().split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let status = status.ok_or_else(|| format!("{first} is not a status line"))?;
        let mut head = Head { status, ..Head::default() };
        for line in lines {
            let (name, value) =
                line.split_once(": ").ok_or_else(|| format!("{line} is not a header field"))?;
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = value.trim().parse().ok(),
                "content-type" => head.is_stream = value == "text/event-stream",
                "connection" => head.closes = value == "close",
                "mcp-session-id" => head.session = Some(value.to_owned()),
                _ => {}
            }
        }
        if !head.is_stream && head.length.is_none() && !matches!(status, 202 | 204) {
            return Err(format!("the length of the body is undefined: {text}"));
        }
        self.head = Some(head.clone());
        Ok(Some(Part::Head(head)))
    }

    fn parse_chunk(&mut self) -> Result<Option<Part>, String> {
        let Some(line) = memchr::memmem::find(&self.bytes, b"\r\n") else { return Ok(None) };
        let size = std::str::from_utf8(&self.bytes[..line]).ok();
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.ok_or_else(|| format!("no size: {}", self.bytes.escape_ascii()))?;
        if self.bytes.len() < line + 2 + size + 2 {
            return Ok(None);
        }
        let chunk: Vec<u8> = self.bytes.drain(..line + 2 + size + 2).collect();
        if size == 0 {
            self.head = None;
            return Ok(Some(Part::End));
        }
        parse_event(&chunk[line + 2..line + 2 + size]).map(Some)
    }
}

fn parse_event(text: &[u8]) -> Result<Part, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let inner = text.strip_suffix("\n\n").filter(|inner| !inner.contains("\n\n"));
    let inner = inner.ok_or_else(|| format!("a chunk must hold one event: {text}"))?;
    let (mut name, mut id, mut data) = (String::new(), None, Vec::new());
    for line in inner.split('\n').filter(|line| !line.starts_with(':')) {
        match line.split_once(": ") {
            Some(("event", value)) => value.clone_into(&mut name),
            Some(("id", value)) => id = Some(value.to_owned()),
            Some(("data", value)) => data = value.as_bytes().to_vec(),
            _ => return Err(format!("unknown event field: {line}")),
        }
    }
    Ok(Part::Event(name, id, data))
}
