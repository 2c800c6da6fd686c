//! Encoding of client frames and decoding of server frames (RFC 6455, section 5.2).

use std::fmt::Write;

const MASKING_KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// Encodes a masked client frame.
pub fn encode_frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("payload is short");
    assert!(length < 126, "payload is short");
    let masked = payload.iter().zip(MASKING_KEY.iter().cycle()).map(|(byte, key)| byte ^ key);
    [first, 0x80 | length].into_iter().chain(MASKING_KEY).chain(masked).collect()
}

/// A text message in one frame.
pub fn text(text: &str) -> Vec<u8> {
    encode_frame(0x81, text.as_bytes())
}

/// The first fragment of a text message.
pub fn first_fragment(text: &str) -> Vec<u8> {
    encode_frame(0x01, text.as_bytes())
}

/// The last fragment of a text message.
pub fn last_fragment(text: &str) -> Vec<u8> {
    encode_frame(0x80, text.as_bytes())
}

pub fn ping(payload: &str) -> Vec<u8> {
    encode_frame(0x89, payload.as_bytes())
}

pub fn pong() -> Vec<u8> {
    encode_frame(0x8a, &[])
}

pub fn close(code: Option<u16>) -> Vec<u8> {
    encode_frame(
        0x88,
        &code.map(u16::to_be_bytes).unwrap_or_default()[..2 * usize::from(code.is_some())],
    )
}

/// Decodes server frames to their kind and text; a close frame to its code and reason.
pub fn decode_frames(mut bytes: &[u8]) -> Vec<String> {
    let mut frames = Vec::new();
    while let [first, length, rest @ ..] = bytes {
        let (length, rest) = match (length, rest) {
            (126, [high, low, rest @ ..]) => (u16::from_be_bytes([*high, *low]).into(), rest),
            (127, _) => panic!("64-bit length"),
            (length, rest) => (usize::from(*length), rest),
        };
        let (payload, rest) = rest.split_at(length);
        frames.push(describe(*first, payload));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "incomplete frame: {bytes:?}");
    frames
}

fn describe(first: u8, payload: &[u8]) -> String {
    let (kind, payload) = match (first, payload) {
        (0x81, text) => (String::new(), text),
        (0x89, payload) => ("ping ".to_owned(), payload),
        (0x8a, payload) => ("pong ".to_owned(), payload),
        (0x88, []) => ("close ".to_owned(), payload),
        (0x88, [high, low, reason @ ..]) => {
            (format!("close {} ", u16::from_be_bytes([*high, *low])), reason)
        }
        (first, _) => panic!("unexpected first byte {first:#x}"),
    };
    let mut frame = kind;
    write!(frame, "{}", std::str::from_utf8(payload).unwrap()).unwrap();
    frame.trim_end().to_owned()
}
