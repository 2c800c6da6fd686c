//! Proofs that are accepted, each reason for which one is not, and nonces.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use jsonwebtoken::jwk::{Jwk, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, crypto};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{AuthError, DpopRules, Nonces, PERIOD_SECONDS, PROOF_BYTES_MAX, ReadProof};
use crate::guard::auth::jwt::ALGORITHMS;
use crate::guard::auth::proof::SentProof;
use crate::guard::state_cipher::KEY_BYTES;

const NOW: u64 = 1_000_000;
const RESOURCE: &str = "https://mcp.test/mcp?k=1";
const TOKEN: &str = "token";

/// A key with its public part.
struct Signer {
    key: EncodingKey,
    jwk: Jwk,
}

impl Signer {
    fn new() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
        let key = EncodingKey::from_ec_der(key.expect("valid test data").as_ref());
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256).expect("valid test data");
        jwk.common.key_algorithm = None;
        Self { key, jwk }
    }

    fn thumbprint(&self) -> [u8; 32] {
        let text = self.jwk.thumbprint(ThumbprintHash::SHA256).expect("valid test data");
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).expect("valid test data");
        bytes.try_into().expect("valid test data")
    }

    fn header(&self) -> Value {
        json!({"typ": "dpop+jwt", "alg": "ES256", "jwk": self.jwk})
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", encode(header), encode(claims));
        let signature = crypto::sign(message.as_bytes(), &self.key, Algorithm::ES256);
        format!("{message}.{}", signature.expect("valid test data"))
    }
}

fn rules() -> DpopRules {
    let algorithms = ALGORITHMS.map(Box::from).to_vec();
    DpopRules::new(RESOURCE, algorithms, 300).expect("valid test data")
}

fn claims() -> Value {
    json!({
        "jti": "one", "htm": "POST", "htu": "https://mcp.test/mcp", "iat": NOW,
        "ath": BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(TOKEN)),
    })
}

/// The object with another value of one member; `null` removes it.
fn with(object: &Value, name: &str, value: Value) -> Value {
    let mut all: Map<String, Value> = object.as_object().expect("valid test data").clone();
    all.remove(name);
    if !value.is_null() {
        all.insert(name.to_owned(), value);
    }
    all.into()
}

const fn sent(text: &str) -> SentProof<'_> {
    let values = [Some(text.as_bytes()), None];
    SentProof { values, method: "POST", path: "/backend/mcp", is_endpoint: true }
}

fn read<'t>(signer: &Signer, text: &'t str) -> Result<ReadProof<'t>, AuthError> {
    let proof = rules().read(&sent(text), TOKEN, &signer.thumbprint(), NOW)?;
    proof.verify_signature()?;
    Ok(proof)
}

