//! The opening handshake as a client goes through it, now and then after some that are refused.
//!
//! What it checks: each request is answered in its turn; those that are no handshake are refused
//! with their status, and the one that is agreed to with the right proof (RFC 6455, section 4.2.2).

use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corelane::base::random::Random;
use tungstenite::handshake::derive_accept_key;

/// A handshake, as far as it has come.
#[derive(Debug)]
pub(crate) struct Opening {
    /// What the client says.
    pub(crate) text: Vec<u8>,
    /// The statuses of those that are refused and wait for that.
    refused: VecDeque<u16>,
    accept: String,
    subprotocol: Option<&'static str>,
    /// The client speaks before it was agreed to.
    pub(crate) is_eager: bool,
    pub(crate) is_done: bool,
    /// The server takes nobody in any more.
    pub(crate) is_shut: bool,
    /// How many were refused.
    pub(crate) refusals: u64,
}

impl Opening {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let key = [random.next_u64().to_le_bytes(), random.next_u64().to_le_bytes()].concat();
        let key = STANDARD.encode(key);
        let (mut text, mut refused) = (String::new(), VecDeque::new());
        while random.chance(1, 4) && refused.len() < 3 {
            let (lines, status) = REFUSED[random.below(REFUSED.len())];
            text.push_str(&lines.join("\r\n"));
            refused.push_back(status);
        }
        let subprotocol = random.chance(1, 3).then_some("mcp");
        text.push_str("GET /mcp/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n");
        text.push_str("Connection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n");
        if let Some(subprotocol) = subprotocol {
            text = format!("{text}Sec-WebSocket-Protocol: {subprotocol}\r\n");
        }
        text = format!("{text}Sec-WebSocket-Key: {key}\r\n\r\n");
        Self {
            text: text.into(),
            refused,
            accept: derive_accept_key(key.as_bytes()),
            subprotocol,
            is_eager: random.chance(1, 3),
            is_done: false,
            is_shut: false,
            refusals: 0,
        }
    }

    /// Reads the answers off what was heard, until the one that agrees.
    ///
    /// # Errors
    ///
    /// What is no answer, or not the right one.
    pub(crate) fn hear(&mut self, bytes: &mut Vec<u8>, may_be_shut: bool) -> Result<(), String> {
        while !self.is_done {
            let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { break };
            let head = String::from_utf8(bytes[..end].to_vec());
            let head = head.map_err(|_| "a head is no text".to_owned())?;
            let field = |name: &str| field(&head, name);
            let length = field("content-length").and_then(|length| length.parse().ok());
            let body_end = end + 4 + length.unwrap_or(0);
            if bytes.len() < body_end {
                break;
            }
            bytes.drain(..body_end);
            let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
            let status: u16 = status.ok_or_else(|| format!("{head} has no status"))?;
            if may_be_shut && status == 503 {
                self.is_shut = true;
                continue;
            }
            match self.refused.pop_front() {
                Some(expected) if expected == status => self.refusals += 1,
                Some(expected) => return Err(format!("not refused with {expected}: {head}")),
                None if status != 101 => return Err(format!("not upgraded: {head}")),
                None if field("sec-websocket-accept") != Some(&self.accept) => {
                    return Err(format!("the proof is not {}: {head}", self.accept));
                }
                None if field("sec-websocket-protocol") != self.subprotocol => {
                    return Err(format!("another subprotocol was agreed on: {head}"));
                }
                None => self.is_done = true,
            }
        }
        Ok(())
    }
}

/// The value of a field of a head.
fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
    let mut values = fields.filter(|field| field.0.eq_ignore_ascii_case(name));
    values.next().map(|field| field.1.trim())
}

/// Requests that are no handshake, line by line, and their statuses.
const REFUSED: [(&[&str], u16); 7] = [
    (&["GET /mcp/ws HTTP/1.1", HOST, "", ""], 426),
    (&["GET /mcp/ws HTTP/1.1", HOST, UPGRADE, CONNECTION, VERSION, "", ""], 400),
    (&["GET /mcp/ws HTTP/1.1", HOST, UPGRADE, CONNECTION, KEY, "", ""], 426),
    (&["GET /mcp/w HTTP/1.1", HOST, UPGRADE, CONNECTION, VERSION, KEY, "", ""], 404),
    (&["PUT /mcp/ws HTTP/1.1", HOST, UPGRADE, CONNECTION, VERSION, KEY, "", ""], 405),
    (&["GET /mcp/ws HTTP/1.1", HOST, UPGRADE, CONNECTION, VERSION, KEY, EVIL, "", ""], 403),
    // Garbage behind the head.
    (&["GET /mcp/ws HTTP/1.1", HOST, UPGRADE, CONNECTION, VERSION, KEY, LENGTH, "", "{}"], 400),
];
const HOST: &str = "Host: localhost";
const UPGRADE: &str = "Upgrade: websocket";
const CONNECTION: &str = "Connection: Upgrade";
const VERSION: &str = "Sec-WebSocket-Version: 13";
const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
const EVIL: &str = "Origin: https://evil.example";
const LENGTH: &str = "Content-Type: application/json\r\nContent-Length: 2";
