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

/// What random numbers are for. Each purpose has streams of its own, one for each shard, so that
/// what a client sees of one reveals nothing about another.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u16)]
pub enum Purpose {
    /// Ids of tasks.
    TaskIds = 1,
    /// Ids of sessions.
    SessionIds,
    /// Ids of sessions of the parity dialect.
    ParityIds,
    /// Ids of HTTP requests.
    RequestIds,
    /// The secret of the hashes of rate limits.
    RateHashes,
    /// The keys of nonces and hashes of proofs (`DPoP`).
    ProofKeys,
    /// The key of resume tokens.
    ResumeTokens,
    /// The secret of the hashes of idempotency keys.
    IdempotencyKeys,
    /// The key of `requestState`, and the name of the process as its issuer.
    RequestStates,
    /// The seeds of the ids of traces and spans.
    #[cfg(feature = "otlp")]
    SpanIds,
}

/// One stream of random numbers under a secret.
pub struct SecureRng {
    cipher: ChaCha20Poly1305,
    stream: u32,
    counter: u64,
}

impl SecureRng {
    /// Creates the stream for `purpose` under `secret`, which all shards share.
    pub fn new(secret: &[u8; KEY_BYTES], purpose: Purpose) -> Self {
        Self::of_shard(secret, purpose, 0)
    }

    /// Creates the stream of one shard.
    pub fn of_shard(secret: &[u8; KEY_BYTES], purpose: Purpose, shard: u16) -> Self {
        let stream = u32::from(purpose as u16) << 16 | u32::from(shard);
        Self { cipher: ChaCha20Poly1305::new(secret.into()), stream, counter: 0 }
    }

    /// Returns the next number, or `None` if the stream is exhausted. Cost: two cipher blocks and
    /// one allocation.
    pub fn next_u128(&mut self) -> Option<u128> {
        self.counter = self.counter.checked_add(1)?;
        // Nonces of the state cipher end in four zero bytes; no purpose has number 0.
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

    const ALL: &[Purpose] = &[
        Purpose::TaskIds,
        Purpose::SessionIds,
        Purpose::ParityIds,
        Purpose::RequestIds,
        Purpose::RateHashes,
        Purpose::ProofKeys,
        Purpose::ResumeTokens,
        #[cfg(feature = "otlp")]
        Purpose::SpanIds,
    ];

    fn numbers(secret: u8, purpose: Purpose, shard: u16) -> Vec<u128> {
        let mut rng = SecureRng::of_shard(&[secret; KEY_BYTES], purpose, shard);
        (0..100).map_while(|_| rng.next_u128()).collect()
    }

    #[test]
    fn same_secret_repeats_the_numbers() {
        let repeated = || numbers(1, Purpose::TaskIds, 1);
        assert_eq!(repeated(), repeated());
        assert_eq!(repeated().len(), 100);
    }

    #[test]
    fn purposes_shards_and_secrets_share_no_number() {
        let each = |secret| {
            let of_shards =
                move |purpose| [0, 1, 2, u16::MAX].map(|it| numbers(secret, purpose, it));
            ALL.iter().copied().flat_map(of_shards).flatten()
        };
        let all: Vec<u128> = each(1).chain(each(2)).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 2 * 4 * 100 * ALL.len());
    }
}
