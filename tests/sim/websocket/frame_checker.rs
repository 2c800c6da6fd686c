//! Checker of the WebSocket frames that a server sends on one connection.
//!
//! Checks that each message is one unfragmented text frame, that pongs answer pings in order and
//! with their payload, and that nothing follows a close frame. When that arrives, checks that no
//! response is missing: to requests that a pong proves to be read, and to those answered at once.

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;

use super::bytes::{CLOSE, FINAL, PING, PONG, TEXT, take_frame};

/// State of one connection.
#[derive(Debug)]
pub(crate) struct FrameChecker {
    bytes: Vec<u8>,
    /// Pings that wait for their pongs, each with the number of messages sent before it.
    pending_pings: VecDeque<(Vec<u8>, u64)>,
    sent: u64,
    /// Number of messages that have certainly been read.
    read: u64,
    /// Requests that wait for their responses and were not cancelled.
    unanswered: BTreeMap<u64, UnansweredRequest>,
    /// A close frame has arrived.
    pub(crate) is_closed: bool,
    has_close_reason: bool,
    /// Pongs received.
    pub(crate) pongs: u64,
}

/// A request that waits for its response.
#[derive(Clone, Copy, Debug)]
struct UnansweredRequest {
    number: u64,
    /// It is answered as soon as it is read.
    is_immediate: bool,
}

/// A received frame.
#[derive(Debug, Eq, PartialEq)]
pub(crate) enum ReceivedFrame {
    /// A text message.
    Text(Vec<u8>),
    /// A ping; requires a pong.
    Ping(Vec<u8>),
    /// A close frame with its code.
    Close(Option<u16>),
}

impl FrameChecker {
    pub(crate) const fn new() -> Self {
        Self {
            bytes: Vec::new(),
            pending_pings: VecDeque::new(),
            sent: 0,
            read: 0,
            unanswered: BTreeMap::new(),
            is_closed: false,
            has_close_reason: false,
            pongs: 0,
        }
    }

    /// Records that a complete message was sent.
    pub(crate) fn record_message(&mut self, line: &[u8]) {
        self.sent += 1;
        let Ok(message) = serde_json::from_slice::<Value>(line) else { return };
        match (message["method"].as_str(), message["id"].as_u64()) {
            (Some(method), Some(id)) => {
                let is_prompt = matches!(method, "initialize" | "ping" | "server/discover");
                self.unanswered
                    .insert(id, UnansweredRequest { number: self.sent, is_immediate: is_prompt });
            }
            (Some("notifications/cancelled"), None) => {
                let id = message["params"]["requestId"].as_u64();
                id.and_then(|id| self.unanswered.remove(&id));
            }
            _ => {}
        }
    }

    /// Records that a ping was sent.
    pub(crate) fn record_ping(&mut self, payload: Vec<u8>) {
        self.pending_pings.push_back((payload, self.sent));
    }

    /// Returns a payload byte for the next ping that no other waiting ping has.
    pub(crate) fn next_ping_byte(&self) -> u8 {
        (self.pongs + self.pending_pings.len() as u64).to_le_bytes()[0]
    }

    /// Adds received bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Returns the next received frame that the client must handle.
    ///
    /// # Errors
    ///
    /// The server sent something it must not send.
    pub(crate) fn next_frame(&mut self) -> Result<Option<ReceivedFrame>, String> {
        loop {
            if self.is_closed && !self.bytes.is_empty() {
                return Err(format!("{:?} follows a close frame", self.bytes));
            }
            let Some((first, payload)) = take_frame(&mut self.bytes)? else { return Ok(None) };
            if first & FINAL == 0 || first & 0x70 != 0 {
                return Err(format!("a frame of the server begins with {first:#x}"));
            }
            match first & 0xf {
                TEXT => return self.check_text(payload).map(Some),
                kind if kind >= CLOSE && payload.len() > 125 => {
                    return Err(format!("a control frame has {} bytes", payload.len()));
                }
                PING => return Ok(Some(ReceivedFrame::Ping(payload))),
                PONG => self.check_pong(&payload)?,
                CLOSE => return self.check_close(&payload).map(Some),
                kind => return Err(format!("opcode {kind:#x} is not allowed for a server")),
            }
        }
    }

    fn check_text(&mut self, text: Vec<u8>) -> Result<ReceivedFrame, String> {
        let described = || format!("{} is not one message", text.escape_ascii());
        let message: Value = serde_json::from_slice(&text).map_err(|_| described())?;
        if text.contains(&b'\n') {
            return Err(described());
        }
        if message.get("method").is_none()
            && let Some(id) = message["id"].as_u64()
        {
            self.unanswered.remove(&id);
        }
        Ok(ReceivedFrame::Text(text))
    }

    fn check_pong(&mut self, payload: &[u8]) -> Result<(), String> {
        match self.pending_pings.pop_front() {
            Some((expected, number)) if expected == payload => {
                (self.read, self.pongs) = (number, self.pongs + 1);
                Ok(())
            }
            expected => Err(format!("received the pong {payload:?}, expected {expected:?}")),
        }
    }

    fn check_close(&mut self, payload: &[u8]) -> Result<ReceivedFrame, String> {
        self.is_closed = true;
        let Some((code, reason)) = payload.split_first_chunk() else {
            let is_empty = payload.is_empty();
            let half = || Err("a close frame has one byte of payload".to_owned());
            return if is_empty { Ok(ReceivedFrame::Close(None)) } else { half() };
        };
        if str::from_utf8(reason).is_err() {
            return Err("the reason of a close frame is not UTF-8".to_owned());
        }
        self.has_close_reason = !reason.is_empty();
        Ok(ReceivedFrame::Close(Some(u16::from_be_bytes(*code))))
    }

    /// Returns whether the close frame of the server has a reason: one that answers a close frame
    /// has none.
    pub(crate) const fn has_close_reason(&self) -> bool {
        self.has_close_reason
    }

    /// Checks that every request that has certainly been read was answered.
    ///
    /// # Errors
    ///
    /// Names the first unanswered request.
    pub(crate) fn check_read_requests_answered(&self) -> Result<(), String> {
        let outstanding = self.unanswered.iter().find(|(_, asked)| asked.number <= self.read);
        outstanding.map_or(Ok(()), |(id, _)| Err(format!("request {id} was read and not answered")))
    }

    /// Checks that everything this client sent was read: each ping has its pong, and each request
    /// that is answered at once its response.
    ///
    /// # Errors
    ///
    /// Names the first ping or request without its response.
    pub(crate) fn check_all_read(&self) -> Result<(), String> {
        if let Some((payload, _)) = self.pending_pings.front() {
            return Err(format!("the ping \"{}\" has no pong", payload.escape_ascii()));
        }
        let missed = self.unanswered.iter().find(|(_, asked)| asked.is_immediate);
        missed.map_or(Ok(()), |(id, _)| Err(format!("closed without a response to request {id}")))
    }
}
