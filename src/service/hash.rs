//! Hashes that are the same in every process. Neither is for secrets or for keys that a peer
//! chooses: collisions are easy to construct.
//!
//! [`Fnv`] fingerprints the cursors of a catalog, and is the work of the demo tool `hash`.
//! [`NameHasher`] is for the lookup of entries by name: it processes eight bytes per step and mixes
//! little, which is enough for the names that a host program chooses.

use std::hash::{BuildHasherDefault, Hasher};

/// FNV-1a with 64 bits (RFC 9923): one multiplication per byte.
#[derive(Clone, Copy, Debug)]
pub struct Fnv(u64);

impl Fnv {
    /// Hash of the empty input.
    pub const fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    /// Appends `bytes` to the hashed input.
    #[inline]
    #[must_use]
    pub const fn update(self, mut bytes: &[u8]) -> Self {
        let mut state = self.0;
        while let [byte, rest @ ..] = bytes {
            state = (state ^ *byte as u64).wrapping_mul(0x0000_0100_0000_01B3);
            bytes = rest;
        }
        Self(state)
    }

    /// The hash of all bytes so far.
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl Default for Fnv {
    fn default() -> Self {
        Self::new()
    }
}

/// Builds hashers for a [`std::collections::HashMap`] whose keys are names.
pub type BuildNameHasher = BuildHasherDefault<NameHasher>;

/// Multiplies word by word and folds the product (the scheme of `wyhash`). A lookup takes about ten
/// nanoseconds; with a keyed hash twice that, by binary search among a hundred names ten times.
#[derive(Clone, Copy, Debug, Default)]
pub struct NameHasher(u64);

impl NameHasher {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "both halves of the product are used")]
    const fn mix(&mut self, word: u64) {
        let product = (self.0 ^ word) as u128 * GOLDEN_RATIO as u128;
        self.0 = product as u64 ^ (product >> 64) as u64;
    }
}

impl Hasher for NameHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        // Starting with the length distinguishes a rest that ends in zeros from a shorter one.
        let rest = rest.iter().fold(rest.len() as u64, |rest, byte| (rest << 8) | u64::from(*byte));
        self.mix(rest);
    }

    /// Ignores the terminator that `str` hashes after its bytes; a key of one name needs none.
    #[inline]
    fn write_u8(&mut self, _: u8) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// 2^64 divided by the golden ratio: its multiples spread evenly (Knuth, volume 3, section 6.4).
const GOLDEN_RATIO: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn fnv_matches_rfc9923_test_vectors() {
        assert_eq!(Fnv::new().value(), 0xCBF2_9CE4_8422_2325);
        assert_eq!(Fnv::new().update(b"a").value(), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(Fnv::new().update(b"foobar").value(), 0x8594_4171_F739_67E8);
    }

    #[test]
    fn fnv_of_chunks_equals_fnv_of_whole() {
        assert_eq!(
            Fnv::new().update(b"foo").update(b"bar").value(),
            Fnv::new().update(b"foobar").value()
        );
    }

    fn hash(name: &str) -> u64 {
        BuildNameHasher::new().hash_one(name)
    }

    #[test]
    fn similar_names_hash_differently() {
        let names: Vec<String> = (0..1000)
            .flat_map(|count| [format!("tool-{count}"), format!("{count}/list/of/all/things")])
            .collect();
        let hashes: BTreeSet<u64> = names.iter().map(|name| hash(name)).collect();
        assert_eq!(hashes.len(), names.len());
        let low_bits: BTreeSet<u64> = hashes.iter().map(|hash| hash & 0xFFF).collect();
        assert!(low_bits.len() > 1300, "{} of 4096 buckets for 2000 names", low_bits.len());
    }

    #[test]
    fn every_byte_and_length_affect_hash() {
        let lengths: BTreeSet<u64> = (0..40).map(|length| hash(&"x".repeat(length))).collect();
        assert_eq!(lengths.len(), 40);
        let base = "a".repeat(20);
        for index in 0..20 {
            let mut other = base.clone();
            other.replace_range(index..=index, "b");
            assert_ne!(hash(&base), hash(&other));
        }
    }
}
