//! Signed assertions of the client (RFC 7523, section 2.2), and proofs of possession (RFC 9449).
//! Without the feature `oauth-jwt` there are no keys, and what needs them fails.

#[cfg(feature = "oauth-jwt")]
mod signing_key;
/// Without the feature there is no key.
#[cfg(not(feature = "oauth-jwt"))]
mod signing_key {
    use serde_json::Value;

    use crate::error::ClientError;

    #[derive(Debug)]
    pub enum SigningKey {}

    impl SigningKey {
        pub fn generate_pkcs8() -> Result<Vec<u8>, ClientError> {
            let text = "the server requires DPoP, which this build does not support: build it with \
                        the feature oauth-jwt";
            Err(ClientError::authorization(text))
        }

        pub const fn of_proofs(_: &[u8]) -> Option<Self> {
            None
        }

        pub const fn sign(&self, _: &Value, _: &'static str) -> Result<String, ClientError> {
            match *self {}
        }
    }
}

use std::fmt;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

#[cfg(feature = "oauth-jwt")]
pub use self::signing_key::SigningAlgorithm;
use self::signing_key::SigningKey;
use crate::error::ClientError;

/// Seconds for which an assertion of the client is valid.
const ASSERTION_SECONDS: u64 = 300;

/// The variable parts of a signed assertion.
#[derive(Clone, Copy, Debug)]
pub struct Claims<'a> {
    /// Seconds since 1970-01-01 UTC.
    pub unix_seconds: u64,
    /// `jti`: unique to the assertion.
    pub id: &'a str,
}

/// What a proof of possession is for (RFC 9449, section 4.2).
#[derive(Clone, Copy, Debug)]
pub struct ProofTarget<'a> {
    /// `htm`.
    pub method: &'a str,
    /// `htu`: without query and fragment.
    pub url: &'a str,
    /// The access token that is sent with the proof.
    pub access_token: Option<&'a str>,
    pub nonce: Option<&'a str>,
}

/// The private key with which a client authenticates.
#[derive(Debug)]
pub struct ClientKey(SigningKey);

impl ClientKey {
    /// Reads a key in PEM: PKCS#8, or PKCS#1 for RSA.
    #[cfg(feature = "oauth-jwt")]
    pub fn from_pem(pem: &[u8], algorithm: SigningAlgorithm) -> Result<Self, ClientError> {
        SigningKey::from_pem(pem, algorithm).map(Self)
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
        self.0.sign(&claims, "the private key of the client does not sign")
    }
}

/// The key of proofs of possession: ES256.
pub struct DpopKey {
    pkcs8: Vec<u8>,
    key: SigningKey,
}

impl DpopKey {
    /// Creates a key.
    pub fn generate() -> Result<Self, ClientError> {
        Self::from_pkcs8(SigningKey::generate_pkcs8()?).ok_or_else(|| {
            ClientError::authorization("the key that was created for DPoP is invalid")
        })
    }

    fn from_pkcs8(pkcs8: Vec<u8>) -> Option<Self> {
        let key = SigningKey::of_proofs(&pkcs8)?;
        Some(Self { pkcs8, key })
    }

    /// Reads what [`DpopKey::encode`] has written.
    pub fn decode(text: &str) -> Option<Self> {
        Self::from_pkcs8(BASE64_URL_SAFE_NO_PAD.decode(text).ok()?)
    }

    /// Returns the key as text, which is secret.
    pub fn encode(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(&self.pkcs8)
    }

    /// Returns the proof for one request, a signed JSON Web Token.
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
        self.key.sign(&Value::Object(body), "the key of DPoP does not sign")
    }
}

impl fmt::Debug for DpopKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DpopKey").finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "oauth-jwt"))]
mod tests {
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};

    use super::*;
    use crate::error::ClientErrorKind;

    const CLAIMS: Claims<'static> = Claims { unix_seconds: 1_000, id: "id" };

    fn part(jwt: &str, index: usize) -> Value {
        let part = jwt.split('.').nth(index).expect("three parts");
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(part).expect("base64url");
        serde_json::from_slice(&bytes).expect("JSON")
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
