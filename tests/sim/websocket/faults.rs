//! Violations of the WebSocket protocol by a client, each with the expected close code.

use corelane::Options;
use corelane::options::Utf8CloseCode;
use corelane_base::random::Random;

use super::bytes::{BINARY, CLOSE, CONTINUATION, FINAL, PING, TEXT, header, masked, unmasked};

/// What a server requires of its clients.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WebSocketRules {
    pub(crate) message_bytes_max: usize,
    /// Close code for text that is not UTF-8.
    pub(crate) utf8_code: u16,
    /// Each text message must end with a newline.
    pub(crate) requires_newline: bool,
}

impl WebSocketRules {
    pub(crate) fn from_options(options: &Options) -> Self {
        let utf8_code = match options.websocket.utf8_close_code {
            Utf8CloseCode::InvalidPayload => 1007,
            Utf8CloseCode::ProtocolError => 1002,
        };
        Self {
            message_bytes_max: options.limits.message_bytes_max,
            utf8_code,
            requires_newline: options.websocket.strict_delimiter,
        }
    }
}

/// Draws bytes that violate the protocol at a message boundary; returns them with the close code.
pub(crate) fn draw(random: &mut Random, terms: WebSocketRules) -> (Vec<u8>, u16) {
    let frame = |first: u8, payload: &[u8], random: &mut Random| masked(first, payload, random);
    match random.below(16) {
        0 => (frame(FINAL | 0x40 | TEXT, b"{}\n", random), 1002),
        1 => (frame(FINAL | [0x20, 0x10][random.below(2)] | TEXT, b"{}\n", random), 1002),
        2 => (unmasked(FINAL | TEXT, b"{}\n"), 1002),
        3 => (frame(FINAL | BINARY, b"{}\n", random), 1003),
        4 => (frame(BINARY, b"{", random), 1003),
        5 => (frame(FINAL | TEXT, b"\"\xff\"\n", random), terms.utf8_code),
        6 => {
            // Cut inside a character, so that the fault shows only in the next frame.
            let parts = [frame(TEXT, b"\"\xc3", random), frame(FINAL, b"\"\n", random)];
            (parts.concat(), terms.utf8_code)
        }
        7 => (frame(FINAL | TEXT, &vec![b' '; terms.message_bytes_max + 1], random), 1009),
        8 => ([header(FINAL | TEXT, terms.message_bytes_max + 1), vec![0; 4]].concat(), 1009),
        9 => {
            let half = vec![b' '; terms.message_bytes_max / 2 + 1];
            let parts = [frame(TEXT, &half, random), frame(CONTINUATION, &half, random)];
            (parts.concat(), 1009)
        }
        10 => (frame(FINAL | CONTINUATION, b"{}\n", random), 1002),
        11 => {
            let parts = [frame(TEXT, b"[", random), frame(FINAL | TEXT, b"]\n", random)];
            (parts.concat(), 1002)
        }
        12 => (frame(PING, b"", random), 1002),
        13 => (frame(FINAL | PING, &[b'x'; 126], random), 1002),
        14 => (frame(FINAL | CLOSE, &999_u16.to_be_bytes(), random), 1002),
        _ => (frame(FINAL | [0x3, 0xb][random.below(2)], b"", random), 1002),
    }
}