fn reason(result: Result<ReadProof<'_>, AuthError>) -> &'static str {
    match result {
        Err(AuthError::InvalidProof(reason)) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn claims_have_variants_that_are_accepted() {
    let signer = Signer::new();
    for (name, value) in [
        ("htu", json!("HTTPS://MCP.test:443/mcp?x=1#y")),
        ("htu", json!("https://mcp.test/a/../mcp")),
        // As the path that a proxy has made of it.
        ("htu", json!("https://mcp.test/backend/mcp")),
        ("iat", json!(NOW - 300)),
        ("iat", json!(NOW + 300)),
        ("iat", json!(1_000_000.5)),
        ("nonce", json!("n")),
        ("exp", json!(1)),
    ] {
        let text = signer.sign(&signer.header(), &with(&claims(), name, value.clone()));
        assert!(read(&signer, &text).is_ok(), "{name} = {value}");
    }
    let text = signer.sign(&signer.header(), &with(&claims(), "nonce", json!("n")));
    let proof = read(&signer, &text).unwrap();
    assert_eq!((proof.nonce(), proof.id().1), (Some("n"), "one"));
    assert_eq!(proof.usable_until(), NOW + 301);
}

#[test]
fn each_invalid_claim_has_its_reason() {
    let signer = Signer::new();
    let method = "the method of the proof (htm) is not that of the request";
    let url = "the URL of the proof (htu) is not that of the request";
    let time = "the proof has no iat";
    for (name, value, expected) in [
        ("jti", Value::Null, "the proof has no jti"),
        ("jti", json!(""), "the proof has no jti"),
        ("jti", json!(7), "the proof has no jti"),
        ("htm", Value::Null, "the proof has no htm"),
        ("htm", json!("GET"), method),
        ("htm", json!("post"), method),
        ("htu", Value::Null, "the proof has no htu"),
        ("htu", json!("/mcp"), url),
        ("htu", json!("http://mcp.test/mcp"), url),
        ("htu", json!("https://mcp.test:8443/mcp"), url),
        ("htu", json!("https://mcp.test.evil.test/mcp"), url),
        ("htu", json!("https://mcp.test/mcp/"), url),
        ("htu", json!("https://u@mcp.test/mcp"), url),
        ("iat", Value::Null, time),
        ("iat", json!("1000000"), time),
        ("iat", json!(-1), time),
        ("iat", json!(NOW - 301), "the proof is too old (iat)"),
        ("iat", json!(NOW + 301), "the proof is issued in the future (iat)"),
        ("ath", Value::Null, "the proof has no ath"),
        ("ath", json!(BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest("x"))), {
            "the proof is for another token (ath)"
        }),
    ] {
        let text = signer.sign(&signer.header(), &with(&claims(), name, value.clone()));
        assert_eq!(reason(read(&signer, &text)), expected, "{name} = {value}");
    }
}

#[test]
fn each_invalid_header_has_its_reason() {
    let signer = Signer::new();
    let jwk = serde_json::to_value(&signer.jwk).unwrap();
    let algorithm = "the algorithm of the proof is not accepted";
    let typ = "the type of the proof is not dpop+jwt";
    let no_public_key = "the key of the proof is not a public key for its algorithm";
    for (name, value, expected) in [
        ("typ", Value::Null, typ),
        ("typ", json!("JWT"), typ),
        ("typ", json!("at+jwt"), typ),
        ("alg", Value::Null, algorithm),
        ("alg", json!("none"), algorithm),
        ("alg", json!("HS256"), algorithm),
        ("alg", json!("ES256K"), algorithm),
        ("crit", json!(["b64"]), "the proof has a critical header that is not supported"),
        ("jwk", Value::Null, "the proof has no key"),
        ("jwk", json!("text"), "the proof is malformed"),
        ("jwk", json!({"kty": "oct", "k": "c2VjcmV0"}), "the key of the proof is private"),
        ("jwk", with(&jwk, "d", json!("AAAA")), "the key of the proof is private"),
        ("jwk", with(&jwk, "y", Value::Null), no_public_key),
        ("jwk", with(&jwk, "crv", json!("P-521")), no_public_key),
        ("jwk", with(&jwk, "use", json!("enc")), no_public_key),
        ("alg", json!("RS256"), "the signature of the proof is invalid"),
    ] {
        let text = signer.sign(&with(&signer.header(), name, value.clone()), &claims());
        assert_eq!(reason(read(&signer, &text)), expected, "{name} = {value}");
    }
}

#[test]
fn malformed_proof_is_refused() {
    let signer = Signer::new();
    let valid = signer.sign(&signer.header(), &claims());
    let (message, _) = valid.rsplit_once('.').unwrap();
    let other = signer.sign(&signer.header(), &with(&claims(), "jti", json!("two")));
    let foreign = other.rsplit_once('.').unwrap().1;
    let signature = "the signature of the proof is invalid";
    for text in [foreign, "", "AAAA"] {
        let changed = format!("{message}.{text}");
        assert_eq!(reason(read(&signer, &changed)), signature, "{text}");
    }
    for text in ["", "a", "a.b", "..", "a.b.c", &format!("{valid}.x"), &valid[1..], "ä.ö.ü"] {
        assert_eq!(reason(read(&signer, text)), "the proof is malformed", "{text}");
    }
    let long = format!("{valid}{}", "A".repeat(PROOF_BYTES_MAX));
    assert_eq!(reason(read(&signer, &long)), "the proof is too long");
}

#[test]
fn one_proof_of_the_bound_key_is_needed() {
    let (signer, other) = (Signer::new(), Signer::new());
    let text = signer.sign(&signer.header(), &claims());
    let rules = rules();
    let read = |values| {
        let sent = SentProof { values, ..sent("") };
        rules.read(&sent, TOKEN, &signer.thumbprint(), NOW).map(|_| ())
    };
    let invalid = |reason| Err(AuthError::InvalidProof(reason));
    let value = Some(text.as_bytes());
    assert_eq!(read([value, None]), Ok(()));
    assert_eq!(read([value, value]), invalid("the request has more than one proof"));
    let missing = "the request has no proof: the header field DPoP is missing";
    assert_eq!(read([None, None]), invalid(missing));
    let other_key = "the token is bound to another key than that of the proof";
    let result = rules.read(&sent(&text), TOKEN, &other.thumbprint(), NOW);
    assert_eq!(result.unwrap_err(), AuthError::UnprovedToken(other_key));
}

#[test]
fn nonce_is_accepted_for_two_periods() {
    let nonces = Nonces::new(&[7; KEY_BYTES]);
    let begin = 1_000 * PERIOD_SECONDS;
    let nonce = nonces.current(begin + 3);
    assert_eq!(nonce, nonces.current(begin + PERIOD_SECONDS - 1));
    assert_ne!(nonce, nonces.current(begin + PERIOD_SECONDS));
    assert!(nonce.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
    let accepts = |at: u64| nonces.accepts(&nonce, at);
    assert!(accepts(begin) && accepts(begin + 2 * PERIOD_SECONDS - 1));
    assert!(!accepts(begin + 2 * PERIOD_SECONDS) && !accepts(begin - 1));
}

#[test]
fn nonce_of_another_key_is_refused() {
    let nonce = Nonces::new(&[8; KEY_BYTES]).current(1_000);
    let nonces = Nonces::new(&[7; KEY_BYTES]);
    let own = nonces.current(1_000);
    for nonce in [&nonce, "", "x", &own[1..], &format!("{own}A")] {
        assert!(!nonces.accepts(nonce, 1_000), "{nonce}");
    }
    assert!(nonces.accepts(&own, 1_000));
}
