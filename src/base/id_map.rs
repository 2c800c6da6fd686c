//! Maps whose keys are numbers that this process has counted up itself.
//!
//! A peer may name such a key but never choose one, so it cannot make keys collide: a
//! multiplication replaces the keyed hash of the standard library.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by a number of its owner.
pub type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// The hash of one number: its product with 2^64 divided by the golden ratio, which differs in its
/// low and in its high bits for numbers that follow each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct IdHasher(u64);

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(self.0 ^ u64::from(*byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::BuildHasher as _;

    use super::*;

    #[test]
    fn consecutive_ids_have_different_hash_bits() {
        let build = BuildHasherDefault::<IdHasher>::default();
        let hashes: Vec<u64> = (0..1_024_u64).map(|id| build.hash_one(id)).collect();
        let low: BTreeSet<u64> = hashes.iter().map(|hash| hash % 1_024).collect();
        let high: BTreeSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
        assert_eq!((low.len(), high.len()), (1_024, 128));
        assert_ne!(build.hash_one("a"), build.hash_one("b"));
    }
}
