//! A seeded pseudo-random generator for the simulator, the fuzz targets and retry jitter.
//!
//! The same seed gives the same sequence on every machine. Not for secrets: those come from
//! the random source of the system.

/// A `SplitMix64` generator (Steele, Lea and Flood, 2014): one word of state, a few instructions a
/// number.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator whose sequence is determined by `seed`.
    pub const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// Returns a number below `bound`, or zero if `bound` is zero.
    #[expect(clippy::cast_possible_truncation, reason = "the high half of the product is meant")]
    pub const fn below(&mut self, bound: usize) -> usize {
        ((self.next_u64() as u128 * bound as u128) >> 64) as usize
    }

    /// Returns `true` with probability `numerator / denominator`.
    pub const fn chance(&mut self, numerator: usize, denominator: usize) -> bool {
        self.below(denominator) < numerator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_repeats_the_sequence() {
        let (mut one, mut two) = (Random::seeded(7), Random::seeded(7));
        assert!((0..100).all(|_| one.next_u64() == two.next_u64()));
    }

    #[test]
    fn numbers_cover_the_range_below_the_bound() {
        let mut random = Random::seeded(1);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[random.below(7)] = true;
        }
        assert!(seen.iter().all(|&s| s));
        assert_eq!(random.below(0), 0);
    }
}
