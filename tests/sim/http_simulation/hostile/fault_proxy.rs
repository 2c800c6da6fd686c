//! A proxy between the server and its clients that simulates one fault of the server and passes on
//! everything else.
//!
//! It splits what a connection receives into complete responses and events, and loses, duplicates,
//! reorders, changes or misroutes some of them; in requests it changes ids.

use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The simulated fault.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ServerFault {
    /// Responses are exchanged between connections.
    ResponseMisrouted,
    ResponseDuplicated,
    ResponseLost,
    /// Bytes inside responses.
    BytesDuplicated,
    BytesLost,
    BytesReordered,
    /// `server/discover` returns the first catalog version.
    CatalogVersionOld,
    EventDuplicated,
    /// Events of one stream also come on another one.
    EventMisrouted,
    EventLost,
    EventRenumbered,
    EventsReordered,
    /// Notifications that a list has changed.
    ListChangeDuplicated,
    ListChangeLost,
    /// Streams are resumed at another event: at the beginning, after an unseen event, not at all.
    ResumedFromStart,
    ResumedTooLate,
    ResumptionForgotten,
    /// Requests of existing sessions are answered with 404.
    SessionForgotten,
    /// A new session gets the id of another one.
    SessionIdReused,
    /// Streams are opened in the session of another client.
    SessionsSwapped,
    /// Streams end after their first event.
    StreamEnded,
}

/// State of the proxy, shared by all connections.
#[derive(Debug, Default)]
pub(crate) struct HttpFaultProxy {
    fault: Option<ServerFault>,
    /// Number of frames that could have been damaged so far.
    count: usize,
    /// A misrouted frame, with its own connection.
    held: Option<(SocketAddr, Vec<u8>)>,
    /// Bytes that a connection receives instead of its own.
    replacement: BTreeMap<SocketAddr, Vec<u8>>,
    /// Ids of all sessions.
    sessions: Vec<String>,
}

/// State of one connection: what it receives, split into frames.
#[derive(Debug, Default)]
pub(crate) struct ProxyFrames {
    bytes: Vec<u8>,
    is_stream: bool,
    /// Only the end of the connection ends the stream.
    ends_with_connection: bool,
    /// The rest of the stream is dropped.
    is_cut: bool,
    held: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
enum ProxyFrame {
    /// A complete response.
    Response(Vec<u8>),
    /// An event with data.
    Event(Vec<u8>),
    /// Anything else.
    Other(Vec<u8>),
}

impl HttpFaultProxy {
    pub(crate) fn new(fault: Option<ServerFault>) -> Self {
        Self { fault, ..Self::default() }
    }

    /// Returns what the client receives for bytes of the server.
    pub(crate) fn forward(
        &mut self,
        address: SocketAddr,
        frames: &mut ProxyFrames,
        received: Vec<u8>,
    ) -> Vec<u8> {
        let Some(breaks) = self.fault else { return received };
        let mut out = self.replacement.remove(&address).unwrap_or_default();
        frames.bytes.extend(received);
        while let Some(frame) = frames.next() {
            match frame {
                ProxyFrame::Response(bytes) => {
                    self.forward_response(breaks, address, bytes, &mut out);
                }
                ProxyFrame::Event(bytes) if !frames.is_cut => {
                    self.forward_event(breaks, address, frames, bytes, &mut out);
                }
                ProxyFrame::Event(_) => {}
                ProxyFrame::Other(bytes) if !frames.is_cut => out.extend(bytes),
                ProxyFrame::Other(_) => frames.is_cut = frames.is_stream,
            }
        }
        out
    }

