//! Numbers that nobody can foretell, drawn from one secret.
//!
//! What they keep true: who knows any of the numbers but not the secret can tell no other one; two
//! streams of one secret have nothing in common, and neither has what [`super::seal`] closes under
//! it. The same secret gives the same numbers, so that a run in the simulator is the same every
//! time.
//!
//! Source: RFC 8439, section 2.4: a number is the first 128 bits of the key stream of its nonce.

use chacha20poly1305::aead::Aead;
use chacha20poly1305::{ChaCha20Poly1305, KeyInit, Nonce};

use super::seal::KEY_BYTES;

/// One stream of numbers.
pub struct Draws {
    cipher: ChaCha20Poly1305,
    stream: u32,
    drawn: u64,
}

impl Draws {
    /// The numbers of `stream` under `secret`. Zero is the stream of seals: with it nothing is ever
    /// drawn.
    pub fn new(secret: &[u8; KEY_BYTES], stream: u32) -> Self {
        Self { cipher: ChaCha20Poly1305::new(secret.into()), stream, drawn: 0 }
    }

    /// The next number; none where the stream has no more of them. Cost: two blocks of the cipher
    /// and one allocation.
    pub fn draw(&mut self) -> Option<u128> {
        if self.stream == 0 {
            return None;
        }
        self.drawn = self.drawn.checked_add(1)?;
        // A seal ends its nonce with four zeros; a stream is none of them.
        let mut nonce = Nonce::default();
        let (counted, streamed) = nonce.split_at_mut(size_of::<u64>());
        counted.copy_from_slice(&self.drawn.to_le_bytes());
        streamed.copy_from_slice(&self.stream.to_le_bytes());
        // Closing zeros leaves the bare key stream.
        let closed = self.cipher.encrypt(&nonce, &[0; size_of::<u128>()][..]).ok()?;
        closed.first_chunk().map(|bytes| u128::from_le_bytes(*bytes))
    }
}

impl std::fmt::Debug for Draws {
    /// Says nothing of the secret.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Draws(..)")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn drawn(secret: u8, stream: u32) -> Vec<u128> {
        let mut draws = Draws::new(&[secret; KEY_BYTES], stream);
        (0..100).map_while(|_| draws.draw()).collect()
    }

    #[test]
    fn the_same_secret_draws_the_same_numbers() {
        assert_eq!(drawn(1, 1), drawn(1, 1));
        assert_eq!(drawn(1, 1).len(), 100);
    }

    #[test]
    fn streams_and_secrets_share_no_number() {
        let all = [drawn(1, 1), drawn(1, 2), drawn(2, 1), drawn(2, u32::MAX)].concat();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 400);
    }

    #[test]
    fn nothing_is_drawn_from_the_stream_of_seals() {
        assert!(drawn(1, 0).is_empty());
    }
}
