//! A link, its ring and the least driver that there can be: it hears lines, requests or messages
//! and says what the test tells it to. Whoever asks it for anything over HTTP is upgraded.

use std::io;
use std::time::Duration;

use corelane::base::slab::Key;
use corelane::base::time::Moment;
use corelane::engine::ring::Socket;
use corelane::link::{Ending, Frame, FrameOptions, Framing, Link, LinkOptions, Next, Stream};
use corelane::transport::http::limits::Limits;
use corelane::transport::http::reader;
use corelane::transport::ndjson::{Line, PADDING};
use corelane::transport::websocket::code::CloseCode;
use corelane::transport::websocket::limits::FrameLimits;
use corelane::transport::websocket::reader::FrameReader;
use corelane::transport::websocket::writer;

use crate::peer;
use crate::script::Script;

/// What the driver does with each line that it hears.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    /// Says it back at once.
    Echo,
    /// Owes an answer.
    Owe,
    /// Nothing.
    Listen,
}

/// A link on a scripted ring.
pub(crate) struct Stage {
    pub(crate) link: Link<&'static str>,
    pub(crate) ring: Script,
    pub(crate) now: Moment,
    pub(crate) manner: Manner,
    /// The lines heard so far.
    pub(crate) heard: Vec<String>,
    /// What each closed connection was and why it ended.
    pub(crate) ended: Vec<(&'static str, Ending)>,
    /// Connections that the link said to abandon.
    pub(crate) abandoned: Vec<Key>,
    /// Connections whose peer has closed, and the codes that they said.
    pub(crate) left: Vec<(Key, Option<u16>)>,
}

/// Small bounds, reached within a test.
pub(crate) fn options() -> LinkOptions {
    LinkOptions {
        connections_max: 4,
        idle_max: Duration::from_secs(10),
        lease_max: Duration::from_secs(3),
        linger_max: Duration::from_secs(1),
        message_bytes_max: 100,
        outgoing_bytes_max: 40,
        frames: FrameOptions {
            buffer_bytes_max: 40,
            drain_max: Duration::from_millis(500),
            fragment_max: Duration::from_secs(4),
            idle_max: Duration::from_secs(10),
            ping_max: Duration::from_secs(3),
        },
        ..LinkOptions::default()
    }
}

/// What the driver says to an upgrade.
pub(crate) const UPGRADED: &str = "101\r\n\r\n";

/// A request that it takes for one.
pub(crate) const UPGRADE: &[u8] = b"GET /mcp/ws HTTP/1.1\r\nHost: here\r\n\r\n";

impl Stage {
    pub(crate) fn new(manner: Manner) -> Self {
        Self {
            link: Link::new(options()),
            ring: Script::default(),
            now: Moment::from_milliseconds(1_000),
            manner,
            heard: Vec::new(),
            ended: Vec::new(),
            abandoned: Vec::new(),
            left: Vec::new(),
        }
    }

    /// A new connection over one socket.
    pub(crate) fn open(&mut self, socket: Socket) -> Key {
        self.open_pipes("tcp", socket, socket)
    }

    /// A new connection of requests over one socket.
    pub(crate) fn open_requests(&mut self, socket: Socket) -> Key {
        let framing = Framing::Requests;
        let stream = Stream { receive: socket, send: socket, peer: None, framing };
        self.link.open(&mut self.ring, stream, "http", self.now).unwrap()
    }

    /// A new connection of frames: the upgrade is over.
    pub(crate) fn open_frames(&mut self, socket: Socket) -> Key {
        let key = self.open_requests(socket);
        self.arrive(socket, UPGRADE);
        assert_eq!(self.drain(socket), UPGRADED);
        key
    }

    /// A new connection over two sockets.
    pub(crate) fn open_pipes(&mut self, name: &'static str, receive: Socket, send: Socket) -> Key {
        let stream = Stream { receive, send, peer: None, framing: Framing::Lines };
        self.link.open(&mut self.ring, stream, name, self.now).unwrap()
    }

