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
    let [a, b, c, d] = key;
    let wide = u128::from_ne_bytes([a, b, c, d, a, b, c, d, a, b, c, d, a, b, c, d]);
    let (words, rest) = bytes.as_chunks_mut::<16>();
    for word in words {
        *word = (u128::from_ne_bytes(*word) ^ wide).to_ne_bytes();
    }
    let narrow = u32::from_ne_bytes(key);
    let (words, rest) = rest.as_chunks_mut::<4>();
    for word in words {
        *word = (u32::from_ne_bytes(*word) ^ narrow).to_ne_bytes();
    }
    for (byte, key) in rest.iter_mut().zip(key) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_single_bytes_are_masked_alike_at_every_length_and_turn() {
        let key = [0x37, 0xfa, 0x21, 0x3d];
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..100 {
            for start in 0..5 {
                let plain = &bytes[start..start + length];
                let key = turned(key, start);
                let mut masked = plain.to_vec();
                apply(&mut masked, key);
                let expected = plain.iter().enumerate().map(|(at, byte)| byte ^ key[at % 4]);
                assert!(masked.iter().copied().eq(expected), "{length} from {start}");
                apply(&mut masked, key);
                assert_eq!(masked, plain);
            }
        }
    }

    #[test]
    fn a_key_is_turned_to_the_byte_that_comes_next() {
        let key = [1, 2, 3, 4];
        for count in 0..9 {
            assert_eq!(turned(key, count), std::array::from_fn(|at| key[(at + count) % 4]));
        }
    }
}
