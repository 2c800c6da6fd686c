//! The masking keys of one WebSocket connection.

use std::io;

/// Random bytes that are read from the system at a time.
const RANDOM_BYTES: usize = 256;

/// Masking keys, each used once and unpredictable (RFC 6455, section 5.3).
#[derive(Debug)]
pub(super) struct MaskKeys {
    random: Box<[u8; RANDOM_BYTES]>,
    used: usize,
}

impl MaskKeys {
    /// Reads the first keys.
    ///
    /// # Errors
    ///
    /// If the system has no random source.
    pub(super) fn new() -> io::Result<Self> {
        let mut random = Box::new([0; RANDOM_BYTES]);
        getrandom::fill(&mut *random)?;
        Ok(Self { random, used: 0 })
    }

    /// Returns the next key.
    pub(super) fn next(&mut self) -> [u8; 4] {
        if self.used == RANDOM_BYTES {
            self.used = 0;
            if let Err(error) = getrandom::fill(&mut *self.random) {
                tracing::error!(%error, "masking keys repeat: the system has no random bytes");
            }
        }
        let mut key = [0; 4];
        key.copy_from_slice(&self.random[self.used..self.used + 4]);
        self.used += key.len();
        key
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn masking_keys_are_fresh() {
        let mut keys = MaskKeys::new().unwrap();
        let count = RANDOM_BYTES;
        let distinct: BTreeSet<[u8; 4]> = (0..count).map(|_| keys.next()).collect();
        // Two of them are equal once in 130,000 runs.
        assert!(distinct.len() >= count - 1);
    }
}
