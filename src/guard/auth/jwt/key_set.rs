//! The public keys of an issuer (JWK Set, RFC 7517) and of proofs, and what they verify.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse, ThumbprintHash,
};
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::SignatureError;

/// Keys of a set, at most.
const KEYS_MAX: usize = 100;
/// Keys that are tried for a token without `kid`, at most.
const TRIED_KEYS_MAX: usize = 4;
/// The least length of an RSA modulus in bits.
const RSA_BITS_MIN: usize = 2048;

/// The keys of one issuer.
#[derive(Debug)]
pub struct KeySet {
    keys: Vec<PublicKey>,
}

struct PublicKey {
    id: Option<Box<str>>,
    /// The algorithms that it may verify.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("PublicKey")
            .field("id", &self.id)
            .field("algorithms", &self.algorithms)
            .finish_non_exhaustive()
    }
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
    /// The text is not a JWK Set, has more than 100 keys, or none that can be used.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let set: JwkSet = serde_json::from_slice(text)
            .map_err(|error| format!("it is not a JWK Set (RFC 7517): {error}"))?;
        if set.keys.len() > KEYS_MAX {
            return Err(format!("it has {} keys (limit {KEYS_MAX})", set.keys.len()));
        }
        let keys: Vec<PublicKey> = set.keys.into_iter().filter_map(read_key).collect();
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
        (algorithm, id): (&str, Option<&str>),
        message: &[u8],
        signature: &str,
    ) -> Result<(), SignatureError> {
        let algorithm: Algorithm = algorithm.parse().map_err(|_| SignatureError::NoKey)?;
        let fits = |key: &&PublicKey| {
            key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id)
        };
        let mut keys = self.keys.iter().filter(fits).take(TRIED_KEYS_MAX).peekable();
        if keys.peek().is_none() {
            return Err(SignatureError::NoKey);
        }
        let verifies = |key: &PublicKey| {
            matches!(crypto::verify(signature, message, &key.key, algorithm), Ok(true))
        };
        if keys.any(verifies) { Ok(()) } else { Err(SignatureError::Invalid) }
    }
}

/// The public key in a proof (`jwk`, RFC 7515, section 4.1.3).
#[derive(Debug)]
pub struct EmbeddedKey {
    key: PublicKey,
    thumbprint: [u8; 32],
}

impl EmbeddedKey {
    /// Reads a JWK; `None` if it is not for signatures that can be verified.
    pub fn read(jwk: &Map<String, Value>) -> Option<Self> {
        let jwk: Jwk = serde_json::from_value(jwk.clone().into()).ok()?;
        let key = read_jwk(&jwk)?;
        let thumbprint = jwk.thumbprint(ThumbprintHash::SHA256).ok()?;
        let thumbprint = BASE64_URL_SAFE_NO_PAD.decode(thumbprint).ok()?.try_into().ok()?;
        Some(Self { key, thumbprint })
    }

    /// Returns its SHA-256 thumbprint (RFC 7638).
    pub const fn thumbprint(&self) -> &[u8; 32] {
        &self.thumbprint
    }

    /// Returns whether a signature in base64url over `message` is that of this key.
    pub fn verify(&self, algorithm: &str, message: &[u8], signature: &str) -> bool {
        let algorithm = algorithm.parse().ok();
        let fits = |algorithm: &Algorithm| self.key.algorithms.contains(algorithm);
        algorithm.filter(fits).is_some_and(|algorithm| {
            matches!(crypto::verify(signature, message, &self.key.key, algorithm), Ok(true))
        })
    }
}

/// Reads one key; `None` if it is not for signatures that can be verified.
fn read_key(value: Value) -> Option<PublicKey> {
    read_jwk(&serde_json::from_value(value).ok()?)
}

fn read_jwk(jwk: &Jwk) -> Option<PublicKey> {
    let parameters = &jwk.common;
    if parameters.public_key_use.as_ref().is_some_and(|used| *used != PublicKeyUse::Signature) {
        return None;
    }
    let operations = parameters.key_operations.as_ref();
    if operations.is_some_and(|all| !all.contains(&KeyOperations::Verify)) {
        return None;
    }
    let mut algorithms = match &jwk.algorithm {
        AlgorithmParameters::RSA(key) if rsa_bits(&key.n) >= RSA_BITS_MIN => vec![
            Algorithm::RS256,
            Algorithm::RS384,
            Algorithm::RS512,
            Algorithm::PS256,
            Algorithm::PS384,
            Algorithm::PS512,
        ],
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => vec![Algorithm::ES256],
            EllipticCurve::P384 => vec![Algorithm::ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(key) if key.curve == EllipticCurve::Ed25519 => {
            vec![Algorithm::EdDSA]
        }
        _ => return None,
    };
    if let Some(named) = &parameters.key_algorithm {
        let named: Algorithm = named.to_string().parse().ok()?;
        algorithms.retain(|algorithm| *algorithm == named);
    }
    let key = DecodingKey::from_jwk(jwk).ok().filter(|_| !algorithms.is_empty())?;
    Some(PublicKey { id: parameters.key_id.as_deref().map(Box::from), algorithms, key })
}

/// Returns the length in bits of a modulus in base64url.
fn rsa_bits(modulus: &str) -> usize {
    let Ok(bytes) = BASE64_URL_SAFE_NO_PAD.decode(modulus) else { return 0 };
    let Some(first) = bytes.iter().position(|byte| *byte != 0) else { return 0 };
    (bytes.len() - first) * 8 - bytes[first].leading_zeros() as usize
}
