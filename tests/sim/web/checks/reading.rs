//! What a client reads: responses of HTTP, and the events in them.
//!
//! What it checks: a head is whole and says how long its body is; every chunk holds whole events; a
//! connection does not end in the middle of anything that it was to say whole.

/// One thing that was read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Piece {
    /// The head of a response.
    Head(Head),
    /// An event of a stream.
    Event(Event),
    /// A whole body that is no stream.
    Body(Vec<u8>),
    /// The stream has ended.
    End,
}

impl Piece {
    /// Whether it says something: a comment does not.
    pub(crate) fn is_word(&self) -> bool {
        *self != Self::Event(Event::default())
    }
}

/// What a head says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) session: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) is_stream: bool,
    /// The connection ends with this response.
    pub(crate) closes: bool,
    length: Option<usize>,
    is_chunked: bool,
}

impl Head {
    /// Whether nothing but the end of the connection ends the stream.
    pub(crate) const fn ends_with_connection(&self) -> bool {
        self.is_stream && !self.is_chunked
    }
}

/// An event.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Event {
    /// Its stream, and its number there.
    pub(crate) id: Option<(u32, u32)>,
    pub(crate) data: Option<String>,
    /// What it says is where to post.
    pub(crate) is_endpoint: bool,
    /// When to come back, in milliseconds.
    pub(crate) retry: Option<u32>,
}

/// Where the reader stands.
#[derive(Clone, Debug, Default)]
enum Place {
    #[default]
    Between,
    Inside(Head),
    Over,
}

/// Reads one connection.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    bytes: Vec<u8>,
    place: Place,
}

impl Reader {
    /// Bytes have come.
    pub(crate) fn hear(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Where it stands, for whoever reads a failure.
    pub(crate) fn describe(&self) -> String {
        format!("{:?} before {}", self.place, self.bytes.escape_ascii())
    }

    /// Whether nothing of a response is there.
    pub(crate) const fn is_between(&self) -> bool {
        self.bytes.is_empty() && !matches!(self.place, Place::Inside(_))
    }

    /// The next piece; `is_bare` where the response has no body whatever its head says, `is_over`
    /// where the server has said its end.
    ///
    /// # Errors
    ///
    /// What is no HTTP, or not whole.
    pub(crate) fn next(&mut self, is_bare: bool, is_over: bool) -> Result<Option<Piece>, String> {
        match std::mem::take(&mut self.place) {
            Place::Between => self.head(is_bare),
            Place::Over => {
                self.place = Place::Over;
                if self.bytes.is_empty() { Ok(None) } else { Err("words after the last".into()) }
            }
            Place::Inside(head) if !head.is_stream => Ok(self.body(head)),
            Place::Inside(head) if head.is_chunked => self.chunk(head),
            Place::Inside(head) => self.plain_event(head, is_over),
        }
    }

    fn head(&mut self, is_bare: bool) -> Result<Option<Piece>, String> {
        let Some(end) = find(&self.bytes, b"\r\n\r\n") else { return Ok(None) };
        let text: Vec<u8> = self.bytes.drain(..end + 4).collect();
        let text = String::from_utf8(text).map_err(|error| error.to_string())?;
        let mut lines = text.trim_end().split("\r\n");
        let first = lines.next().unwrap_or_default();
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
        let mut head = Head {
            status: status.ok_or_else(|| format!("{first} is no status"))?,
            ..Head::default()
        };
        if head.status == 100 {
            return self.head(is_bare);
        }
        for line in lines {
            let (name, value) =
                line.split_once(": ").ok_or_else(|| format!("{line} is no field"))?;
            match name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    let length = value.trim().parse().map_err(|_| format!("length {value}"))?;
                    head.length = Some(length);
                }
                "transfer-encoding" => head.is_chunked = value == "chunked",
                "content-type" => head.is_stream = value == "text/event-stream",
                "connection" => head.closes = value == "close",
                "mcp-protocol-version" => head.version = Some(value.to_owned()),
                "mcp-session-id" => head.session = Some(value.to_owned()),
                _ => {}
            }
        }
        if head.is_stream && !head.is_chunked && !head.closes {
            return Err("nobody can tell where the stream ends".into());
        }
        if is_bare || head.status == 204 {
            head.length = Some(0);
        }
        if !head.is_stream && head.length.is_none() {
            return Err(format!("nobody can tell where the body ends: {text}"));
        }
        self.place = Place::Inside(head.clone());
        Ok(Some(Piece::Head(head)))
    }

    fn body(&mut self, head: Head) -> Option<Piece> {
        let length = head.length.unwrap_or_default();
        if self.bytes.len() < length {
            self.place = Place::Inside(head);
            return None;
        }
        self.place = if head.closes { Place::Over } else { Place::Between };
        Some(Piece::Body(self.bytes.drain(..length).collect()))
    }

    fn chunk(&mut self, head: Head) -> Result<Option<Piece>, String> {
        let line = find(&self.bytes, b"\r\n");
        let size = line.map(|end| std::str::from_utf8(&self.bytes[..end]).unwrap_or("none"));
        let size = size.map(|size| usize::from_str_radix(size, 16).map_err(|_| size.to_owned()));
        let (Some(line), Some(size)) = (line, size.transpose()?) else {
            self.place = Place::Inside(head);
            return Ok(None);
        };
        let whole = line + 2 + size + 2;
        if self.bytes.len() < whole {
            self.place = Place::Inside(head);
            return Ok(None);
        }
        let chunk: Vec<u8> = self.bytes.drain(..whole).collect();
        let (text, end) = chunk[line + 2..].split_at(size);
        if end != b"\r\n" {
            return Err("a chunk is longer than it says".into());
        }
        if size == 0 {
            self.place = if head.closes { Place::Over } else { Place::Between };
            return Ok(Some(Piece::End));
        }
        self.place = Place::Inside(head);
        match text.strip_suffix(b"\n\n") {
            Some(inner) if find(inner, b"\n\n").is_none() => event(inner).map(Some),
            _ => Err(format!("no whole event: {}", text.escape_ascii())),
        }
    }

    fn plain_event(&mut self, head: Head, is_over: bool) -> Result<Option<Piece>, String> {
        if let Some(end) = find(&self.bytes, b"\n\n") {
            self.place = Place::Inside(head);
            let text: Vec<u8> = self.bytes.drain(..end + 2).collect();
            return event(&text[..end]).map(Some);
        }
        if !is_over {
            self.place = Place::Inside(head);
            return Ok(None);
        }
        self.place = Place::Over;
        if self.bytes.is_empty() { Ok(Some(Piece::End)) } else { Err("half an event".into()) }
    }
}

/// Reads an event; a comment is one without anything.
fn event(text: &[u8]) -> Result<Piece, String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let mut event = Event::default();
    for line in text.split('\n').filter(|line| !line.starts_with(':')) {
        let (name, value) = line.split_once(": ").ok_or_else(|| format!("{line} is no field"))?;
        match name {
            "id" => {
                let id = value.split_once('-');
                let id = id.and_then(|(one, other)| Some((one.parse().ok()?, other.parse().ok()?)));
                event.id = Some(id.ok_or_else(|| format!("{value} names no event"))?);
            }
            "retry" => event.retry = value.parse().ok(),
            "data" => event.data = Some(value.to_owned()).filter(|data| !data.is_empty()),
            "event" if value == "message" => {}
            "event" if value == "endpoint" => event.is_endpoint = true,
            _ => return Err(format!("{line} is unknown")),
        }
    }
    Ok(Piece::Event(event))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, what)
}