    /// Returns what the server receives for a request.
    pub(crate) fn forward_request(&self, text: Vec<u8>) -> Vec<u8> {
        let Some(breaks) = self.fault else { return text };
        let is_get = text.starts_with(b"GET /mcp ");
        let Ok(asked) = String::from_utf8(text.clone()) else { return text };
        let line = |name: &str| asked.lines().find(|line| line.starts_with(name));
        let resumed = line("Last-Event-ID: ").and_then(|line| line.rsplit_once('-'));
        match (breaks, resumed) {
            (ServerFault::ResumptionForgotten, Some((stream, number))) => {
                asked.replace(&format!("{stream}-{number}\r\n"), "").into_bytes()
            }
            (ServerFault::ResumedFromStart, Some((stream, number))) => {
                asked.replace(&format!("{stream}-{number}\r\n"), &format!("{stream}-0\r\n")).into()
            }
            (ServerFault::ResumedTooLate, Some((stream, number))) => {
                let next = number.parse::<u32>().unwrap_or_default() + 1;
                let later = format!("{stream}-{next}\r\n");
                asked.replace(&format!("{stream}-{number}\r\n"), &later).into()
            }
            (ServerFault::SessionsSwapped, None) if is_get => {
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

    /// Returns whether to damage this frame: every third, from the second on.
    fn is_damaged_next(&mut self) -> bool {
        self.count += 1;
        self.count % 3 == 2
    }

    fn forward_response(
        &mut self,
        breaks: ServerFault,
        to: SocketAddr,
        mut bytes: Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        self.record_session(breaks, &mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let is_result = text.contains("\"result\"") && !text.contains("\"protocolVersion\"");
        if breaks == ServerFault::CatalogVersionOld
            && text.contains("\"instructions\":\"catalog version ")
        {
            let at = text.find("\"catalog version ").map_or(0, |at| at + 17);
            bytes[at] = b'0';
            return out.extend(bytes);
        }
        if !is_result || !self.is_damaged_next() {
            return out.extend(bytes);
        }
        let middle = bytes.len() - 9;
        match breaks {
            ServerFault::ResponseMisrouted => match self.held.take() {
                Some((from, held)) if from != to => {
                    out.extend(held);
                    self.replacement.entry(from).or_default().extend(bytes);
                }
                Some((_, held)) => out.extend([held, bytes].concat()),
                None => self.held = Some((to, bytes)),
            },
            ServerFault::ResponseDuplicated => out.extend([bytes.clone(), bytes].concat()),
            ServerFault::ResponseLost => {}
            ServerFault::BytesDuplicated => {
                bytes.insert(middle, bytes[middle]);
                out.extend(bytes);
            }
            ServerFault::BytesLost => {
                bytes.remove(middle);
                out.extend(bytes);
            }
            ServerFault::BytesReordered => {
                bytes.reverse();
                out.extend(bytes);
            }
            ServerFault::SessionForgotten if text.contains("work") => {}
            ServerFault::SessionForgotten => {
                out.extend(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
            }
            _ => out.extend(bytes),
        }
    }

    fn record_session(&mut self, breaks: ServerFault, bytes: &mut [u8]) {
        let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
        let Some(at) = text.find("mcp-session-id: ").map(|at| at + 16) else { return };
        let Some(name) = text.get(at..at + 36) else { return };
        match self.sessions.first() {
            Some(first) if breaks == ServerFault::SessionIdReused => {
                bytes[at..at + 36].copy_from_slice(first.as_bytes());
            }
            _ => self.sessions.push(name.to_owned()),
        }
    }

    fn forward_event(
        &mut self,
        breaks: ServerFault,
        to: SocketAddr,
        frames: &mut ProxyFrames,
        mut bytes: Vec<u8>,
        out: &mut Vec<u8>,
    ) {
        let is_news = memchr::memmem::find(&bytes, b"tools/list_changed").is_some();
        match breaks {
            ServerFault::ListChangeDuplicated if is_news => {
                return out.extend([bytes.clone(), bytes].concat());
            }
            ServerFault::ListChangeLost if is_news => return,
            ServerFault::EventMisrouted => {
                let held = self.held.take().filter(|(from, _)| *from != to);
                self.held = Some((to, bytes.clone()));
                out.extend(bytes);
                return out.extend(held.into_iter().flat_map(|(_, held)| held));
            }
            _ => {}
        }
        if !self.is_damaged_next() {
            out.extend(bytes);
            return out.extend(frames.held.take().unwrap_or_default());
        }
        match breaks {
            ServerFault::EventDuplicated => out.extend([bytes.clone(), bytes].concat()),
            ServerFault::EventLost => {}
            ServerFault::EventRenumbered => {
                let at = memchr::memmem::find(&bytes, b"\nevent: ");
                // The last digit of the event number, if it has one.
                if let Some(at) = at.filter(|at| bytes[at - 1].is_ascii_digit()) {
                    bytes[at - 1] = if bytes[at - 1] == b'9' { b'0' } else { bytes[at - 1] + 1 };
                }
                out.extend(bytes);
            }
            ServerFault::EventsReordered => frames.held = Some(bytes),
            ServerFault::StreamEnded => {
                frames.is_cut = true;
                out.extend([bytes, b"0\r\n\r\n".to_vec()].concat());
            }
            _ => out.extend(bytes),
        }
    }
}

impl ProxyFrames {
    fn next(&mut self) -> Option<ProxyFrame> {
        if self.ends_with_connection {
            let rest = std::mem::take(&mut self.bytes);
            return Some(rest).filter(|rest| !rest.is_empty()).map(ProxyFrame::Other);
        }
        if self.is_stream {
            let line = memchr::memmem::find(&self.bytes, b"\r\n")?;
            let size = std::str::from_utf8(&self.bytes[..line]).ok()?;
            let size = usize::from_str_radix(size, 16).ok()?;
            let frame = self.take(line + 2 + size + 2)?;
            self.is_stream = size > 0;
            let has_data = memchr::memmem::find(&frame, b"data: {").is_some();
            return Some(if has_data {
                ProxyFrame::Event(frame)
            } else {
                ProxyFrame::Other(frame)
            });
        }
        self.is_cut = false;
        let end = memchr::memmem::find(&self.bytes, b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&self.bytes[..end]).to_ascii_lowercase();
        let field = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
        if let Some(length) = field("content-length: ") {
            let length: usize = length.trim().parse().ok()?;
            return self.take(end + length).map(ProxyFrame::Response);
        }
        self.is_stream = field("transfer-encoding: ").is_some();
        self.ends_with_connection =
            !self.is_stream && field("content-type: text/event-stream").is_some();
        self.take(end).map(ProxyFrame::Other)
    }

    fn take(&mut self, length: usize) -> Option<Vec<u8>> {
        (self.bytes.len() >= length).then(|| self.bytes.drain(..length).collect())
    }
}
