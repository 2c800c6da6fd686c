//! The other end of a connection of frames: what it says, and what it makes of what it reads.

use std::fmt::Write;

const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

/// A frame as a client sends it.
pub(crate) fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("short");
    assert!(length < 126, "short");
    let masked = payload.iter().zip(KEY.iter().cycle()).map(|(byte, key)| byte ^ key);
    [first, 0x80 | length].into_iter().chain(KEY).chain(masked).collect()
}

/// A whole message.
pub(crate) fn text(text: &str) -> Vec<u8> {
    frame(0x81, text.as_bytes())
}

/// The beginning of a message in fragments.
pub(crate) fn beginning(text: &str) -> Vec<u8> {
    frame(0x01, text.as_bytes())
}

/// The end of one.
pub(crate) fn ending(text: &str) -> Vec<u8> {
    frame(0x80, text.as_bytes())
}

pub(crate) fn ping(payload: &str) -> Vec<u8> {
    frame(0x89, payload.as_bytes())
}

pub(crate) fn pong() -> Vec<u8> {
    frame(0x8a, &[])
}

pub(crate) fn close(code: Option<u16>) -> Vec<u8> {
    frame(0x88, &code.map(u16::to_be_bytes).unwrap_or_default()[..2 * usize::from(code.is_some())])
}

/// The frames of a server: kind and text of each; a close frame as its code and reason.
pub(crate) fn frames(mut bytes: &[u8]) -> Vec<String> {
    let mut frames = Vec::new();
    while let [first, length, rest @ ..] = bytes {
        let (length, rest) = match (length, rest) {
            (126, [high, low, rest @ ..]) => (u16::from_be_bytes([*high, *low]).into(), rest),
            (127, _) => panic!("no message of a test is that long"),
            (length, rest) => (usize::from(*length), rest),
        };
        let (payload, rest) = rest.split_at(length);
        frames.push(describe(*first, payload));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "half a frame: {bytes:?}");
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
        (first, _) => panic!("a frame that begins with {first:#x}"),
    };
    let mut frame = kind;
    write!(frame, "{}", std::str::from_utf8(payload).unwrap()).unwrap();
    frame.trim_end().to_owned()
}
