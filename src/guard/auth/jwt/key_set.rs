//! The public keys of an issuer (JWK Set, RFC 7517) and of proofs, and what they verify.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::SignatureError;
use super::public_key::PublicKey;

/// Keys of a set, at most.
const KEYS_MAX: usize = 100;
/// Keys that are tried for a token without `kid`, at most.
const TRIED_KEYS_MAX: usize = 4;

/// The keys of one issuer.
#[derive(Debug)]
pub struct KeySet {
    keys: Vec<PublicKey>,
}

/// A JWK Set, each key as it came.
#[derive(Deserialize)]
struct JwkSet {
    keys: Vec<Value>,
}

impl KeySet {
    /// Reads a JWK Set. Keys that are not for signatures, of unknown types, symmetric, or RSA below
    /// 2,048 bits are left out (RFC 7517, section 5).
    ///
    /// # Errors
    ///
    /// The text is not a JWK Set, has more than 100 keys, or none that can be used. Always without
    /// the feature `oauth-jwt`.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        if !cfg!(feature = "oauth-jwt") {
            return Err("this build verifies no JWT: build with the feature oauth-jwt".to_owned());
        }
        let set: JwkSet = serde_json::from_slice(text)
            .map_err(|error| format!("it is not a JWK Set (RFC 7517): {error}"))?;
        if set.keys.len() > KEYS_MAX {
            return Err(format!("it has {} keys (limit {KEYS_MAX})", set.keys.len()));
        }
        let keys: Vec<PublicKey> = set.keys.into_iter().filter_map(PublicKey::read).collect();
        if keys.is_empty() {
            return Err("it has no key that verifies signatures".to_owned());
        }
        Ok(Self { keys })
    }

    /// Verifies a signature in base64url over `message` with the key `id`, or without one with each
    /// key for the algorithm.
    ///
    /// # Errors
    ///
    /// No key has this id and algorithm, or the signature is not that of the key.
    pub fn verify(
        &self,
        algorithm: &str,
        id: Option<&str>,
        message: &[u8],
        signature: &str,
    ) -> Result<(), SignatureError> {
        let fits = |key: &&PublicKey| key.is_for(algorithm) && (id.is_none() || key.id() == id);
        let mut keys = self.keys.iter().filter(fits).take(TRIED_KEYS_MAX).peekable();
        if keys.peek().is_none() {
            return Err(SignatureError::NoKey);
        }
        let verifies = |key: &PublicKey| key.verify(algorithm, message, signature);
        if keys.any(verifies) { Ok(()) } else { Err(SignatureError::Invalid) }
    }
}

/// The public key in a proof (`jwk`, RFC 7515, section 4.1.3).
#[derive(Clone, Debug)]
pub struct EmbeddedKey {
    key: PublicKey,
    thumbprint: [u8; 32],
}

impl EmbeddedKey {
    /// Reads a JWK; `None` if it is not for signatures that can be verified.
    pub fn read(jwk: &Map<String, Value>) -> Option<Self> {
        let (key, thumbprint) = PublicKey::read_with_thumbprint(jwk.clone().into())?;
        Some(Self { key, thumbprint })
    }

    /// Returns its SHA-256 thumbprint (RFC 7638).
    pub const fn thumbprint(&self) -> &[u8; 32] {
        &self.thumbprint
    }

    /// Returns whether a signature in base64url over `message` is that of this key.
    pub fn verify(&self, algorithm: &str, message: &[u8], signature: &str) -> bool {
        self.key.verify(algorithm, message, signature)
    }
}
