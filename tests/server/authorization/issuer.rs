//! An authorization server that signs tokens.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use corelane_engine::clock::unix_ms;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};

use crate::authorization::RESOURCE;

/// An issuer with one key.
pub(crate) struct TestIssuer {
    key: EncodingKey,
    key_id: String,
}

impl TestIssuer {
    pub(crate) fn new() -> Self {
        Self::with_key("key-1")
    }

    /// An issuer whose key has this id.
    pub(crate) fn with_key(id: &str) -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let key = EncodingKey::from_ec_der(key.expect("a key").as_ref());
        Self { key, key_id: id.to_owned() }
    }

    #[expect(clippy::unused_self, reason = "the name belongs to the issuer")]
    pub(crate) fn name(&self) -> &'static str {
        "https://as.test"
    }

    /// The JWK Set.
    pub(crate) fn key_set(&self) -> Value {
        let mut jwk = Jwk::from_encoding_key(&self.key, Algorithm::ES256).expect("a key");
        jwk.common.key_id = Some(self.key_id.clone());
        json!({ "keys": [jwk] })
    }

    /// Claims that the server accepts, for 10 minutes.
    pub(crate) fn claims(&self, subject: &str, scope: &str) -> Value {
        let now = unix_ms() / 1_000;
        json!({
            "iss": self.name(), "sub": subject, "aud": RESOURCE, "client_id": "test",
            "iat": now, "exp": now + 600, "scope": scope,
        })
    }

    pub(crate) fn sign(&self, claims: &Value) -> String {
        let header = Header { kid: Some(self.key_id.clone()), ..Header::new(Algorithm::ES256) };
        self.sign_with(&header, claims)
    }

    pub(crate) fn sign_with(&self, header: &Header, claims: &Value) -> String {
        jsonwebtoken::encode(header, claims, &self.key).expect("a token")
    }

    /// A valid token.
    pub(crate) fn token(&self, subject: &str, scope: &str) -> String {
        self.sign(&self.claims(subject, scope))
    }
}
