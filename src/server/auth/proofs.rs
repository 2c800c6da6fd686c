//! Proofs of keys (DPoP, RFC 9449): nonces, and which proofs were used before, on any shard.
//!
//! Invariants: a proof is accepted once, by one shard, as long as it could be sent again; while
//! more proofs are remembered than the limit admits, further ones are refused, not forgotten.

use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;

use corelane_engine::mesh::{ExpiringSet, InsertResult};
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::guard::auth::AuthError;
use crate::guard::auth::dpop::nonce::Nonces;
use crate::guard::auth::dpop::{DpopRules, ReadProof};
use crate::guard::secure_rng::{Purpose, SecureRng};
use crate::guard::state_cipher::KEY_BYTES;

/// What a shard checks proofs with; all shards share the proofs that were used.
pub(super) struct ProofChecks {
    used: Arc<ExpiringSet>,
    nonces: Nonces,
    /// Makes hashes that clients cannot foresee.
    hasher: SipHasher13,
}

impl ProofChecks {
    /// Creates the checks of a process with this secret.
    pub(super) fn new(used: Arc<ExpiringSet>, secret: &[u8; KEY_BYTES]) -> Self {
        let mut random = SecureRng::new(secret, Purpose::ProofKeys);
        let mut next = || random.next_u128().unwrap_or_default().to_le_bytes();
        let mut key = [0; KEY_BYTES];
        for part in key.chunks_exact_mut(size_of::<u128>()) {
            part.copy_from_slice(&next());
        }
        Self { used, nonces: Nonces::new(&key), hasher: SipHasher13::new_with_key(&next()) }
    }

    /// Returns the nonce that clients are to use.
    pub(super) fn nonce(&self, unix_seconds: u64) -> String {
        self.nonces.current(unix_seconds)
    }

    /// Checks the nonce of a proof, if it needs one.
    pub(super) fn check_nonce(
        &self,
        rules: &DpopRules,
        proof: &ReadProof<'_>,
        unix_seconds: u64,
    ) -> Result<(), AuthError> {
        match proof.nonce() {
            _ if !rules.needs_nonce => Ok(()),
            None => Err(AuthError::NonceNeeded("the proof needs a nonce of this server")),
            Some(nonce) if self.nonces.accepts(nonce, unix_seconds) => Ok(()),
            Some(_) => Err(AuthError::NonceNeeded("the nonce of the proof is not a current one")),
        }
    }

    /// Uses a proof whose signature is verified. No shard accepts it again.
    pub(super) fn use_once(
        &self,
        proof: &ReadProof<'_>,
        unix_seconds: u64,
    ) -> Result<(), AuthError> {
        let (thumbprint, id) = proof.id();
        let mut hasher = self.hasher;
        hasher.write(thumbprint);
        hasher.write(id.as_bytes());
        let digest = hasher.finish128().as_u128();
        match self.used.insert(digest, unix_seconds, proof.usable_until()) {
            InsertResult::First => Ok(()),
            InsertResult::Present => {
                Err(AuthError::InvalidProof("the proof was used before (jti)"))
            }
            InsertResult::Full => Err(TOO_MANY_PROOFS),
        }
    }
}

impl fmt::Debug for ProofChecks {
    /// Does not print the keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ProofChecks(..)")
    }
}

const TOO_MANY_PROOFS: AuthError =
    AuthError::Unavailable("too many proofs are remembered at the moment; try again");
