//! A model of the frame parser that sees the whole stream at once.

use crate::frames_fuzz::FrameOutcome;
use corelane_transport::websocket::limits::{CloseCode, FrameLimits, ProtocolError};

use super::{BINARY, CLOSE, COMPRESSED, CONTINUATION, FINAL, PING, TEXT};

/// An incomplete message.
struct Message {
    first: u8,
    bytes: Vec<u8>,
}

/// Returns the expected results of reading a stream.
pub(super) fn read(stream: &[u8], limits: &FrameLimits, is_deflating: bool) -> Vec<FrameOutcome> {
    let (mut outcomes, mut rest, mut open) = (Vec::new(), stream, None);
    while let [first, second, ..] = *rest {
        let (opcode, length) = (first & 15, usize::from(second & 127));
        let bits = if is_deflating && matches!(opcode, TEXT | BINARY) { 0x30 } else { 0x70 };
        let error = if first & bits != 0 {
            Some(ProtocolError::RESERVED_BIT)
        } else {
            header_error(first, second, limits, open.is_some())
        };
        if let Some(error) = error {
            outcomes.push(FrameOutcome::Invalid(error));
            return outcomes;
        }
        let width = [0, 2, 8][length.saturating_sub(125)];
        let Some(number) = rest.get(2..2 + width) else { return outcomes };
        let long = number.iter().fold(0_u64, |long, &byte| long << 8 | u64::from(byte));
        let length = if width == 0 { length as u64 } else { long };
        let held = open.as_ref().map_or(0, |open: &Message| open.bytes.len() as u64);
        let error = match width {
            2 if length < 126 => Some(ProtocolError::NON_MINIMAL_LENGTH),
            8 if length < 1 << 16 => Some(ProtocolError::NON_MINIMAL_LENGTH),
            8 if length >= 1 << 63 => Some(ProtocolError::LENGTH_OVERFLOW),
            _ if opcode < 8 && held + length > limits.message_bytes_max as u64 => {
                Some(ProtocolError::MESSAGE_TOO_BIG)
            }
            _ => None,
        };
        if let Some(error) = error {
            outcomes.push(FrameOutcome::Invalid(error));
            return outcomes;
        }
        let Some((key, after)) = rest[2 + width..].split_first_chunk::<4>() else {
            return outcomes;
        };
        let length = usize::try_from(length).unwrap();
        let bytes = after.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key);
        let payload: Vec<u8> = bytes.take(length).collect();
        let is_whole = payload.len() == length;
        rest = &after[payload.len()..];
        if opcode >= 8 {
            if is_whole {
                outcomes.push(control(opcode, payload));
            }
            if !is_whole
                || matches!(
                    outcomes.last(),
                    Some(FrameOutcome::Invalid(_) | FrameOutcome::Close(..))
                )
            {
                return outcomes;
            }
            continue;
        }
        let message = open.get_or_insert(Message { first, bytes: Vec::new() });
        message.bytes.extend(payload);
        let is_over = is_whole && first & FINAL != 0;
        if message.is_invalid(is_over) {
            outcomes.push(FrameOutcome::Invalid(ProtocolError::INVALID_UTF8));
            return outcomes;
        }
        if is_over {
            outcomes.extend(open.take().map(Message::into_outcome));
        }
    }
    outcomes
}

/// Returns the error of the first two bytes of a frame, reserved bits aside; `is_open` if a
/// fragmented message has begun.
fn header_error(
    first: u8,
    second: u8,
    limits: &FrameLimits,
    is_open: bool,
) -> Option<ProtocolError> {
    match first & 15 {
        3..8 | 11.. => Some(ProtocolError::RESERVED_OPCODE),
        8.. if first & FINAL == 0 => Some(ProtocolError::FRAGMENTED_CONTROL),
        8.. if second & 127 > 125 => Some(ProtocolError::OVERSIZED_CONTROL),
        CONTINUATION if !is_open => Some(ProtocolError::UNEXPECTED_CONTINUATION),
        TEXT | BINARY if is_open => Some(ProtocolError::INTERLEAVED),
        BINARY if !limits.is_binary_allowed => Some(ProtocolError::UNSUPPORTED_BINARY),
        _ if second & 128 == 0 => Some(ProtocolError::UNMASKED),
        _ => None,
    }
}

impl Message {
    /// Returns whether the text is invalid, or incomplete at its end.
    fn is_invalid(&self, is_over: bool) -> bool {
        let is_text = self.first & (COMPRESSED | 15) == TEXT;
        is_text
            && std::str::from_utf8(&self.bytes)
                .is_err_and(|error| is_over || error.error_len().is_some())
    }

    fn into_outcome(self) -> FrameOutcome {
        match self.first {
            first if first & COMPRESSED != 0 => FrameOutcome::Compressed(self.bytes),
            first if first & 15 == TEXT => FrameOutcome::Text(self.bytes),
            _ => FrameOutcome::Binary(self.bytes),
        }
    }
}

fn control(opcode: u8, payload: Vec<u8>) -> FrameOutcome {
    match (opcode, &payload[..]) {
        (CLOSE, []) => FrameOutcome::Close(None, payload),
        (CLOSE, [_]) => FrameOutcome::Invalid(ProtocolError::TRUNCATED_CLOSE_CODE),
        (CLOSE, [high, low, reason @ ..]) => {
            let number = u16::from(*high) << 8 | u16::from(*low);
            match CloseCode::from_u16(number) {
                None => FrameOutcome::Invalid(ProtocolError::INVALID_CLOSE_CODE),
                Some(_) if String::from_utf8(reason.to_vec()).is_err() => {
                    FrameOutcome::Invalid(ProtocolError::INVALID_CLOSE_REASON)
                }
                code => FrameOutcome::Close(code, payload),
            }
        }
        (PING, _) => FrameOutcome::Ping(payload),
        _ => FrameOutcome::Pong(payload),
    }
}