    /// Bytes arrive, as far as the ring was asked for them.
    pub(crate) fn arrive(&mut self, socket: Socket, bytes: &[u8]) {
        let Some(key) = self.link.key(socket) else { return };
        let stashed = self.link.is_stashed(key);
        let read = if stashed { 0 } else { self.read(key, &mut bytes.to_vec()) };
        if read < bytes.len() {
            self.link.stash(key, &bytes[read..]);
            self.link.pause(&mut self.ring, key);
        }
        self.link.weigh(key);
    }

    fn read(&mut self, key: Key, bytes: &mut [u8]) -> usize {
        let mut from = 0;
        match self.link.framing(key) {
            Framing::Lines => return self.read_lines(key, bytes),
            Framing::Requests => self.read_requests(key, bytes, &mut from),
            Framing::Frames => {}
        }
        if self.link.framing(key) == Framing::Frames {
            self.read_frames(key, bytes, &mut from);
        }
        from
    }

    fn read_requests(&mut self, key: Key, bytes: &[u8], from: &mut usize) {
        loop {
            match self.link.next_request(key, bytes, from, &Limits::default(), self.now) {
                reader::Next::Inside { .. } => {}
                reader::Next::Assembled => drop(self.link.take_request(key)),
                reader::Next::NeedMore => return,
                other => panic!("{other:?}"),
            }
            self.link.outgoing(key).unwrap().extend_from_slice(UPGRADED.as_bytes());
            assert!(self.link.adopt(key, FrameReader::new(), self.now));
        }
    }

    fn read_frames(&mut self, key: Key, bytes: &mut [u8], from: &mut usize) {
        let limits = FrameLimits { message_bytes_max: 100, ..FrameLimits::default() };
        loop {
            match self.link.next_frame(key, bytes, from, &limits, self.now) {
                Frame::Inside { start, end, .. } => self.hear(key, &bytes[start..end]),
                Frame::Assembled { .. } => {
                    let (message, length) = self.link.take_message(key);
                    assert!(message.len() >= length + PADDING);
                    self.hear(key, &message[..length]);
                    self.link.pool.give(message);
                }
                Frame::Closed(code) => self.left.push((key, code.map(CloseCode::number))),
                Frame::Broken(fault) => self.link.break_off(key, fault, self.now),
                Frame::NeedMore => return,
            }
        }
    }

    fn read_lines(&mut self, key: Key, bytes: &[u8]) -> usize {
        let mut from = 0;
        loop {
            match self.link.next_line(key, bytes, &mut from, self.now) {
                Line::Inside { start, end } => self.hear(key, &bytes[start..end]),
                Line::Assembled => {
                    let (line, length) = self.link.take_line(key);
                    assert!(line.len() >= length + PADDING);
                    self.hear(key, &line[..length]);
                    self.link.pool.give(line);
                }
                Line::TooLarge => self.hear(key, b"too large"),
                Line::NeedMore => return from,
            }
            self.link.balance(key);
        }
    }

    fn hear(&mut self, key: Key, line: &[u8]) {
        let line = String::from_utf8(line.to_vec()).unwrap();
        match self.manner {
            Manner::Echo => self.say(key, &line),
            Manner::Owe => self.link.connections.get_mut(key).unwrap().standing.owed += 1,
            Manner::Listen => {}
        }
        self.heard.push(line);
    }

    /// Says a text to a peer, where there is one to hear it.
    pub(crate) fn say(&mut self, key: Key, text: &str) {
        let framing = self.link.framing(key);
        let Some(out) = self.link.outgoing(key) else { return };
        if framing == Framing::Frames {
            let mark = writer::begin(out);
            out.extend_from_slice(text.as_bytes());
            writer::end(out, mark);
        } else {
            out.extend_from_slice(text.as_bytes());
            out.push(b'\n');
        }
    }

