//! The hash that finds tools by their names.
//!
//! What it keeps true: the same names give the same table in every run, on every shard. It reads
//! eight bytes a step and mixes little, which is enough for some hundred names that one host
//! chose. Not for tables whose keys a peer chooses: their collisions could be chosen too.

use std::hash::{BuildHasherDefault, Hasher};

/// Makes hashers for a [`std::collections::HashMap`] whose keys are names.
pub(super) type BuildNameHasher = BuildHasherDefault<NameHasher>;

/// Multiplies a word at a time and folds the product (the scheme of `wyhash`). With it a tool is
/// found in some ten nanoseconds; with a keyed hash in twice that, by binary search among a hundred
/// names in ten times that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NameHasher(u64);

impl NameHasher {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "both halves of the product are meant")]
    const fn mix(&mut self, word: u64) {
        let product = (self.0 ^ word) as u128 * GOLDEN as u128;
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
        // The length keeps a rest that ends in zeros apart from a shorter one.
        let rest = rest.iter().fold(rest.len() as u64, |rest, byte| (rest << 8) | u64::from(*byte));
        self.mix(rest);
    }

    /// The mark that `str` hashes behind its bytes; a key that is one name needs none.
    #[inline]
    fn write_u8(&mut self, _: u8) {}

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

/// 2^64 divided by the golden ratio: its multiples spread evenly (Knuth, volume 3, section 6.4).
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::BuildHasher;

    use super::*;

    fn hash(name: &str) -> u64 {
        BuildNameHasher::new().hash_one(name)
    }

    #[test]
    fn names_that_are_alike_hash_apart() {
        let names: Vec<String> = (0..1000)
            .flat_map(|count| [format!("tool-{count}"), format!("{count}/list/of/all/things")])
            .collect();
        let hashes: BTreeSet<u64> = names.iter().map(|name| hash(name)).collect();
        assert_eq!(hashes.len(), names.len());
        let low_bits: BTreeSet<u64> = hashes.iter().map(|hash| hash & 0xFFF).collect();
        assert!(low_bits.len() > 1300, "{} of 4096 places for 2000 names", low_bits.len());
    }

    #[test]
    fn every_byte_and_the_length_count() {
        let lengths: BTreeSet<u64> = (0..40).map(|length| hash(&"x".repeat(length))).collect();
        assert_eq!(lengths.len(), 40);
        let base = "a".repeat(20);
        for place in 0..20 {
            let mut other = base.clone();
            other.replace_range(place..=place, "b");
            assert_ne!(hash(&base), hash(&other));
        }
    }
}
