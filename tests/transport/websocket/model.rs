//! What a stream of frames says, by looking at all of it at once: a page of code that no stream
//! could use.

use corelane::transport::websocket::code::CloseCode;
use corelane::transport::websocket::fuzz::Said;
use corelane::transport::websocket::limits::{Fault, FrameLimits};

use super::{BINARY, CLOSE, COMPRESSED, CONTINUATION, FINAL, PING, TEXT};

/// A message that is not whole.
struct Message {
    first: u8,
    bytes: Vec<u8>,
}

/// Everything that is said of a stream.
pub(super) fn read(stream: &[u8], limits: &FrameLimits, is_deflating: bool) -> Vec<Said> {
    let (mut said, mut rest, mut open) = (Vec::new(), stream, None);
    while let [first, second, ..] = *rest {
        let bits = if is_deflating && matches!(first & 15, TEXT | BINARY) { 0x30 } else { 0x70 };
        let (opcode, length) = (first & 15, usize::from(second & 127));
        let fault = match opcode {
            _ if first & bits != 0 => Some(Fault::RESERVED_BIT),
            3..8 | 11.. => Some(Fault::RESERVED_OPCODE),
            8.. if first & FINAL == 0 => Some(Fault::FRAGMENTED_CONTROL),
            8.. if length > 125 => Some(Fault::LONG_CONTROL),
            CONTINUATION if open.is_none() => Some(Fault::LONE_CONTINUATION),
            TEXT | BINARY if open.is_some() => Some(Fault::INTERLEAVED),
            BINARY if !limits.is_binary_allowed => Some(Fault::BINARY),
            _ if second & 128 == 0 => Some(Fault::UNMASKED),
            _ => None,
        };
        if let Some(fault) = fault {
            said.push(Said::Broken(fault));
            return said;
        }
        let width = [0, 2, 8][length.saturating_sub(125)];
        let Some(number) = rest.get(2..2 + width) else { return said };
        let long = number.iter().fold(0_u64, |long, &byte| long << 8 | u64::from(byte));
        let length = if width == 0 { length as u64 } else { long };
        let held = open.as_ref().map_or(0, |open: &Message| open.bytes.len() as u64);
        let fault = match width {
            2 if length < 126 => Some(Fault::LONG_LENGTH),
            8 if length < 1 << 16 => Some(Fault::LONG_LENGTH),
            8 if length >= 1 << 63 => Some(Fault::HUGE_LENGTH),
            _ if opcode < 8 && held + length > limits.message_bytes_max as u64 => {
                Some(Fault::TOO_BIG)
            }
            _ => None,
        };
        if let Some(fault) = fault {
            said.push(Said::Broken(fault));
            return said;
        }
        let Some((key, after)) = rest[2 + width..].split_first_chunk::<4>() else { return said };
        let length = usize::try_from(length).unwrap();
        let bytes = after.iter().zip(key.iter().cycle()).map(|(byte, key)| byte ^ key);
        let payload: Vec<u8> = bytes.take(length).collect();
        let is_whole = payload.len() == length;
        rest = &after[payload.len()..];
        if opcode >= 8 {
            if is_whole {
                said.push(control(opcode, payload));
            }
            if !is_whole || matches!(said.last(), Some(Said::Broken(_) | Said::Close(..))) {
                return said;
            }
            continue;
        }
        let message = open.get_or_insert(Message { first, bytes: Vec::new() });
        message.bytes.extend(payload);
        let is_over = is_whole && first & FINAL != 0;
        if message.is_broken(is_over) {
            said.push(Said::Broken(Fault::NOT_UTF8));
            return said;
        }
        if is_over {
            said.extend(open.take().map(Message::said));
        }
    }
    said
}

impl Message {
    /// Whether it can not become text, or is none at its end.
    fn is_broken(&self, is_over: bool) -> bool {
        let is_text = self.first & (COMPRESSED | 15) == TEXT;
        is_text
            && std::str::from_utf8(&self.bytes)
                .is_err_and(|error| is_over || error.error_len().is_some())
    }

    fn said(self) -> Said {
        match self.first {
            first if first & COMPRESSED != 0 => Said::Compressed(self.bytes),
            first if first & 15 == TEXT => Said::Text(self.bytes),
            _ => Said::Binary(self.bytes),
        }
    }
}

fn control(opcode: u8, payload: Vec<u8>) -> Said {
    match (opcode, &payload[..]) {
        (CLOSE, []) => Said::Close(None, payload),
        (CLOSE, [_]) => Said::Broken(Fault::HALF_CODE),
        (CLOSE, [high, low, reason @ ..]) => {
            let number = u16::from(*high) << 8 | u16::from(*low);
            match CloseCode::read(number) {
                None => Said::Broken(Fault::BAD_CODE),
                Some(_) if String::from_utf8(reason.to_vec()).is_err() => {
                    Said::Broken(Fault::BAD_REASON)
                }
                code => Said::Close(code, payload),
            }
        }
        (PING, _) => Said::Ping(payload),
        _ => Said::Pong(payload),
    }
}
