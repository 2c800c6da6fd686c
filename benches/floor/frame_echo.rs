//! A minimal WebSocket server: accepts the upgrade, unmasks every frame and echoes its text.
//!
//! It supports only unfragmented text frames: no fragments, control frames or UTF-8 check. It
//! ignores the fields of the upgrade, and has a constant accept value, because this bench uses one
//! key.

use corelane_bench_support::frames::{self, ACCEPT, MASKED, TEXT};
use memchr::memmem;

/// Appends the response to the frame or upgrade request at the start of `bytes` and returns its
/// length, or `None` if it is incomplete.
///
/// A request starts with an ASCII letter and a text frame does not, so no connection state is
/// needed.
#[inline]
pub(crate) fn respond(bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    if *bytes.first()? != TEXT {
        return accept_upgrade(bytes, out);
    }
    let (mask_at, length) = frames::measure(bytes)?;
    let start = mask_at + 4;
    let masked = bytes.get(start..start + length)?;
    let mask = bytes.get(mask_at..start)?.try_into().ok()?;
    debug_assert_eq!(bytes[1] & MASKED, MASKED);
    frames::write_head(out, length, 0);
    let text_at = out.len();
    out.extend_from_slice(masked);
    unmask(&mut out[text_at..], mask);
    Some(start + length)
}

/// Unmasks word by word, which the compiler vectorizes.
fn unmask(text: &mut [u8], mask: [u8; 4]) {
    let (words, rest) = text.as_chunks_mut();
    let whole = u32::from_ne_bytes(mask);
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ whole).to_ne_bytes();
    }
    for (byte, mask) in rest.iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

fn accept_upgrade(bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let end = memmem::find(bytes, b"\r\n\r\n")?;
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {ACCEPT}\r\n\r\n"
    );
    out.extend_from_slice(response.as_bytes());
    Some(end + 4)
}
