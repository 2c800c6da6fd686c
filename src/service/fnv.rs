//! FNV-1a: a hash that others can compute too.
//!
//! It tells the cursors of one catalog from those of another, the same way in every process, and is
//! the work of the demo tool `hash`. Not for secrets: whoever sees a hash can make another text
//! that has it.

/// FNV-1a with 64 bits (Fowler, Noll and Vo; RFC 9923): one multiplication a byte.
#[derive(Clone, Copy, Debug)]
pub struct Fnv(u64);

impl Fnv {
    /// The hash of no bytes.
    pub const fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    /// The hash of what came before followed by `bytes`.
    #[inline]
    #[must_use]
    pub const fn and(self, mut bytes: &[u8]) -> Self {
        let mut state = self.0;
        while let [byte, rest @ ..] = bytes {
            state = (state ^ *byte as u64).wrapping_mul(0x0000_0100_0000_01B3);
            bytes = rest;
        }
        Self(state)
    }

    /// The 64 bits.
    pub const fn value(self) -> u64 {
        self.0
    }
}

impl Default for Fnv {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vectors_hold() {
        // Test vectors of RFC 9923 for 64 bits.
        assert_eq!(Fnv::new().value(), 0xCBF2_9CE4_8422_2325);
        assert_eq!(Fnv::new().and(b"a").value(), 0xAF63_DC4C_8601_EC8C);
        assert_eq!(Fnv::new().and(b"foobar").value(), 0x8594_4171_F739_67E8);
    }

    #[test]
    fn a_hash_taken_in_pieces_is_the_hash_of_the_whole() {
        assert_eq!(Fnv::new().and(b"foo").and(b"bar").value(), Fnv::new().and(b"foobar").value());
    }
}
