//! A client with a key, and its proofs.

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use corelane_engine::clock::unix_ms;
use jsonwebtoken::jwk::{Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::authorization::{Authority, RESOURCE};

/// The key of a client.
pub(crate) struct ProofKey {
    key: EncodingKey,
    pub(crate) jwk: Jwk,
}

impl ProofKey {
    pub(crate) fn new() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let key = EncodingKey::from_ec_der(key.expect("a key").as_ref());
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).expect("a key");
        jwk.common.key_algorithm = None;
        Self { key, jwk }
    }

    pub(crate) fn thumbprint(&self) -> String {
        self.jwk.thumbprint(ThumbprintHash::SHA256).expect("a thumbprint")
    }

    /// A token of the issuer that is bound to this key.
    pub(crate) fn token(&self, authority: &Authority) -> String {
        self.token_of("ada", authority)
    }

    /// A token of this user that is bound to this key.
    pub(crate) fn token_of(&self, user: &str, authority: &Authority) -> String {
        let mut claims = authority.issuer.claims(user, "tools:deploy");
        claims["cnf"] = json!({ "jkt": self.thumbprint() });
        authority.issuer.sign(&claims)
    }

    pub(crate) fn header(&self) -> Value {
        json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": self.jwk})
    }

    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = crypto::sign(message.as_bytes(), &self.key, Algorithm::ES256);
        format!("{message}.{}", signature.expect("a signature"))
    }

    /// A proof for POST of the endpoint.
    pub(crate) fn proof(&self, token: &str) -> String {
        self.sign(&self.header(), &claims(token))
    }

    /// A proof in which one claim has another value.
    pub(crate) fn proof_with(&self, token: &str, name: &str, value: Value) -> String {
        let mut claims = claims(token);
        claims[name] = value;
        self.sign(&self.header(), &claims)
    }
}

pub(crate) fn now() -> u64 {
    unix_ms() / 1_000
}

/// The claims of a proof of its own for POST of the endpoint.
pub(crate) fn claims(token: &str) -> Value {
    let mut id = [0; 16];
    SystemRandom::new().fill(&mut id).expect("random bytes");
    let ath = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(token));
    let jti = BASE64_URL_SAFE_NO_PAD.encode(id);
    json!({"jti": jti, "htm": "POST", "htu": RESOURCE, "iat": now(), "ath": ath})
}

/// The header fields of a token with its proof.
pub(crate) fn fields(token: &str, proof: &str) -> String {
    format!("Authorization: DPoP {token}\r\nDPoP: {proof}\r\n")
}
