//! Private keys: of the client (RFC 7523, section 2.2), and of proofs of possession (RFC 9449).

use std::fmt;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{Claims, ProofTarget};
use crate::error::{ClientError, ClientErrorKind};

/// Seconds for which an assertion of the client is valid.
const ASSERTION_SECONDS: u64 = 300;

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

/// The private key with which a client authenticates.
pub struct ClientKey {
    algorithm: Algorithm,
    key: EncodingKey,
}

impl ClientKey {
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
        Ok(Self { algorithm: algorithm.algorithm(), key })
    }

    /// Returns an assertion of the client `client_id` for `audience`, the issuer.
    pub fn assertion(
        &self,
        client_id: &str,
        audience: &str,
        claims: Claims<'_>,
    ) -> Result<String, ClientError> {
        let now = claims.unix_seconds;
        let claims = json!({
            "iss": client_id,
            "sub": client_id,
            "aud": audience,
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
            "jti": claims.id,
        });
        let signed = jsonwebtoken::encode(&Header::new(self.algorithm), &claims, &self.key);
        signed.map_err(|error| {
            let text = "the private key of the client does not sign";
            ClientError::with_source(ClientErrorKind::Authorization, text, error)
        })
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ClientKey")
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}

/// The key of proofs of possession: ES256.
pub struct DpopKey {
    pkcs8: Vec<u8>,
    key: EncodingKey,
    header: Header,
}

impl DpopKey {
    /// Creates a key.
    pub fn generate() -> Result<Self, ClientError> {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let pkcs8 =
            pair.map_err(|_| ClientError::authorization("no key for DPoP can be created"))?;
        Self::from_pkcs8(pkcs8.as_ref().to_vec()).ok_or_else(|| {
            ClientError::authorization("the key that was created for DPoP is invalid")
        })
    }

    fn from_pkcs8(pkcs8: Vec<u8>) -> Option<Self> {
        let key = EncodingKey::from_ec_der(&pkcs8);
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).ok()?;
        jwk.common.key_algorithm = None;
        let mut header = Header::new(Algorithm::ES256);
        header.typ = Some("dpop+jwt".to_owned());
        header.jwk = Some(jwk);
        Some(Self { pkcs8, key, header })
    }

    /// Reads what [`DpopKey::encode`] has written.
    pub fn decode(text: &str) -> Option<Self> {
        Self::from_pkcs8(BASE64_URL_SAFE_NO_PAD.decode(text).ok()?)
    }

    /// Returns the key as text, which is secret.
    pub fn encode(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(&self.pkcs8)
    }

    /// Returns a proof.
    pub fn proof(
        &self,
        target: &ProofTarget<'_>,
        claims: Claims<'_>,
    ) -> Result<String, ClientError> {
        let mut body = Map::new();
        let mut set = |name: &str, value: Value| drop(body.insert(name.to_owned(), value));
        set("jti", claims.id.into());
        set("htm", target.method.into());
        set("htu", target.url.into());
        set("iat", claims.unix_seconds.into());
        if let Some(token) = target.access_token {
            set("ath", BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(token)).into());
        }
        if let Some(nonce) = target.nonce {
            set("nonce", nonce.into());
        }
        let signed = jsonwebtoken::encode(&self.header, &body, &self.key);
        signed.map_err(|error| {
            let text = "the key of DPoP does not sign";
            ClientError::with_source(ClientErrorKind::Authorization, text, error)
        })
    }
}

impl fmt::Debug for DpopKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DpopKey").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIMS: Claims<'static> = Claims { unix_seconds: 1_000, id: "id" };

    fn part(jwt: &str, index: usize) -> Value {
        let part = jwt.split('.').nth(index).unwrap();
        serde_json::from_slice(&BASE64_URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn proof_holds_key_target_and_token_digest() {
        let key = DpopKey::generate().unwrap();
        let target = ProofTarget {
            method: "POST",
            url: "https://a/mcp",
            access_token: Some("token"),
            nonce: Some("n"),
        };
        let proof = key.proof(&target, CLAIMS).unwrap();
        let header = part(&proof, 0);
        assert_eq!((&header["typ"], &header["alg"]), (&json!("dpop+jwt"), &json!("ES256")));
        assert_eq!(header["jwk"]["crv"], "P-256");
        assert_eq!(header["jwk"].get("d"), None);
        let expected = json!({
            "jti": "id", "htm": "POST", "htu": "https://a/mcp", "iat": 1_000, "nonce": "n",
            "ath": "PEaenWxYddN6Q_NT1PiOYfz4EsZu7jRXRlpAsNpBU-A",
        });
        assert_eq!(part(&proof, 1), expected);

        let same = DpopKey::decode(&key.encode()).unwrap();
        assert_eq!(part(&same.proof(&target, CLAIMS).unwrap(), 0), header);
        assert!(DpopKey::decode("AAAA").is_none());
        assert!(!format!("{key:?}").contains(&key.encode()));
    }

    #[test]
    fn assertion_names_client_and_issuer() {
        let random = SystemRandom::new();
        let pair = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let body = base64::prelude::BASE64_STANDARD.encode(pair.as_ref());
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n");
        let key = ClientKey::from_pem(pem.as_bytes(), SigningAlgorithm::Es256).unwrap();
        let assertion = key.assertion("client", "https://as", CLAIMS).unwrap();
        let expected = json!({
            "iss": "client", "sub": "client", "aud": "https://as", "iat": 1_000, "exp": 1_300,
            "jti": "id",
        });
        assert_eq!(part(&assertion, 1), expected);
        let error = ClientKey::from_pem(b"none", SigningAlgorithm::Rs256).unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::InvalidInput);
        assert_eq!(SigningAlgorithm::from_name("ES256"), Some(SigningAlgorithm::Es256));
        assert_eq!(SigningAlgorithm::from_name("none"), None);
    }
}
