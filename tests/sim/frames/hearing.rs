//! What a client hears over WebSocket: the checker of one connection's frames.
//!
//! What it checks: a message is one whole frame of text; pongs answer pings in their order and with
//! their payload; nothing comes behind a close frame. And, when that comes, whether something was
//! still owed: what a pong has proved to be read, or what is answered at once.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use super::bytes::{CLOSE, FINAL, PING, PONG, TEXT, take_frame};

/// The books of one connection.
#[derive(Debug)]
pub(crate) struct Hearing {
    bytes: Vec<u8>,
    /// Pings that wait for their pongs, and how many messages had been said before each.
    pings: VecDeque<(Vec<u8>, u64)>,
    said: u64,
    /// So many messages have certainly been read.
    proved: u64,
    /// Requests that wait for their answers and were not taken back.
    asked: BTreeMap<u64, Asked>,
    /// The close frame has come.
    pub(crate) is_closed: bool,
    /// Pongs that have come.
    pub(crate) pongs: u64,
}

/// A request that waits.
#[derive(Clone, Copy, Debug)]
struct Asked {
    number: u64,
    /// It is answered as soon as it is read.
    is_prompt: bool,
}

/// What was heard.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum Heard {
    /// A message.
    Text(Vec<u8>),
    /// A ping, which wants a pong.
    Ping(Vec<u8>),
    /// The end, and why.
    Close(Option<u16>),
}

impl Hearing {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            pings: VecDeque::new(),
            said: 0,
            proved: 0,
            asked: BTreeMap::new(),
            is_closed: false,
            pongs: 0,
        }
    }

    /// A message was said, all of it.
    pub(crate) fn say(&mut self, line: &[u8]) {
        self.said += 1;
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return };
        match (message["method"].as_str(), message["id"].as_u64()) {
            (Some(method), Some(id)) => {
                let is_prompt = matches!(method, "initialize" | "ping" | "server/discover");
                self.asked.insert(id, Asked { number: self.said, is_prompt });
            }
            (Some("notifications/cancelled"), None) => {
                let id = message["params"]["requestId"].as_u64();
                id.and_then(|id| self.asked.remove(&id));
            }
            _ => {}
        }
    }

    /// A ping was said.
    pub(crate) fn ping(&mut self, payload: Vec<u8>) {
        self.pings.push_back((payload, self.said));
    }

    /// A byte for the payload of the next ping, which no other of those that wait has.
    pub(crate) fn ping_number(&self) -> u8 {
        (self.pongs + self.pings.len() as u64).to_le_bytes()[0]
    }

    /// Bytes have come.
    pub(crate) fn take(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// The next of what has come that concerns somebody.
    ///
    /// # Errors
    ///
    /// What must not have come.
    pub(crate) fn next(&mut self) -> Result<Option<Heard>, String> {
        loop {
            if self.is_closed && !self.bytes.is_empty() {
                return Err(format!("{:?} comes behind a close frame", self.bytes));
            }
            let Some((first, payload)) = take_frame(&mut self.bytes)? else { return Ok(None) };
            if first & FINAL == 0 || first & 0x70 != 0 {
                return Err(format!("a frame of the server begins with {first:#x}"));
            }
            match first & 0xf {
                TEXT => return self.hear_text(payload).map(Some),
                kind if kind >= CLOSE && payload.len() > 125 => {
                    return Err(format!("a control frame has {} bytes", payload.len()));
                }
                PING => return Ok(Some(Heard::Ping(payload))),
                PONG => self.hear_pong(&payload)?,
                CLOSE => return self.hear_close(&payload).map(Some),
                kind => return Err(format!("{kind:#x} is no kind of frame for a server")),
            }
        }
    }

    fn hear_text(&mut self, text: Vec<u8>) -> Result<Heard, String> {
        let described = || format!("{} is not one message", text.escape_ascii());
        let message: Value = serde_json::from_slice(&text).map_err(|_| described())?;
        if text.contains(&b'\n') {
            return Err(described());
        }
        if message.get("method").is_none()
            && let Some(id) = message["id"].as_u64()
        {
            self.asked.remove(&id);
        }
        Ok(Heard::Text(text))
    }

    fn hear_pong(&mut self, payload: &[u8]) -> Result<(), String> {
        match self.pings.pop_front() {
            Some((expected, said)) if expected == payload => {
                (self.proved, self.pongs) = (said, self.pongs + 1);
                Ok(())
            }
            expected => Err(format!("the pong {payload:?} comes where {expected:?} is to")),
        }
    }

    fn hear_close(&mut self, payload: &[u8]) -> Result<Heard, String> {
        self.is_closed = true;
        let Some((code, reason)) = payload.split_first_chunk() else {
            let is_empty = payload.is_empty();
            return if is_empty { Ok(Heard::Close(None)) } else { Err("half a code".to_owned()) };
        };
        if str::from_utf8(reason).is_err() {
            return Err("the reason of a close frame is not UTF-8".to_owned());
        }
        Ok(Heard::Close(Some(u16::from_be_bytes(*code))))
    }

    /// Checks that what has certainly been read was answered.
    ///
    /// # Errors
    ///
    /// What was not.
    pub(crate) fn expect_no_debt(&self) -> Result<(), String> {
        let owed = self.asked.iter().find(|(_, asked)| asked.number <= self.proved);
        owed.map_or(Ok(()), |(id, _)| Err(format!("request {id} was read and is not answered")))
    }

    /// Checks that everything up to the last word of this client was read: each ping has its pong,
    /// and what is answered at once was.
    ///
    /// # Errors
    ///
    /// What was not.
    pub(crate) fn expect_all_read(&self) -> Result<(), String> {
        if let Some((payload, _)) = self.pings.front() {
            return Err(format!("the ping \"{}\" has no pong", payload.escape_ascii()));
        }
        let missed = self.asked.iter().find(|(_, asked)| asked.is_prompt);
        missed.map_or(Ok(()), |(id, _)| Err(format!("request {id} is closed over")))
    }
}
