//! Masking of frames (RFC 6455, section 5.3), in place. Masking and unmasking are the same.

/// A masking key, rotated to the next byte.
pub(super) type MaskKey = [u8; 4];

/// Applies `key` to `bytes`; the first byte of the key belongs to the first of `bytes`.
#[inline]
pub(super) fn apply_mask(bytes: &mut [u8], key: MaskKey) {
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

/// Returns the key rotated by `count` bytes.
#[inline]
pub(super) const fn rotate_key(key: MaskKey, count: usize) -> MaskKey {
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
    fn mask_is_equal_at_any_length_and_rotation() {
        let key = [0x37, 0xfa, 0x21, 0x3d];
        let bytes: Vec<u8> = (0..=255).collect();
        for length in 0..100 {
            for start in 0..5 {
                let plain = &bytes[start..start + length];
                let key = rotate_key(key, start);
                let mut masked = plain.to_vec();
                apply_mask(&mut masked, key);
                let expected = plain.iter().enumerate().map(|(at, byte)| byte ^ key[at % 4]);
                assert!(masked.iter().copied().eq(expected), "{length} from {start}");
                apply_mask(&mut masked, key);
                assert_eq!(masked, plain);
            }
        }
    }

    #[test]
    fn rotated_key_starts_at_next_byte() {
        let key = [1, 2, 3, 4];
        for count in 0..9 {
            assert_eq!(rotate_key(key, count), std::array::from_fn(|at| key[(at + count) % 4]));
        }
    }
}
