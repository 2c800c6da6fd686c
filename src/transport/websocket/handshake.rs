//! The opening handshake, the server's half (RFC 6455, section 4.2): what a request must say to
//! become a WebSocket, and the answer.
//!
//! What it keeps true: nothing of the connection is a frame before the answer is written; what is
//! wrong is refused with the status of its rung. Path, verb, host and origin are looked at before,
//! like those of every request.

mod extensions;

use memchr::memchr;
use tungstenite::handshake::derive_accept_key;

use crate::protocol::json::write;
use crate::transport::http::date::Date;
use crate::transport::http::head::{BodyLength, Head};
use crate::transport::http::ladder::Step;

pub use self::extensions::Deflate;
pub use crate::transport::http::ladder::Refusal;

/// The subprotocols that are spoken; they mean the same: JSON-RPC messages as text (seed 001,
/// section 4, names the first, the SDK for TypeScript asks for the second).
pub const SUBPROTOCOLS: [&str; 2] = ["mcp.v1", "mcp"];

/// What a server agrees to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Accepts {
    /// Compressed messages, where the client offers them. Default no: they save bytes where those
    /// are dear, and cost CPU for every message in both directions.
    pub deflate: bool,
}

/// A request that becomes a WebSocket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Upgrade<'b> {
    /// `Sec-WebSocket-Key` as it came.
    pub key: &'b [u8],
    /// The subprotocol that was chosen, where any was offered.
    pub subprotocol: Option<&'static str>,
    /// What was agreed on about compressed messages, if they are.
    pub deflate: Option<Deflate>,
}

/// What the fields of the request say.
#[derive(Debug, Default)]
struct Reading<'b> {
    names_websocket: bool,
    names_upgrade: bool,
    version: Sole<'b>,
    key: Sole<'b>,
    offers_subprotocol: bool,
    subprotocol: Option<&'static str>,
    deflate: Option<Deflate>,
}

/// A field that means one thing.
#[derive(Debug, Default)]
struct Sole<'b> {
    value: &'b [u8],
    count: u8,
}

/// Climbs the rungs of a handshake. `bytes` are those that `head` was read from; nothing is copied.
///
/// # Errors
///
/// [`Refusal`] of the lowest rung that the request breaks. With the status 426 the answer says
/// what to upgrade to (RFC 9110, section 15.5.22; RFC 6455, section 4.4).
pub fn accept<'b>(head: &Head, bytes: &'b [u8], accepts: &Accepts) -> Result<Upgrade<'b>, Refusal> {
    let reading = Reading::of(head, bytes);
    // HTTP/1.0 knows no upgrade: what it says of one does not count (RFC 9110, section 7.8).
    if !(reading.names_websocket && reading.names_upgrade && head.minor_version == 1) {
        return Err(Step::UpgradeAsked.refuse("this path speaks WebSocket: upgrade to it"));
    }
    if !matches!(head.body, BodyLength::None | BodyLength::Length(0)) {
        return Err(Step::UpgradeAlone.refuse("a request for WebSocket has no body"));
    }
    if reading.version.read() != Some(b"13") {
        return Err(Step::UpgradeVersion.refuse("Sec-WebSocket-Version must be 13"));
    }
    let Some(key) = reading.key.read().filter(|key| is_key(key)) else {
        return Err(Step::UpgradeKey.refuse("Sec-WebSocket-Key must be 16 bytes in base64"));
    };
    if reading.offers_subprotocol && reading.subprotocol.is_none() {
        let message = "Sec-WebSocket-Protocol must offer mcp.v1 or mcp, or be left out";
        return Err(Step::UpgradeProtocol.refuse(message));
    }
    Ok(Upgrade {
        key,
        subprotocol: reading.subprotocol,
        deflate: reading.deflate.filter(|_| accepts.deflate),
    })
}

/// Appends the answer: from its last byte on the connection speaks in frames.
pub fn write(out: &mut Vec<u8>, upgrade: &Upgrade<'_>, date: &Date) {
    out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\nDate: ");
    out.extend_from_slice(date.as_bytes());
    out.extend_from_slice(b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n");
    out.extend_from_slice(b"Sec-WebSocket-Accept: ");
    out.extend_from_slice(derive_accept_key(upgrade.key).as_bytes());
    if let Some(subprotocol) = upgrade.subprotocol {
        out.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
        out.extend_from_slice(subprotocol.as_bytes());
    }
    if let Some(deflate) = upgrade.deflate {
        out.extend_from_slice(b"\r\nSec-WebSocket-Extensions: permessage-deflate; ");
        out.extend_from_slice(b"server_no_context_takeover; client_no_context_takeover");
        if let Some(bits) = deflate.server_window_bits {
            out.extend_from_slice(b"; server_max_window_bits=");
            write::unsigned(out, u64::from(bits));
        }
    }
    out.extend_from_slice(b"\r\n\r\n");
}

impl<'b> Reading<'b> {
    /// Reads the lines of a head, whose names and values are known to be well formed.
    fn of(head: &Head, bytes: &'b [u8]) -> Self {
        let mut reading = Self::default();
        let lines = bytes.get(..head.bytes as usize).unwrap_or_default();
        for line in lines.split(|&byte| byte == b'\n').skip(1) {
            if let Some(colon) = memchr(b':', line) {
                reading.take(&line[..colon], line[colon + 1..].trim_ascii());
            }
        }
        reading
    }

    fn take(&mut self, name: &[u8], value: &'b [u8]) {
        let is = |expected: &[u8]| name.eq_ignore_ascii_case(expected);
        match name.len() {
            7 if is(b"upgrade") => self.names_websocket |= lists(value, b"websocket"),
            10 if is(b"connection") => self.names_upgrade |= lists(value, b"upgrade"),
            17 if is(b"sec-websocket-key") => self.key.take(value),
            21 if is(b"sec-websocket-version") => self.version.take(value),
            22 if is(b"sec-websocket-protocol") => self.take_subprotocols(value),
            24 if is(b"sec-websocket-extensions") => {
                self.deflate = self.deflate.or_else(|| extensions::choose(value));
            }
            _ => {}
        }
    }

    /// The first that is spoken is chosen: a client lists what it prefers first (section 4.1).
    fn take_subprotocols(&mut self, value: &[u8]) {
        for offered in words(value).filter(|offered| !offered.is_empty()) {
            self.offers_subprotocol = true;
            let known = SUBPROTOCOLS.into_iter().find(|known| known.as_bytes() == offered);
            self.subprotocol = self.subprotocol.or(known);
        }
    }
}

impl<'b> Sole<'b> {
    const fn take(&mut self, value: &'b [u8]) {
        self.value = value;
        self.count = self.count.saturating_add(1);
    }

    /// Its value, where it stands once.
    fn read(&self) -> Option<&'b [u8]> {
        (self.count == 1).then_some(self.value)
    }
}

/// The words of a list.
fn words(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

fn lists(value: &[u8], expected: &[u8]) -> bool {
    words(value).any(|word| word.eq_ignore_ascii_case(expected))
}

/// Whether a value is what base64 makes of 16 bytes: 22 characters and two signs of equality.
fn is_key(value: &[u8]) -> bool {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    value.strip_suffix(b"==").is_some_and(|start| start.len() == 22 && start.iter().all(is_base64))
}
