//! WebSocket: from messages to the road, and from what breaks a connection to its end.
//!
//! A message is a text, or several with a newline between them. Each goes down the road as it would
//! over TCP, and each answer is a message of its own.
//!
//! What it keeps true: an answer is framed where the road has written it; a text that is no JSON
//! costs its connection nothing, whatever breaks the protocol of WebSocket ends it with the code
//! that says how; a peer that does not read its answers is not read either, in the middle of a
//! message if need be.
//!
//! What it does not do: shake hands at the beginning, which is of HTTP; ping, wait, or shake hands
//! at the end, which is the link's.

use super::ShardDriver;
use super::arrivals::peer_of;
use crate::base::slab::Key;
use crate::base::time::Moment;
use crate::link::Frame;
use crate::observe::event::Event;
use crate::observe::label::Transport;
use crate::protocol::error::Error;
use crate::protocol::json::ParseError;
use crate::server::party::{Outlet, Party, Said};
use crate::server::pipeline::Passage;
use crate::transport::websocket::code::CloseCode;
use crate::transport::websocket::delimiter::Messages;
use crate::transport::websocket::limits::Fault;
use crate::transport::websocket::utf8;
use crate::transport::websocket::writer;

impl ShardDriver {
    /// Carries the messages of an arrival (`bytes[..length]`, the rest is padding); returns how far
    /// it came before the connection was not to be read any more.
    #[inline]
    pub(super) fn read_frames(
        &mut self,
        key: Key,
        bytes: &mut [u8],
        length: usize,
        now: Moment,
    ) -> usize {
        let mut from = 0;
        loop {
            let limits = &self.websockets.rules.frames;
            let stopped =
                match self.link.next_frame(key, &mut bytes[..length], &mut from, limits, now) {
                    Frame::Inside { start, end, is_compressed: false } => {
                        let (text, length) = (&mut bytes[start..], end - start);
                        let stopped = self.carry_message(key, (&mut *text, length), false, now);
                        stopped.map(|at| self.set_aside(key, &text[at..length]))
                    }
                    Frame::Inside { start, end, is_compressed: true } => {
                        self.carry_deflated(key, &bytes[start..end], now)
                    }
                    Frame::Assembled { is_compressed } => {
                        let (mut text, length) = self.link.take_message(key);
                        let stopped = if is_compressed {
                            self.carry_deflated(key, &text[..length], now)
                        } else {
                            let stopped = self.carry_message(key, (&mut text, length), true, now);
                            stopped.map(|at| self.set_aside(key, &text[at..length]))
                        };
                        self.link.pool.give(text);
                        stopped
                    }
                    Frame::Broken(fault) => {
                        self.break_off(key, fault, now);
                        None
                    }
                    Frame::Closed(_) => {
                        self.hear_close(key, now);
                        None
                    }
                    Frame::NeedMore => return from,
                };
            if let Some(SetAside) = stopped {
                // What has come behind it waits behind it.
                self.link.stash(key, &bytes[from..length]);
                from = length;
            }
        }
    }

    /// One message (`text[..length]`, the rest is padding): its texts, one after the other. Returns
    /// where it stopped before its end because its peer does not read. `is_checked` where the text
    /// is known to be UTF-8.
    #[inline]
    fn carry_message(
        &mut self,
        key: Key,
        (text, length): (&mut [u8], usize),
        is_checked: bool,
        now: Moment,
    ) -> Option<usize> {
        if self.websockets.rules.is_delimited
            && let Err(fault) = Messages::strict(&text[..length])
        {
            self.break_off(key, fault, now);
            return None;
        }
        let mut from = 0;
        while let Some(place) = Messages::new(&text[from..length]).next() {
            let (start, end) = (from + place.start, from + place.end);
            if !self.carry_text(key, (&mut text[start..], end - start), is_checked, now) {
                return None;
            }
            from = end;
            // Where nothing follows there is nothing to stop.
            if end + 1 < length && self.is_full(key) {
                self.websockets.counters.bytes_in += end as u64;
                return Some(end);
            }
        }
        self.websockets.counters.bytes_in += length as u64;
        None
    }