    /// Gives an answer that was owed.
    pub(crate) fn repay(&mut self, key: Key, line: &str) {
        self.link.connections.get_mut(key).unwrap().repay(self.now);
        self.say(key, line);
        let next = self.link.try_resume(key);
        self.follow(next);
    }

    /// The end of a turn.
    pub(crate) fn flush(&mut self) {
        self.link.flush(&mut self.ring, self.now);
    }

    /// The send of a socket is over: `result` bytes went.
    pub(crate) fn sent(&mut self, socket: Socket, result: &io::Result<usize>) {
        let (buffer, _) = self.ring.sends.remove(&socket).expect("a send is under way");
        let next = self.link.sent(&mut self.ring, socket, buffer, result, self.now);
        self.follow(next);
    }

    /// The send of a socket is over and all of it went: the bytes.
    pub(crate) fn sent_all(&mut self, socket: Socket) -> String {
        String::from_utf8(self.sent_bytes(socket)).unwrap()
    }

    /// The same where the bytes are no text.
    pub(crate) fn sent_bytes(&mut self, socket: Socket) -> Vec<u8> {
        let (buffer, from) = &self.ring.sends[&socket];
        let bytes = buffer[*from..].to_vec();
        self.sent(socket, &Ok(bytes.len()));
        bytes
    }

    /// Everything that a peer reads from here on, until nothing more comes.
    pub(crate) fn drain(&mut self, socket: Socket) -> String {
        String::from_utf8(self.drain_bytes(socket)).unwrap()
    }

    /// The same where the bytes are no text.
    pub(crate) fn drain_bytes(&mut self, socket: Socket) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.flush();
        while self.ring.sends.contains_key(&socket) {
            bytes.extend(self.sent_bytes(socket));
            self.flush();
        }
        bytes
    }

    /// The same as frames: each as its kind and what it says.
    pub(crate) fn drain_frames(&mut self, socket: Socket) -> Vec<String> {
        peer::frames(&self.drain_bytes(socket))
    }

    /// The ring says that nothing more will be received.
    pub(crate) fn end_input(&mut self, socket: Socket, result: &io::Result<()>) {
        self.ring.receiving.remove(&socket);
        let next = self.link.ended(&mut self.ring, socket, result);
        self.follow(next);
    }

    /// The ring has closed a socket that it was told to close.
    pub(crate) fn closed(&mut self, socket: Socket) {
        assert!(self.ring.closing.remove(&socket), "{socket:?} was not to be closed");
        self.ring.finished.remove(&socket);
        self.ended.extend(self.link.closed(socket));
    }

    /// Time passes, deadlines expire.
    pub(crate) fn wait(&mut self, span: Duration) {
        self.now = self.now.after(span);
        self.link.expire(&mut self.ring, self.now);
    }

    /// Bytes that all connections hold, as they weigh at this moment.
    pub(crate) fn weight(&mut self) -> usize {
        let keys: Vec<Key> = self.link.connections.iter().map(|(key, _)| key).collect();
        let weighed = keys.into_iter().map(|key| self.link.weigh(key)).last();
        weighed.unwrap_or_else(|| self.link.weigh(Key::from_bits(u64::MAX)))
    }

    pub(crate) fn follow(&mut self, next: Next) {
        match next {
            Next::Nothing => {}
            Next::Resume(key) => {
                let (mut bytes, from) = self.link.unstash(key);
                let read = self.read(key, &mut bytes[from..]);
                self.link.restash(key, bytes, from + read);
                self.link.receive_again(&mut self.ring, key);
                self.last_line(key);
            }
            Next::LastLine(key) => self.last_line(key),
            Next::Abandon(key) => self.abandoned.push(key),
        }
    }

    fn last_line(&mut self, key: Key) {
        if !self.link.is_input_over(key) {
            return;
        }
        if let Some((line, length)) = self.link.last_line(key) {
            self.hear(key, &line[..length]);
            self.link.pool.give(line);
        }
        self.link.finish(&mut self.ring, key, Ending::Peer, self.now);
    }
}
