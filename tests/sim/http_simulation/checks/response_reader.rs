//! Parser of HTTP responses and their server-sent events.
//!
//! Checks that a head is complete and determines the length of its body, that every chunk holds
//! complete events, and that a connection does not end inside a response that must be complete.

/// A parsed part of a response.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum ResponsePart {
    /// The head of a response.
    Head(ResponseHead),
    /// An event of a stream.
    Event(SseEvent),
    /// A complete body that is not a stream.
    Body(Vec<u8>),
    /// The end of a stream.
    End,
}

impl ResponsePart {
    /// Returns whether it has content; a comment has none.
    pub(crate) fn has_content(&self) -> bool {
        *self != Self::Event(SseEvent::default())
    }
}

/// A response head.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ResponseHead {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) is_stream: bool,
    /// `Connection: close`.
    pub(crate) closes_connection: bool,
    length: Option<usize>,
    /// `Content-Length` of a response without its body.
    length_without_body: usize,
    is_chunked: bool,
}

impl ResponseHead {
    /// Returns whether only the end of the connection ends the stream.
    pub(crate) const fn ends_with_connection(&self) -> bool {
        self.is_stream && !self.is_chunked
    }
}

/// A server-sent event.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct SseEvent {
    /// Its stream, and its number in it.
    pub(crate) id: Option<(u32, u32)>,
    pub(crate) data: Option<String>,
    /// `event: endpoint` of the legacy HTTP+SSE transport.
    pub(crate) is_endpoint: bool,
    /// `retry`, in milliseconds.
    pub(crate) retry: Option<u32>,
}

/// State of the parser.
#[derive(Clone, Debug, Default)]
enum ReaderState {
    #[default]
    BetweenResponses,
    InBody(ResponseHead),
    /// The server closes the connection. So many bytes may still come: the body of an error that
    /// was sent before its HEAD request was read.
    Closed(usize),
}

/// Parser of one connection.
#[derive(Debug, Default)]
pub(crate) struct ResponseReader {
    bytes: Vec<u8>,
    state: ReaderState,
}

impl ResponseReader {
    /// Adds received bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Describes its state for a failure report.
    pub(crate) fn describe(&self) -> String {
        format!("{:?}, {} unparsed", self.state, self.bytes.escape_ascii())
    }

    /// Returns whether it is not inside a response.
    pub(crate) const fn is_idle(&self) -> bool {
        self.bytes.is_empty() && !matches!(self.state, ReaderState::InBody(_))
    }

    /// Returns the next part; `is_bare` if the response has no body, whatever its head declares,
    /// `is_over` if the server has shut down its writing side.
    ///
    /// # Errors
    ///
    /// The bytes are not HTTP, or incomplete.
    pub(crate) fn next_part(
        &mut self,
        is_bare: bool,
        is_over: bool,
    ) -> Result<Option<ResponsePart>, String> {
        match std::mem::take(&mut self.state) {
            ReaderState::BetweenResponses => self.parse_head(is_bare),
            ReaderState::Closed(bytes_max) => {
                let Some(left) = bytes_max.checked_sub(self.bytes.len()) else {
                    self.state = ReaderState::Closed(bytes_max);
                    return Err("bytes after the end".into());
                };
                self.bytes.clear();
                self.state = ReaderState::Closed(left);
                Ok(None)
            }
            ReaderState::InBody(head) if !head.is_stream => Ok(self.parse_body(head)),
            ReaderState::InBody(head) if head.is_chunked => self.parse_chunk(head),
            ReaderState::InBody(head) => self.parse_unchunked_event(head, is_over),
        }
    }

