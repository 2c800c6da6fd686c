//! Negotiation of the `permessage-deflate` extension (RFC 6455, section 9.1; RFC 7692, sections 5
//! and 7.1).
//!
//! The first offer that can be accepted in full is selected. An offer with an unknown, repeated or
//! out-of-range parameter is declined.

use crate::websocket::deflate::{WINDOW_BITS, WINDOW_BITS_MIN};

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
pub(super) fn select_offer(value: &[u8]) -> Option<PermessageDeflate> {
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
