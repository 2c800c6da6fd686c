//! What stands between the server and its clients in a test of the checkers: it passes everything
//! on, but for the one thing that it breaks, as if the server had done it.
//!
//! It cuts what a connection hears into whole answers and events, and loses, doubles, reorders,
//! changes or misdirects some of them; in what is asked it mixes up names.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// What is broken.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Break {
    /// Answers change places with those of other connections.
    AnswerGivenAway,
    AnswerDoubled,
    AnswerLost,
    /// Bytes in the middle of answers.
    BytesDoubled,
    BytesLost,
    BytesSwapped,
    /// Whoever asks for the edition of the catalog is told of the first.
    EditionOld,
    EventDoubled,
    /// Events of one stream come on another one too.
    EventGivenAway,
    EventLost,
    EventRenumbered,
    EventsSwapped,
    /// News of the catalog.
    NewsDoubled,
    NewsLost,
    /// Streams go on elsewhere than asked: from their beginning, behind an event that was not seen,
    /// not at all.
    ResumedFromStart,
    ResumedTooLate,
    ResumptionForgotten,
    /// Sessions that are said to have gone.
    SessionForgotten,
    /// Sessions that are called like another one.
    SessionNamedTwice,
    /// Streams are opened in the session of somebody else.
    SessionsSwapped,
    /// Streams end after a first event.
    StreamEnded,
}

/// What everybody's words go through.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    breaks: Option<Break>,
    /// Frames that might have been broken so far.
    count: usize,
    /// A frame that waits to come elsewhere, and whose it was.
    held: Option<(SocketAddr, Vec<u8>)>,
    /// What a connection gets instead of what it ought to.
    owed: BTreeMap<SocketAddr, Vec<u8>>,
    /// Names of sessions that began.
    sessions: Vec<String>,
}

/// What one connection hears, cut into frames.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    is_stream: bool,
    /// Nothing but the end of the connection ends what is said.
    is_plain: bool,
    /// The rest of the stream is kept back.
    is_cut: bool,
    held: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
enum Frame {
    /// A whole answer.
    Answer(Vec<u8>),
    /// An event with data.
    Event(Vec<u8>),
    /// Anything else.
    Other(Vec<u8>),
}

impl Relay {
    pub(crate) fn new(breaks: Option<Break>) -> Self {
        Self { breaks, ..Self::default() }
    }

    /// What comes of `heard` on a connection.
    pub(crate) fn pass(
        &mut self,
        address: SocketAddr,
        frames: &mut Frames,
        heard: Vec<u8>,
    ) -> Vec<u8> {
        let Some(breaks) = self.breaks else { return heard };
        let mut out = self.owed.remove(&address).unwrap_or_default();
        frames.bytes.extend(heard);
        while let Some(frame) = frames.next() {
            match frame {
                Frame::Answer(bytes) => self.answer(breaks, address, bytes, &mut out),
                Frame::Event(bytes) if !frames.is_cut => {
                    self.event(breaks, address, (frames, bytes), &mut out);
                }
                Frame::Event(_) => {}
                Frame::Other(bytes) if !frames.is_cut => out.extend(bytes),
                Frame::Other(_) => frames.is_cut = frames.is_stream,
            }
        }
        out
    }

    /// What comes of a request.
    pub(crate) fn ask(&self, text: Vec<u8>) -> Vec<u8> {
        let Some(breaks) = self.breaks else { return text };
        let is_get = text.starts_with(b"GET /mcp ");
        let Ok(asked) = String::from_utf8(text.clone()) else { return text };
        let line = |name: &str| asked.lines().find(|line| line.starts_with(name));
        let resumed = line("Last-Event-ID: ").and_then(|line| line.rsplit_once('-'));
        match (breaks, resumed) {
            (Break::ResumptionForgotten, Some((stream, number))) => {
                asked.replace(&format!("{stream}-{number}\r\n"), "").into_bytes()
            }
            (Break::ResumedFromStart, Some((stream, number))) => {
                asked.replace(&format!("{stream}-{number}\r\n"), &format!("{stream}-0\r\n")).into()
            }
            (Break::ResumedTooLate, Some((stream, number))) => {
                let next = number.parse::<u32>().unwrap_or_default() + 1;
                let later = format!("{stream}-{next}\r\n");
                asked.replace(&format!("{stream}-{number}\r\n"), &later).into()
            }
            (Break::SessionsSwapped, None) if is_get => {
                let own = line("Mcp-Session-Id: ").and_then(|line| line.split(' ').nth(1));
                let other = self.sessions.iter().find(|other| Some(other.as_str()) != own);
                match (own, other) {
                    (Some(own), Some(other)) => asked.replace(own, other).into(),
                    _ => text,
                }
            }
            _ => text,
        }
    }

    /// Whether this one, of all that might be broken, is: every third, from the second on.
    fn strikes(&mut self) -> bool {
        self.count += 1;
        self.count % 3 == 2
    }

