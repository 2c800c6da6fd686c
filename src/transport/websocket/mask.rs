//! Masks of frames: what a client sends is combined with four bytes of its choice (RFC 6455,
//! section 5.3), so that no proxy takes it for something else.
//!
//! What it keeps true: it works in place, in words that the compiler makes vectors of; the same
//! function masks and unmasks.

/// The key of one frame, turned to the byte that comes next.
pub(super) type Key = [u8; 4];

/// Combines `bytes`, of which the first belongs to the first byte of `key`, with the key.
#[inline]
pub(super) fn apply(bytes: &mut [u8], key: Key) {
    let wide = u128::from_ne_bytes([
        key[0], key[1], key[2], key[3], key[0], key[1], key[2], key[3], key[0], key[1], key[2],
        key[3], key[0], key[1], key[2], key[3],
    ]);
    let (words, rest) = bytes.as_chunks_mut::<16>();
    for word in words {
        *word = (u128::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(key.iter().cycle()) {
        *byte ^= key;
    }
}

/// The key as it stands `count` bytes later.
#[inline]
pub(super) const fn turned(key: Key, count: usize) -> Key {
    let [a, b, c, d] = key;
    match count % 4 {
        0 => key,
        1 => [b, c, d, a],
        2 => [c, d, a, b],
        _ => [d, a, b, c],
    }
}
