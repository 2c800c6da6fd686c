//! A private key that signs JWT: of the client, or of its proofs of possession.

use std::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::Value;

use crate::error::{ClientError, ClientErrorKind};

/// How the client signs its assertions (RFC 7518, section 3.1; RFC 8037).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum SigningAlgorithm {
    /// ECDSA with P-256 and SHA-256.
    Es256,
    /// ECDSA with P-384 and SHA-384.
    Es384,
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PSS with SHA-256.
    Ps256,
    /// Ed25519.
    EdDsa,
}

impl SigningAlgorithm {
    /// Returns the algorithm with this name in a JWT, such as `ES256`.
    pub fn from_name(name: &str) -> Option<Self> {
        let all = [Self::Es256, Self::Es384, Self::Rs256, Self::Ps256, Self::EdDsa];
        all.into_iter().find(|algorithm| algorithm.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::Rs256 => "RS256",
            Self::Ps256 => "PS256",
            Self::EdDsa => "EdDSA",
        }
    }

    const fn algorithm(self) -> Algorithm {
        match self {
            Self::Es256 => Algorithm::ES256,
            Self::Es384 => Algorithm::ES384,
            Self::Rs256 => Algorithm::RS256,
            Self::Ps256 => Algorithm::PS256,
            Self::EdDsa => Algorithm::EdDSA,
        }
    }
}

/// A private key, and the header of what it signs.
pub struct SigningKey {
    key: EncodingKey,
    header: Header,
}

impl SigningKey {
    /// Reads a key in PEM: PKCS#8, or PKCS#1 for RSA.
    pub fn from_pem(pem: &[u8], algorithm: SigningAlgorithm) -> Result<Self, ClientError> {
        let key = match algorithm {
            SigningAlgorithm::Es256 | SigningAlgorithm::Es384 => EncodingKey::from_ec_pem(pem),
            SigningAlgorithm::Rs256 | SigningAlgorithm::Ps256 => EncodingKey::from_rsa_pem(pem),
            SigningAlgorithm::EdDsa => EncodingKey::from_ed_pem(pem),
        };
        let key = key.map_err(|error| {
            let text = format!("the private key of the client is no PEM for {}", algorithm.name());
            ClientError::with_source(ClientErrorKind::InvalidInput, text, error)
        })?;
        Ok(Self { key, header: Header::new(algorithm.algorithm()) })
    }

    /// Creates a key for ES256 as PKCS#8.
    pub fn generate_pkcs8() -> Result<Vec<u8>, ClientError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let pkcs8 =
            pair.map_err(|_| ClientError::authorization("no key for DPoP can be created"))?;
        Ok(pkcs8.as_ref().to_vec())
    }

    /// Reads a key of [`SigningKey::generate_pkcs8`], for proofs of possession: the header has the
    /// public key.
    pub fn of_proofs(pkcs8: &[u8]) -> Option<Self> {
        let key = EncodingKey::from_ec_der(pkcs8);
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).ok()?;
        jwk.common.key_algorithm = None;
        let mut header = Header::new(Algorithm::ES256);
        header.typ = Some("dpop+jwt".to_owned());
        header.jwk = Some(jwk);
        Some(Self { key, header })
    }

    /// Returns a JWT with these claims, or an error that begins with `failure`.
    pub fn sign(&self, claims: &Value, failure: &'static str) -> Result<String, ClientError> {
        let signed = jsonwebtoken::encode(&self.header, claims, &self.key);
        signed.map_err(|error| {
            ClientError::with_source(ClientErrorKind::Authorization, failure, error)
        })
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SigningKey")
            .field("algorithm", &self.header.alg)
            .finish_non_exhaustive()
    }
}