    fn answer(&mut self, breaks: Break, to: SocketAddr, mut bytes: Vec<u8>, out: &mut Vec<u8>) {
        self.note_session(breaks, &mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let is_result = text.contains("\"result\"") && !text.contains("\"protocolVersion\"");
        if breaks == Break::EditionOld && text.contains("\"instructions\":\"edition ") {
            let at = text.find("\"edition ").map_or(0, |at| at + 9);
            bytes[at] = b'0';
            return out.extend(bytes);
        }
        if !is_result || !self.strikes() {
            return out.extend(bytes);
        }
        let middle = bytes.len() - 9;
        match breaks {
            Break::AnswerGivenAway => match self.held.take() {
                Some((from, held)) if from != to => {
                    out.extend(held);
                    self.owed.entry(from).or_default().extend(bytes);
                }
                Some((_, held)) => out.extend([held, bytes].concat()),
                None => self.held = Some((to, bytes)),
            },
            Break::AnswerDoubled => out.extend([bytes.clone(), bytes].concat()),
            Break::AnswerLost => {}
            Break::BytesDoubled => {
                bytes.insert(middle, bytes[middle]);
                out.extend(bytes);
            }
            Break::BytesLost => {
                bytes.remove(middle);
                out.extend(bytes);
            }
            Break::BytesSwapped => {
                bytes.reverse();
                out.extend(bytes);
            }
            Break::SessionForgotten if text.contains("work") => {}
            Break::SessionForgotten => {
                out.extend(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
            }
            _ => out.extend(bytes),
        }
    }

    fn note_session(&mut self, breaks: Break, bytes: &mut [u8]) {
        let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
        let Some(at) = text.find("mcp-session-id: ").map(|at| at + 16) else { return };
        let Some(name) = text.get(at..at + 36) else { return };
        match self.sessions.first() {
            Some(first) if breaks == Break::SessionNamedTwice => {
                bytes[at..at + 36].copy_from_slice(first.as_bytes());
            }
            _ => self.sessions.push(name.to_owned()),
        }
    }

    fn event(
        &mut self,
        breaks: Break,
        to: SocketAddr,
        (frames, mut bytes): (&mut Frames, Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        let is_news = memchr::memmem::find(&bytes, b"tools/list_changed").is_some();
        match breaks {
            Break::NewsDoubled if is_news => return out.extend([bytes.clone(), bytes].concat()),
            Break::NewsLost if is_news => return,
            Break::EventGivenAway => {
                let held = self.held.take().filter(|(from, _)| *from != to);
                self.held = Some((to, bytes.clone()));
                out.extend(bytes);
                return out.extend(held.into_iter().flat_map(|(_, held)| held));
            }
            _ => {}
        }
        if !self.strikes() {
            out.extend(bytes);
            return out.extend(frames.held.take().unwrap_or_default());
        }
        match breaks {
            Break::EventDoubled => out.extend([bytes.clone(), bytes].concat()),
            Break::EventLost => {}
            Break::EventRenumbered => {
                let at = memchr::memmem::find(&bytes, b"\nevent: ");
                // The last digit of its number, where it has one.
                if let Some(at) = at.filter(|at| bytes[at - 1].is_ascii_digit()) {
                    bytes[at - 1] = if bytes[at - 1] == b'9' { b'0' } else { bytes[at - 1] + 1 };
                }
                out.extend(bytes);
            }
            Break::EventsSwapped => frames.held = Some(bytes),
            Break::StreamEnded => {
                frames.is_cut = true;
                out.extend([bytes, b"0\r\n\r\n".to_vec()].concat());
            }
            _ => out.extend(bytes),
        }
    }
}

impl Frames {
    fn next(&mut self) -> Option<Frame> {
        if self.is_plain {
            let rest = std::mem::take(&mut self.bytes);
            return Some(rest).filter(|rest| !rest.is_empty()).map(Frame::Other);
        }
        if self.is_stream {
            let line = memchr::memmem::find(&self.bytes, b"\r\n")?;
            let size = std::str::from_utf8(&self.bytes[..line]).ok()?;
            let size = usize::from_str_radix(size, 16).ok()?;
            let frame = self.take(line + 2 + size + 2)?;
            self.is_stream = size > 0;
            let has_data = memchr::memmem::find(&frame, b"data: {").is_some();
            return Some(if has_data { Frame::Event(frame) } else { Frame::Other(frame) });
        }
        self.is_cut = false;
        let end = memchr::memmem::find(&self.bytes, b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&self.bytes[..end]).to_ascii_lowercase();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        if let Some(length) = field("content-length: ") {
            let length: usize = length.trim().parse().ok()?;
            return self.take(end + length).map(Frame::Answer);
        }
        self.is_stream = field("transfer-encoding: ").is_some();
        self.is_plain = !self.is_stream && field("content-type: text/event-stream").is_some();
        self.take(end).map(Frame::Other)
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        (self.bytes.len() >= length).then(|| self.bytes.drain(..length).collect())
    }
}
