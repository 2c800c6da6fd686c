//! Writing of client frames: masked, one frame per message (RFC 6455, sections 5.2 and 5.3).

use crate::websocket::code::CloseCode;
use crate::websocket::frame::{CLOSE, CONTROL_BYTES_MAX, FINAL, PING, PONG, TEXT};
use crate::websocket::mask::apply_mask;
use crate::websocket::writer::client_header;

/// Appends a text message. Returns the start of its masked payload in `out`.
pub fn write_text(out: &mut Vec<u8>, text: &[u8], key: [u8; 4]) -> usize {
    write_frame(out, TEXT, text, key)
}

/// Appends a ping without a payload.
pub fn write_ping(out: &mut Vec<u8>, key: [u8; 4]) {
    write_frame(out, PING, &[], key);
}

/// Appends a pong with the payload of the ping.
pub fn write_pong(out: &mut Vec<u8>, payload: &[u8], key: [u8; 4]) {
    write_frame(out, PONG, &payload[..payload.len().min(CONTROL_BYTES_MAX)], key);
}

/// Appends a close frame with a code and a reason. The reason is truncated to fit a control frame.
pub fn write_close(out: &mut Vec<u8>, code: CloseCode, reason: &str, key: [u8; 4]) {
    let number = code.as_u16().to_be_bytes();
    let reason = &reason[..reason.floor_char_boundary(CONTROL_BYTES_MAX - number.len())];
    write_frame(out, CLOSE, &[&number, reason.as_bytes()].concat(), key);
}

fn write_frame(out: &mut Vec<u8>, opcode: u8, payload: &[u8], key: [u8; 4]) -> usize {
    let (mut header, length) = client_header(payload.len());
    header[0] = FINAL | opcode;
    header[length - key.len()..length].copy_from_slice(&key);
    out.extend_from_slice(&header[..length]);
    let start = out.len();
    out.extend_from_slice(payload);
    apply_mask(&mut out[start..], key);
    start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::limits::FrameLimits;
    use crate::websocket::reader::{FrameEvent, FrameReader};

    const KEY: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];

    #[test]
    fn text_of_any_length_is_masked() {
        for length in [0, 1, 125, 126, 65_535, 65_536] {
            let text = vec![b'a'; length];
            let mut out = Vec::new();
            let payload = write_text(&mut out, &text, KEY);
            assert_eq!(out.len() - payload, length);
            assert_eq!(out[payload - 4..payload], KEY);
            let event =
                FrameReader::new().next(&mut out, &mut 0, &FrameLimits::default(), Vec::new);
            let (start, end) = (payload, payload + length);
            assert_eq!(event, FrameEvent::InPlace { start, end, is_compressed: false });
            assert_eq!(out[start..], text);
        }
    }

    #[test]
    fn control_frames_are_read_by_a_server() {
        let (mut out, mut from) = (Vec::new(), 0);
        write_ping(&mut out, KEY);
        write_pong(&mut out, &[b'p'; 126], KEY);
        write_close(&mut out, CloseCode::NORMAL, &"é".repeat(80), KEY);
        let mut reader = FrameReader::new();
        let mut next = || {
            let event = reader.next(&mut out, &mut from, &FrameLimits::default(), Vec::new);
            (event, reader.control_payload().to_vec())
        };
        assert_eq!(next(), (FrameEvent::Ping, Vec::new()));
        assert_eq!(next(), (FrameEvent::Pong, vec![b'p'; 125]));
        let (event, payload) = next();
        assert_eq!(event, FrameEvent::Close(Some(CloseCode::NORMAL)));
        assert_eq!(payload.len(), 124);
    }
}
