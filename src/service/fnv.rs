//! FNV-1a hash with 64 bits. It fingerprints the cursors of a catalog identically in every process,
//! and is the work of the demo tool `hash`. Not for secrets: collisions are easy to construct.

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

#[cfg(test)]
mod tests {
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
}