    /// One text: parsed, then carried. `false` where that broke the connection off.
    #[inline]
    fn carry_text(
        &mut self,
        key: Key,
        (text, length): (&mut [u8], usize),
        is_checked: bool,
        now: Moment,
    ) -> bool {
        let Some(connection) = self.link.connections.get_mut(key) else { return false };
        let manner = connection.session.manner;
        let mut peer = peer_of(connection);
        let mark = writer::begin(peer.outgoing);
        let outlet = Outlet::general(Party::Connection(key));
        let passage = Passage { outlet, now, in_batch: false, is_modern: false };
        let road = &mut self.road;
        let document = self.parser.parse(text, length);
        let said = match document.map(|it| road.carry(passage, &mut peer, it.root())) {
            Ok(said) => said,
            Err(error) if is_broken(error, &text[..length], is_checked) => {
                writer::cancel(peer.outgoing, mark);
                self.break_off(key, Fault::NOT_UTF8, now);
                return false;
            }
            Err(error) => self.road.refuse(&mut peer, None, &error.into()),
        };
        if said == Said::Nothing {
            writer::cancel(peer.outgoing, mark);
        } else {
            self.websockets.end_frame(peer.outgoing, mark, manner);
        }
        true
    }

    /// One message that came compressed.
    #[cold]
    fn carry_deflated(&mut self, key: Key, deflated: &[u8], now: Moment) -> Option<SetAside> {
        match self.websockets.inflate(deflated) {
            Ok((mut text, length)) => {
                let stopped = self.carry_message(key, (&mut text, length), false, now);
                let stopped = stopped.map(|at| self.set_aside(key, &text[at..length]));
                self.websockets.give(text);
                stopped
            }
            Err(fault) => {
                self.break_off(key, fault, now);
                None
            }
        }
    }

    /// Whether a peer has as much to read as may wait for it.
    #[inline]
    fn is_full(&self, key: Key) -> bool {
        let connection = self.link.connections.get(key);
        connection.is_some_and(|connection| {
            connection.queued_bytes() > connection.queue_bytes_max(&self.link.options)
        })
    }

    /// Keeps the rest of a message until its peer has read: as a message of its own.
    #[cold]
    fn set_aside(&mut self, key: Key, rest: &[u8]) -> SetAside {
        let (header, length) = writer::client_header(rest.len());
        self.link.stash(key, &header[..length]);
        self.link.stash(key, rest);
        SetAside
    }

    /// The peer broke the protocol, or a limit: what it has in flight is cancelled, and it is told
    /// by the close frame.
    #[cold]
    fn break_off(&mut self, key: Key, fault: Fault, now: Moment) {
        let faults = &mut self.road.counters.faults;
        match fault {
            Fault::NOT_UTF8 | Fault::BAD_REASON => faults.utf8 += 1,
            Fault::TOO_BIG | Fault::INFLATES_FAR => {
                faults.oversize += 1;
                let bytes_max = self.websockets.rules.frames.message_bytes_max;
                let transport = Transport::WebSocket;
                Event::MessageRefused { shard: self.shard.0, transport, bytes_max }
                    .emit_within(&mut self.throttle, now);
            }
            _ => faults.framing += 1,
        }
        let fault = self.websockets.rules.judge(fault);
        self.end_with(key, fault, now);
    }

    /// Tells a peer that the server is short of memory, and ends its connection.
    #[cold]
    pub(super) fn forgo(&mut self, key: Key, error: &Error, now: Moment) {
        if self.link.outgoing(key).is_some()
            && let Some(connection) = self.link.connections.get_mut(key)
        {
            let manner = connection.session.manner;
            let mut peer = peer_of(connection);
            let mark = writer::begin(peer.outgoing);
            self.road.refuse(&mut peer, None, error);
            self.websockets.end_frame(peer.outgoing, mark, manner);
        }
        let reason = "the server is short of memory";
        self.end_with(key, Fault { code: CloseCode::INTERNAL, reason }, now);
    }

    fn end_with(&mut self, key: Key, fault: Fault, now: Moment) {
        self.websockets.count_close(fault.code);
        // First, so that nothing is said about what ends with it.
        self.link.break_off(key, fault, now);
        self.cancel_all(key);
        self.dismiss_questions(Some(Party::Connection(key)), now);
    }

    /// The peer has closed: it waits for nothing any more.
    #[cold]
    fn hear_close(&mut self, key: Key, now: Moment) {
        if let Some(connection) = self.link.connections.get_mut(key) {
            connection.session.closes = true;
        }
        self.cancel_all(key);
        self.dismiss_questions(Some(Party::Connection(key)), now);
    }
}

/// The rest of a message waits among what has yet to be read.
#[derive(Debug)]
struct SetAside;

/// Whether a text that is no JSON is not even UTF-8.
#[cold]
fn is_broken(error: ParseError, text: &[u8], is_checked: bool) -> bool {
    match error {
        ParseError::Utf8 => true,
        ParseError::Unread => !is_checked && !utf8::is_text(text),
        ParseError::Depth | ParseError::Syntax | ParseError::Tokens => false,
    }
}
