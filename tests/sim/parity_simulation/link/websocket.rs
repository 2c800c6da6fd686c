//! A WebSocket connection of a client: one message of the dialect in each text message.

use corelane_base::random::Random;

use crate::harness::socket::ClientSocket;
use crate::websocket::bytes::{CLOSE, CONTINUATION, FINAL, PING, PONG, TEXT, masked, take_frame};

/// One connection.
#[derive(Debug)]
pub(crate) struct WebSocketLink {
    pub(super) socket: ClientSocket,
    bytes: Vec<u8>,
    is_upgraded: bool,
    pub(super) close_code: Option<u16>,
    has_sent_close: bool,
}

/// The request of the upgrade.
const UPGRADE: &str = "GET /mcp/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
    Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

impl WebSocketLink {
    /// Sends the request of the upgrade; frames may follow at once.
    pub(super) fn open(socket: ClientSocket, random: &mut Random) -> Self {
        socket.read_eagerly();
        let (first, rest) = UPGRADE.split_at(random.below(UPGRADE.len()));
        socket.write(first.as_bytes());
        socket.write(rest.as_bytes());
        let bytes = Vec::new();
        Self { socket, bytes, is_upgraded: false, close_code: None, has_sent_close: false }
    }

    /// Sends a message, sometimes in fragments.
    pub(super) fn send_text(&self, text: &str, random: &mut Random) {
        let text = text.as_bytes();
        if random.chance(3, 4) {
            return self.socket.write(&masked(FINAL | TEXT, text, random));
        }
        let (first, rest) = text.split_at(random.below(text.len() + 1));
        let mut frames = masked(TEXT, first, random);
        frames.extend(masked(FINAL | CONTINUATION, rest, random));
        self.socket.write(&frames);
    }

    /// Sends a fragment that nothing follows.
    pub(super) fn send_half(&self, half: &str) {
        self.socket.write(&masked(TEXT, half.as_bytes(), &mut Random::seeded(1)));
    }

    /// Takes the messages that have arrived, and answers control frames.
    pub(super) fn receive(&mut self, random: &mut Random) -> Result<Vec<Vec<u8>>, String> {
        self.bytes.extend(self.socket.take_received());
        if !self.is_upgraded {
            let Some(end) = memchr::memmem::find(&self.bytes, b"\r\n\r\n") else {
                return Ok(Vec::new());
            };
            let head: Vec<u8> = self.bytes.drain(..end + 4).collect();
            if head.starts_with(b"HTTP/1.1 503") {
                // The server accepts no more connections.
                self.bytes.clear();
                return Ok(Vec::new());
            }
            if !head.starts_with(b"HTTP/1.1 101") {
                return Err(format!("not upgraded: {}", head.escape_ascii()));
            }
            self.is_upgraded = true;
        }
        let mut messages = Vec::new();
        while let Some((first, payload)) = take_frame(&mut self.bytes)? {
            if self.close_code.is_some() {
                return Err("a frame follows a close frame".to_owned());
            }
            match first {
                frame if frame == FINAL | TEXT => messages.push(payload),
                frame if frame == FINAL | PING => {
                    self.socket.write(&masked(FINAL | PONG, &payload, random));
                }
                frame if frame == FINAL | PONG => {}
                frame if frame == FINAL | CLOSE => self.answer_close(&payload, random),
                frame => return Err(format!("a frame of the server begins with {frame:#x}")),
            }
        }
        Ok(messages)
    }

    fn answer_close(&mut self, payload: &[u8], random: &mut Random) {
        let code = payload.first_chunk().map(|code| u16::from_be_bytes(*code));
        self.close_code = Some(code.unwrap_or(1005));
        if !self.has_sent_close {
            self.has_sent_close = true;
            self.socket.write(&masked(FINAL | CLOSE, payload, random));
            self.socket.shut_down_write();
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.close_code.is_some() || self.socket.is_reset() || self.socket.has_ended()
    }

    pub(super) fn describe(&self) -> String {
        let Self { socket, bytes, is_upgraded, close_code, .. } = self;
        let (address, bytes) = (socket.address(), bytes.escape_ascii());
        format!("WebSocket {address}, upgraded {is_upgraded}, closed {close_code:?}, {bytes}")
    }

    /// Closes it, with a close frame or without.
    pub(super) fn close(&mut self, resets: bool, random: &mut Random) {
        if resets {
            return self.socket.reset();
        }
        if !self.has_sent_close && random.chance(1, 2) {
            self.socket.write(&masked(FINAL | CLOSE, &1000_u16.to_be_bytes(), random));
        }
        self.socket.close();
    }
}
