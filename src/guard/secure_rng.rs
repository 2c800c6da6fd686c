//! A cryptographically secure, deterministic random number generator.
//!
//! Invariants: without the secret, no number can be predicted from any others; streams of one
//! secret are independent of each other and of what [`super::state_cipher`] encrypts under it. The
//! same secret gives the same numbers, so that simulations are repeatable.
//!
//! Source: RFC 8439, section 2.4: a number is the first 128 bits of the key stream of its nonce.

use chacha20poly1305::aead::Aead;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce};

use super::state_cipher::KEY_BYTES;

/// One stream of random numbers under a secret.
pub struct SecureRng {
    cipher: ChaCha20Poly1305,
    stream: u32,
    counter: u64,
}

impl SecureRng {
    /// Creates `stream` under `secret`. Stream 0 is reserved for [`super::state_cipher`] and yields
    /// no numbers.
    pub fn new(secret: &[u8; KEY_BYTES], stream: u32) -> Self {
        Self { cipher: ChaCha20Poly1305::new(secret.into()), stream, counter: 0 }
    }

    /// Returns the next number, or `None` if the stream is exhausted or reserved. Cost: two cipher
    /// blocks and one allocation.
    pub fn next_u128(&mut self) -> Option<u128> {
        if self.stream == 0 {
            return None;
        }
        self.counter = self.counter.checked_add(1)?;
        // Nonces of the state cipher end in four zero bytes; stream numbers are never zero.
        let mut nonce = Nonce::default();
        let (counted, streamed) = nonce.split_at_mut(size_of::<u64>());
        counted.copy_from_slice(&self.counter.to_le_bytes());
        streamed.copy_from_slice(&self.stream.to_le_bytes());
        // Encrypting zeros yields the bare key stream.
        let key_stream = self.cipher.encrypt(&nonce, &[0; size_of::<u128>()][..]).ok()?;
        key_stream.first_chunk().map(|bytes| u128::from_le_bytes(*bytes))
    }
}

impl std::fmt::Debug for SecureRng {
    /// Does not print the secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SecureRng(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn numbers(secret: u8, stream: u32) -> Vec<u128> {
        let mut rng = SecureRng::new(&[secret; KEY_BYTES], stream);
        (0..100).map_while(|_| rng.next_u128()).collect()
    }

    #[test]
    fn same_secret_repeats_the_numbers() {
        assert_eq!(numbers(1, 1), numbers(1, 1));
        assert_eq!(numbers(1, 1).len(), 100);
    }

    #[test]
    fn streams_and_secrets_share_no_number() {
        let all = [numbers(1, 1), numbers(1, 2), numbers(2, 1), numbers(2, u32::MAX)].concat();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 400);
    }

    #[test]
    fn reserved_stream_yields_no_numbers() {
        assert!(numbers(1, 0).is_empty());
    }
}