    fn parse_head(&mut self, is_bare: bool) -> Result<Option<ResponsePart>, String> {
        let Some(end) = find(&self.bytes, b"\r\n\r\n") else { return Ok(None) };
        let text: Vec<u8> = self.bytes.drain(..end + 4).collect();
        let text = String::from_utf8(text).map_err(|error| error.to_string())?;
        let mut lines = text.trim_end().split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let mut head = ResponseHead {
            status: status.ok_or_else(|| format!("{first} is not a status line"))?,
            ..ResponseHead::default()
        };
        if head.status == 100 {
            return self.parse_head(is_bare);
        }
        for line in lines {
            let (name, value) =
                line.split_once(": ").ok_or_else(|| format!("{line} is not a header field"))?;
            match name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    let length = value.trim().parse().map_err(|_| format!("length {value}"))?;
                    head.length = Some(length);
                }
                "transfer-encoding" => head.is_chunked = value == "chunked",
                "content-type" => head.is_stream = value == "text/event-stream",
                "connection" => head.closes_connection = value == "close",
                "mcp-protocol-version" => head.version = Some(value.to_owned()),
                "mcp-session-id" => head.session = Some(value.to_owned()),
                _ => {}
            }
        }
        if head.is_stream && !head.is_chunked && !head.closes_connection {
            return Err("the end of the stream is undefined".into());
        }
        if is_bare || head.status == 204 {
            head.length_without_body = head.length.unwrap_or_default();
            head.length = Some(0);
        }
        if !head.is_stream && head.length.is_none() {
            return Err(format!("the length of the body is undefined: {text}"));
        }
        self.state = ReaderState::InBody(head.clone());
        Ok(Some(ResponsePart::Head(head)))
    }

    fn parse_body(&mut self, head: ResponseHead) -> Option<ResponsePart> {
        let length = head.length.unwrap_or_default();
        if self.bytes.len() < length {
            self.state = ReaderState::InBody(head);
            return None;
        }
        self.state = if head.closes_connection {
            ReaderState::Closed(if head.status == 503 { head.length_without_body } else { 0 })
        } else {
            ReaderState::BetweenResponses
        };
        Some(ResponsePart::Body(self.bytes.drain(..length).collect()))
    }

    fn parse_chunk(&mut self, head: ResponseHead) -> Result<Option<ResponsePart>, String> {
        let line = find(&self.bytes, b"\r\n");
        let size = line.map(|end| std::str::from_utf8(&self.bytes[..end]).unwrap_or("none"));
        let size = size.map(|size| usize::from_str_radix(size, 16).map_err(|_| size.to_owned()));
        let (Some(line), Some(size)) = (line, size.transpose()?) else {
            self.state = ReaderState::InBody(head);
            return Ok(None);
        };
        let whole = line + 2 + size + 2;
        if self.bytes.len() < whole {
            self.state = ReaderState::InBody(head);
            return Ok(None);
        }
        let chunk: Vec<u8> = self.bytes.drain(..whole).collect();
        let (text, end) = chunk[line + 2..].split_at(size);
        if end != b"\r\n" {
            return Err("a chunk is longer than its size".into());
        }
        if size == 0 {
            self.state = if head.closes_connection {
                ReaderState::Closed(0)
            } else {
                ReaderState::BetweenResponses
            };
            return Ok(Some(ResponsePart::End));
        }
        self.state = ReaderState::InBody(head);
        match text.strip_suffix(end_of(text)) {
            Some(inner) if find(inner, b"\n\n").is_none() => parse_event(inner).map(Some),
            _ => Err(format!("a chunk must hold one event: {}", text.escape_ascii())),
        }
    }

    fn parse_unchunked_event(
        &mut self,
        head: ResponseHead,
        is_over: bool,
    ) -> Result<Option<ResponsePart>, String> {
        let end_mark = end_of(&self.bytes);
        if let Some(end) = find(&self.bytes, end_mark) {
            self.state = ReaderState::InBody(head);
            let text: Vec<u8> = self.bytes.drain(..end + end_mark.len()).collect();
            return parse_event(&text[..end]).map(Some);
        }
        if !is_over {
            self.state = ReaderState::InBody(head);
            return Ok(None);
        }
        self.state = ReaderState::Closed(0);
        if self.bytes.is_empty() {
            Ok(Some(ResponsePart::End))
        } else {
            Err("incomplete event".into())
        }
    }
}

/// Returns how an event ends, or a comment, which is one line.
fn end_of(text: &[u8]) -> &'static [u8] {
    if text.starts_with(b":") { b"\n" } else { b"\n\n" }
}

/// Parses an event; a comment has neither id nor data.
fn parse_event(text: &[u8]) -> Result<ResponsePart, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let mut event = SseEvent::default();
    for line in text.split('\n').filter(|line| !line.starts_with(':')) {
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("no field: {line}"))?;
        match name {
            "id" => {
                let id = value.split_once('-');
                let id = id.and_then(|(one, other)| Some((one.parse().ok()?, other.parse().ok()?)));
                event.id = Some(id.ok_or_else(|| format!("{value} is not an event id"))?);
            }
            "retry" => event.retry = value.parse().ok(),
            "data" => event.data = Some(value.to_owned()).filter(|data| !data.is_empty()),
            "event" if value == "message" => {}
            "event" if value == "endpoint" => event.is_endpoint = true,
            _ => return Err(format!("unknown event field: {line}")),
        }
    }
    Ok(ResponsePart::Event(event))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, what)
}
