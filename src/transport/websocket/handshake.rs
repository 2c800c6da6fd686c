//! The server side of the opening handshake (RFC 6455, section 4.2).
//!
//! Path, method, host and origin are checked before, as for every request. Failures use the status
//! of their check.
//!
//! The first offer that can be accepted in full is selected. An offer with an unknown, repeated or
//! out-of-range parameter is declined.

use corelane_protocol::json::write;
use memchr::memchr;
use tungstenite::handshake::derive_accept_key;

use crate::http::checks::CheckId;
pub use crate::http::checks::Rejection;
use crate::http::head::{BodyLength, Head};
use crate::http::head_template::Date;
use crate::websocket::deflate::{WINDOW_BITS, WINDOW_BITS_MIN};

/// The supported subprotocols, equivalent: JSON-RPC messages as text. The TypeScript SDK requests
/// `mcp`.
pub const SUBPROTOCOLS: [&str; 2] = ["mcp.v1", "mcp"];

/// Options of the handshake.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct HandshakeOptions {
    /// Whether to accept `permessage-deflate`. Default false: it saves bandwidth and costs CPU for
    /// every message in both directions.
    pub deflate: bool,
}

/// A valid upgrade request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Upgrade<'b> {
    /// The value of `Sec-WebSocket-Key`.
    pub key: &'b [u8],
    /// The selected subprotocol, if any was offered.
    pub subprotocol: Option<&'static str>,
    /// The negotiated compression, if any.
    pub deflate: Option<PermessageDeflate>,
}

/// The handshake fields of a request.
#[derive(Debug, Default)]
struct HandshakeFields<'b> {
    has_upgrade_websocket: bool,
    has_connection_upgrade: bool,
    version: SingleField<'b>,
    key: SingleField<'b>,
    offers_subprotocol: bool,
    subprotocol: Option<&'static str>,
    deflate: Option<PermessageDeflate>,
}

/// A field that must occur exactly once.
#[derive(Debug, Default)]
struct SingleField<'b> {
    value: &'b [u8],
    count: u8,
}

/// Checks an upgrade request. `bytes` are those `head` was parsed from; nothing is copied.
///
/// # Errors
///
/// The [`Rejection`] of the first check that fails. A response with status 426 names the protocol
/// to upgrade to (RFC 9110, section 15.5.22; RFC 6455, section 4.4).
pub fn check_upgrade<'b>(
    head: &Head,
    bytes: &'b [u8],
    options: HandshakeOptions,
) -> Result<Upgrade<'b>, Rejection> {
    let fields = HandshakeFields::parse(head, bytes);
    // HTTP/1.0 has no upgrade; such fields are ignored (RFC 9110, section 7.8).
    if !(fields.has_upgrade_websocket && fields.has_connection_upgrade && head.minor_version == 1) {
        return Err(CheckId::UpgradeRequested.reject("this path requires a WebSocket upgrade"));
    }
    if !matches!(head.body, BodyLength::None | BodyLength::Length(0)) {
        return Err(CheckId::UpgradeBody.reject("a WebSocket upgrade request must not have a body"));
    }
    if fields.version.single_value() != Some(b"13") {
        return Err(CheckId::UpgradeVersion.reject("Sec-WebSocket-Version must be 13"));
    }
    let Some(key) = fields.key.single_value().filter(|key| is_valid_key(key)) else {
        return Err(CheckId::UpgradeKey.reject("Sec-WebSocket-Key must be 16 bytes in base64"));
    };
    if fields.offers_subprotocol && fields.subprotocol.is_none() {
        let message = "Sec-WebSocket-Protocol must offer mcp.v1 or mcp, or be omitted";
        return Err(CheckId::UpgradeProtocol.reject(message));
    }
    Ok(Upgrade {
        key,
        subprotocol: fields.subprotocol,
        deflate: fields.deflate.filter(|_| options.deflate),
    })
}

