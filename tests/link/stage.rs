//! A link, its ring and the least driver that there can be: it hears lines and says what the test
//! tells it to.

use std::io;
use std::time::Duration;

use corelane::base::slab::Key;
use corelane::base::time::Moment;
use corelane::engine::ring::Socket;
use corelane::link::{Ending, Framing, Link, LinkOptions, Next, Stream};
use corelane::transport::ndjson::{Line, PADDING};

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
        ..LinkOptions::default()
    }
}

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
        }
    }

    /// A new connection over one socket.
    pub(crate) fn open(&mut self, socket: Socket) -> Key {
        self.open_pipes("tcp", socket, socket)
    }

    /// A new connection over two sockets.
    pub(crate) fn open_pipes(&mut self, name: &'static str, receive: Socket, send: Socket) -> Key {
        let stream = Stream { receive, send, peer: None, framing: Framing::Lines };
        self.link.open(&mut self.ring, stream, name, self.now).unwrap()
    }

    /// Bytes arrive, as far as the ring was asked for them.
    pub(crate) fn arrive(&mut self, socket: Socket, bytes: &[u8]) {
        let Some(key) = self.link.key(socket) else { return };
        let read = if self.link.is_stashed(key) { 0 } else { self.read(key, bytes) };
        if read < bytes.len() {
            self.link.stash(key, &bytes[read..]);
            self.link.pause(&mut self.ring, key);
        }
        self.link.weigh(key);
    }

    fn read(&mut self, key: Key, bytes: &[u8]) -> usize {
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

    /// Says a line to a peer, where there is one to hear it.
    pub(crate) fn say(&mut self, key: Key, line: &str) {
        if let Some(out) = self.link.outgoing(key) {
            out.extend_from_slice(line.as_bytes());
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
        let (buffer, from) = &self.ring.sends[&socket];
        let text = String::from_utf8(buffer[*from..].to_vec()).unwrap();
        self.sent(socket, &Ok(text.len()));
        text
    }

    /// Everything that a peer reads from here on, until nothing more comes.
    pub(crate) fn drain(&mut self, socket: Socket) -> String {
        let mut text = String::new();
        self.flush();
        while self.ring.sends.contains_key(&socket) {
            text += &self.sent_all(socket);
            self.flush();
        }
        text
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
                let (bytes, from) = self.link.unstash(key);
                let read = self.read(key, &bytes[from..]);
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
