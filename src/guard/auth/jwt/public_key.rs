//! A public key (JWK, RFC 7517), and what it verifies.

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{
    AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse, ThumbprintHash,
};
use jsonwebtoken::{Algorithm, DecodingKey, crypto};
use serde_json::Value;

/// The least length of an RSA modulus in bits.
const RSA_BITS_MIN: usize = 2048;

/// A public key.
#[derive(Clone)]
pub struct PublicKey {
    id: Option<Box<str>>,
    /// The algorithms that it may verify.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

impl PublicKey {
    /// Reads a JWK; `None` if it is not for signatures that can be verified.
    pub fn read(jwk: Value) -> Option<Self> {
        read_jwk(&serde_json::from_value(jwk).ok()?)
    }

    /// Reads a JWK with its SHA-256 thumbprint (RFC 7638).
    pub fn read_with_thumbprint(jwk: Value) -> Option<(Self, [u8; 32])> {
        let jwk: Jwk = serde_json::from_value(jwk).ok()?;
        let key = read_jwk(&jwk)?;
        let thumbprint = jwk.thumbprint(ThumbprintHash::SHA256).ok()?;
        let thumbprint = BASE64_URL_SAFE_NO_PAD.decode(thumbprint).ok()?.try_into().ok()?;
        Some((key, thumbprint))
    }

    /// Returns its id.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// Returns whether it may verify signatures of the algorithm with this name.
    pub fn is_for(&self, algorithm: &str) -> bool {
        algorithm.parse().is_ok_and(|algorithm| self.algorithms.contains(&algorithm))
    }

    /// Returns whether a signature in base64url over `message` is that of this key.
    pub fn verify(&self, algorithm: &str, message: &[u8], signature: &str) -> bool {
        let algorithm = algorithm.parse().ok();
        let fits = |algorithm: &Algorithm| self.algorithms.contains(algorithm);
        algorithm.filter(fits).is_some_and(|algorithm| {
            matches!(crypto::verify(signature, message, &self.key, algorithm), Ok(true))
        })
    }
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
