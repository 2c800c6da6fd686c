//! The one extension that is spoken, `permessage-deflate`, as clients offer it (RFC 6455, section
//! 9.1; RFC 7692, sections 5 and 7.1).
//!
//! What it keeps true: the first offer that can be kept in full is taken; one with a parameter that
//! is unknown, doubled or out of range is passed over, as if it had not been made.

use crate::transport::websocket::deflate::{WINDOW_BITS, WINDOW_BITS_MIN};

/// What was agreed on about compressed messages. Neither side keeps a context between messages,
/// whatever was offered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Deflate {
    /// Bits of the window that messages to the client are compressed with, where it asked for a
    /// window: 9 to 15.
    pub server_window_bits: Option<u8>,
}

impl Deflate {
    /// Bits of the window that messages to the client are compressed with.
    pub const fn window_bits(self) -> u8 {
        match self.server_window_bits {
            Some(bits) => bits,
            None => WINDOW_BITS,
        }
    }
}

/// The first offer in a value of `Sec-WebSocket-Extensions` that is taken.
pub(super) fn choose(value: &[u8]) -> Option<Deflate> {
    value.split(|&byte| byte == b',').find_map(read)
}

/// An offer, if it is one of `permessage-deflate` that can be kept.
fn read(offer: &[u8]) -> Option<Deflate> {
    let mut parts = offer.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    if !parts.next()?.eq_ignore_ascii_case(b"permessage-deflate") {
        return None;
    }
    let mut seen = [false; PARAMETERS.len()];
    let mut server_window_bits = None;
    for part in parts {
        let mut halves = part.splitn(2, |&byte| byte == b'=').map(<[u8]>::trim_ascii);
        let (name, value) = (halves.next()?, halves.next());
        let place = PARAMETERS.iter().position(|known| name.eq_ignore_ascii_case(known))?;
        if std::mem::replace(&mut seen[place], true) {
            return None;
        }
        match (place, value) {
            (SERVER_CONTEXT | CLIENT_CONTEXT | CLIENT_WINDOW, None) => {}
            (CLIENT_WINDOW, Some(value)) if read_bits(value).is_some() => {}
            (SERVER_WINDOW, Some(value)) => {
                server_window_bits =
                    Some(read_bits(value).filter(|&bits| bits >= WINDOW_BITS_MIN)?);
            }
            _ => return None,
        }
    }
    Some(Deflate { server_window_bits })
}

/// Bits of a window: a number from 8 to 15 without a zero before it, perhaps in quotes (RFC 7692,
/// section 7.1.2).
fn read_bits(value: &[u8]) -> Option<u8> {
    let inner = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\""));
    match inner.unwrap_or(value) {
        [digit @ b'8'..=b'9'] => Some(digit - b'0'),
        [b'1', digit @ b'0'..=b'5'] => Some(10 + digit - b'0'),
        _ => None,
    }
}

const SERVER_CONTEXT: usize = 0;
const CLIENT_CONTEXT: usize = 1;
const SERVER_WINDOW: usize = 2;
const CLIENT_WINDOW: usize = 3;

/// The parameters of an offer (RFC 7692, section 7.1), by the numbers above.
const PARAMETERS: [&[u8]; 4] = [
    b"server_no_context_takeover",
    b"client_no_context_takeover",
    b"server_max_window_bits",
    b"client_max_window_bits",
];
