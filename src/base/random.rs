//! Seeded chance.
//!
//! The same seed gives the same draws on every machine: the simulator, the fuzz bodies and the
//! order of retries live on it. Not for secrets: session ids come from the system's source.

/// A small generator (`SplitMix64`, Steele, Lea and Flood, 2014): one word of state, good enough
/// to scatter faults, cheap enough to ask at every step.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that draws the same sequence for the same `seed`.
    pub const fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number below `bound`; zero where `bound` is zero.
    #[expect(clippy::cast_possible_truncation, reason = "the high half of the product is meant")]
    pub const fn below(&mut self, bound: usize) -> usize {
        ((self.next_u64() as u128 * bound as u128) >> 64) as usize
    }

    /// True in `numerator` of `denominator` draws.
    pub const fn chance(&mut self, numerator: usize, denominator: usize) -> bool {
        self.below(denominator) < numerator
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_sequence() {
        let (mut one, mut two) = (Random::seeded(7), Random::seeded(7));
        assert!((0..100).all(|_| one.next_u64() == two.next_u64()));
    }

    #[test]
    fn draws_stay_below_their_bound_and_reach_all_of_it() {
        let mut random = Random::seeded(1);
        let mut seen = [false; 7];
        for _ in 0..1000 {
            seen[random.below(7)] = true;
        }
        assert!(seen.iter().all(|&s| s));
        assert_eq!(random.below(0), 0);
    }
}