/// Appends the 101 response; frames follow its last byte. `session` is sent as `Mcp-Session-Id`,
/// `request_id` as `X-Request-ID`.
pub fn write_response(
    out: &mut Vec<u8>,
    upgrade: &Upgrade<'_>,
    session: Option<&[u8]>,
    request_id: &[u8],
    date: &Date,
) {
    out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\nDate: ");
    out.extend_from_slice(date.as_bytes());
    out.extend_from_slice(b"\r\nX-Request-ID: ");
    out.extend_from_slice(request_id);
    out.extend_from_slice(b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n");
    out.extend_from_slice(b"Sec-WebSocket-Accept: ");
    out.extend_from_slice(derive_accept_key(upgrade.key).as_bytes());
    if let Some(subprotocol) = upgrade.subprotocol {
        out.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
        out.extend_from_slice(subprotocol.as_bytes());
    }
    if let Some(session) = session {
        out.extend_from_slice(b"\r\nMcp-Session-Id: ");
        out.extend_from_slice(session);
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

/// Returns the lines of the header fields that are not of the handshake: without `Connection`,
/// `Upgrade` and `Sec-WebSocket-*`, and without line ends.
pub fn other_fields<'b>(head: &Head, bytes: &'b [u8]) -> impl Iterator<Item = &'b [u8]> + Clone {
    let lines = bytes.get(..head.bytes as usize).unwrap_or_default();
    let lines = lines.split(|&byte| byte == b'\n').skip(1).map(<[u8]>::trim_ascii_end);
    lines.filter(|line| {
        let name = &line[..memchr(b':', line).unwrap_or(0)];
        let is_prefixed = name.split_at_checked(HANDSHAKE_PREFIX.len());
        let is_prefixed =
            is_prefixed.is_some_and(|(start, _)| start.eq_ignore_ascii_case(HANDSHAKE_PREFIX));
        let is_named =
            [&b"connection"[..], b"upgrade"].iter().any(|it| name.eq_ignore_ascii_case(it));
        !(name.is_empty() || is_prefixed || is_named)
    })
}

/// How the names of the other fields of the handshake begin.
const HANDSHAKE_PREFIX: &[u8] = b"sec-websocket-";

impl<'b> HandshakeFields<'b> {
    /// Parses the lines of a valid head.
    fn parse(head: &Head, bytes: &'b [u8]) -> Self {
        let mut fields = Self::default();
        let lines = bytes.get(..head.bytes as usize).unwrap_or_default();
        for line in lines.split(|&byte| byte == b'\n').skip(1) {
            if let Some(colon) = memchr(b':', line) {
                fields.parse_field(&line[..colon], line[colon + 1..].trim_ascii());
            }
        }
        fields
    }

    fn parse_field(&mut self, name: &[u8], value: &'b [u8]) {
        let is = |expected: &[u8]| name.eq_ignore_ascii_case(expected);
        match name.len() {
            7 if is(b"upgrade") => self.has_upgrade_websocket |= list_contains(value, b"websocket"),
            10 if is(b"connection") => {
                self.has_connection_upgrade |= list_contains(value, b"upgrade");
            }
            17 if is(b"sec-websocket-key") => self.key.set(value),
            21 if is(b"sec-websocket-version") => self.version.set(value),
            22 if is(b"sec-websocket-protocol") => self.select_subprotocol(value),
            24 if is(b"sec-websocket-extensions") => {
                self.deflate = self.deflate.or_else(|| select_offer(value));
            }
            _ => {}
        }
    }

    /// Selects the first supported one; clients list them in order of preference (section 4.1).
    fn select_subprotocol(&mut self, value: &[u8]) {
        for offered in list_elements(value).filter(|offered| !offered.is_empty()) {
            self.offers_subprotocol = true;
            let known = SUBPROTOCOLS.into_iter().find(|known| known.as_bytes() == offered);
            self.subprotocol = self.subprotocol.or(known);
        }
    }
}

impl<'b> SingleField<'b> {
    const fn set(&mut self, value: &'b [u8]) {
        self.value = value;
        self.count = self.count.saturating_add(1);
    }

    /// Returns the value if the field occurred exactly once.
    fn single_value(&self) -> Option<&'b [u8]> {
        (self.count == 1).then_some(self.value)
    }
}

/// Splits a comma-separated list.
fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

fn list_contains(value: &[u8], expected: &[u8]) -> bool {
    list_elements(value).any(|element| element.eq_ignore_ascii_case(expected))
}

/// Returns whether a value is base64 of 16 bytes: 22 characters and two padding characters.
fn is_valid_key(value: &[u8]) -> bool {
    let is_base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    value.strip_suffix(b"==").is_some_and(|start| start.len() == 22 && start.iter().all(is_base64))
}

/// Negotiated compression parameters. Neither side uses context takeover, whatever was offered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct PermessageDeflate {
    /// `server_max_window_bits`, if requested: 9 to 15.
    pub server_window_bits: Option<u8>,
}

impl PermessageDeflate {
    /// Returns the window bits for compressing messages to the client.
    pub const fn window_bits(self) -> u8 {
        match self.server_window_bits {
            Some(bits) => bits,
            None => WINDOW_BITS,
        }
    }
}

/// Returns the first acceptable offer in a value of `Sec-WebSocket-Extensions`.
fn select_offer(value: &[u8]) -> Option<PermessageDeflate> {
    value.split(|&byte| byte == b',').find_map(parse_offer)
}

/// Parses an offer. Returns `None` if it cannot be accepted.
fn parse_offer(offer: &[u8]) -> Option<PermessageDeflate> {
    let mut parts = offer.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    if !parts.next()?.eq_ignore_ascii_case(b"permessage-deflate") {
        return None;
    }
    let mut seen = [false; PARAMETERS.len()];
    let mut server_window_bits = None;
    for part in parts {
        let mut pair = part.splitn(2, |&byte| byte == b'=').map(<[u8]>::trim_ascii);
        let (name, value) = (pair.next()?, pair.next());
        let index = PARAMETERS.iter().position(|known| name.eq_ignore_ascii_case(known))?;
        if std::mem::replace(&mut seen[index], true) {
            return None;
        }
        match (index, value) {
            (SERVER_NO_CONTEXT | CLIENT_NO_CONTEXT | CLIENT_WINDOW, None) => {}
            (CLIENT_WINDOW, Some(value)) if parse_window_bits(value).is_some() => {}
            (SERVER_WINDOW, Some(value)) => {
                server_window_bits =
                    Some(parse_window_bits(value).filter(|&bits| bits >= WINDOW_BITS_MIN)?);
            }
            _ => return None,
        }
    }
    Some(PermessageDeflate { server_window_bits })
}

/// Parses window bits: 8 to 15 without leading zeros, optionally quoted (RFC 7692, section 7.1.2).
fn parse_window_bits(value: &[u8]) -> Option<u8> {
    let inner = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    match inner.unwrap_or(value) {
        [digit @ b'8'..=b'9'] => Some(digit - b'0'),
        [b'1', digit @ b'0'..=b'5'] => Some(10 + digit - b'0'),
        _ => None,
    }
}

const SERVER_NO_CONTEXT: usize = 0;
const CLIENT_NO_CONTEXT: usize = 1;
const SERVER_WINDOW: usize = 2;
const CLIENT_WINDOW: usize = 3;

/// The parameters of an offer (RFC 7692, section 7.1), by the indices above.
const PARAMETERS: [&[u8]; 4] = [
    b"server_no_context_takeover",
    b"client_no_context_takeover",
    b"server_max_window_bits",
    b"client_max_window_bits",
];
