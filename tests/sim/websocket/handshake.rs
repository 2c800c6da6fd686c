//! Opening handshake of a WebSocket client, sometimes after requests that must be refused.
//!
//! Checks that each request is answered in order: invalid ones with their status, the valid one
//! with 101 and the right `Sec-WebSocket-Accept` (RFC 6455, section 4.2.2).

use std::collections::VecDeque;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corelane_base::random::Random;
use tungstenite::handshake::derive_accept_key;

/// State of a handshake.
#[derive(Debug)]
pub(crate) struct UpgradeHandshake {
    /// Bytes that the client sends.
    pub(crate) request_bytes: Vec<u8>,
    /// Statuses of invalid requests that wait for their responses.
    expected_refusals: VecDeque<u16>,
    expected_accept: String,
    subprotocol: Option<&'static str>,
    /// The client sends frames before the upgrade response.
    pub(crate) sends_early: bool,
    pub(crate) is_done: bool,
    /// The server accepts no more connections.
    pub(crate) is_refused: bool,
    /// Number of refused requests.
    pub(crate) refusals: u64,
}

impl UpgradeHandshake {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let key = [random.next_u64().to_le_bytes(), random.next_u64().to_le_bytes()].concat();
        let key = STANDARD.encode(key);
        let (mut text, mut expected_refusals) = (String::new(), VecDeque::new());
        while random.chance(1, 4) && expected_refusals.len() < 3 {
            let (lines, status) = INVALID_REQUESTS[random.below(INVALID_REQUESTS.len())];
            text.push_str(&lines.join("\r\n"));
            expected_refusals.push_back(status);
        }
        let subprotocol = random.chance(1, 3).then_some("mcp");
        text.push_str("GET /mcp/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n");
        text.push_str("Connection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n");
        if let Some(subprotocol) = subprotocol {
            text = format!("{text}Sec-WebSocket-Protocol: {subprotocol}\r\n");
        }
        text = format!("{text}Sec-WebSocket-Key: {key}\r\n\r\n");
        Self {
            request_bytes: text.into(),
            expected_refusals,
            expected_accept: derive_accept_key(key.as_bytes()),
            subprotocol,
            sends_early: random.chance(1, 3),
            is_done: false,
            is_refused: false,
            refusals: 0,
        }
    }

    /// Reads the responses from the received bytes, up to the one that upgrades.
    ///
    /// # Errors
    ///
    /// A response is malformed or not the expected one.
    pub(crate) fn receive(&mut self, bytes: &mut Vec<u8>, may_be_shut: bool) -> Result<(), String> {
        while !self.is_done {
            let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else { break };
            let head = String::from_utf8(bytes[..end].to_vec());
            let head = head.map_err(|_| "the response head is not UTF-8".to_owned())?;
            let field = |name: &str| header_value(&head, name);
            let length = field("content-length").and_then(|length| length.parse().ok());
            let body_end = end + 4 + length.unwrap_or(0);
            if bytes.len() < body_end {
                break;
            }
            bytes.drain(..body_end);
            let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
            let status: u16 = status.ok_or_else(|| format!("{head} has no status"))?;
            if may_be_shut && status == 503 {
                self.is_refused = true;
                continue;
            }
            match self.expected_refusals.pop_front() {
                Some(expected) if expected == status => self.refusals += 1,
                Some(expected) => return Err(format!("expected status {expected}: {head}")),
                None if status != 101 => return Err(format!("not upgraded: {head}")),
                None if field("sec-websocket-accept") != Some(&self.expected_accept) => {
                    return Err(format!(
                        "Sec-WebSocket-Accept is not {}: {head}",
                        self.expected_accept
                    ));
                }
                None if field("sec-websocket-protocol") != self.subprotocol => {
                    return Err(format!("Sec-WebSocket-Protocol was not offered: {head}"));
                }
                None => self.is_done = true,
            }
        }
        Ok(())
    }
}

/// Returns the value of a header field.
fn header_value<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let fields = head.split("\r\n").skip(1).filter_map(|line| line.split_once(": "));
    let mut values = fields.filter(|field| field.0.eq_ignore_ascii_case(name));
    values.next().map(|field| field.1.trim())
}

/// Invalid upgrade requests, line by line, with their statuses.
const INVALID_REQUESTS: [(&[&str], u16); 7] = [
    (&["GET /mcp/ws HTTP/1.1", HOST, "", ""], 426),
    (&["GET /mcp/ws HTTP/1.1", HOST, UPGRADE, CONNECTION, VERSION, "", ""], 400),
    (&["GET /mcp/ws HTTP/1.1", HOST, UPGRADE, CONNECTION, KEY, "", ""], 426),
    (&["GET /mcp/w HTTP/1.1", HOST, UPGRADE, CONNECTION, VERSION, KEY, "", ""], 404),
    (&["PUT /mcp/ws HTTP/1.1", HOST, UPGRADE, CONNECTION, VERSION, KEY, "", ""], 405),
    (&["GET /mcp/ws HTTP/1.1", HOST, UPGRADE, CONNECTION, VERSION, KEY, EVIL, "", ""], 403),
    // A body.
    (&["GET /mcp/ws HTTP/1.1", HOST, UPGRADE, CONNECTION, VERSION, KEY, LENGTH, "", "{}"], 400),
];
const HOST: &str = "Host: localhost";
const UPGRADE: &str = "Upgrade: websocket";
const CONNECTION: &str = "Connection: Upgrade";
const VERSION: &str = "Sec-WebSocket-Version: 13";
const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
const EVIL: &str = "Origin: https://evil.example";
const LENGTH: &str = "Content-Type: application/json\r\nContent-Length: 2";
