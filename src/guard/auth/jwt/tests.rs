//! Tokens that are accepted, and each reason for which one is not.

use std::borrow::Cow;
use std::sync::Arc;

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair, RsaKeyPair,
};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use corelane_base::principal::Principal;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Map, Value, json};

use super::{ALGORITHMS, ClaimRules, Issuer, JwtError, JwtVerifier, KeySet};
use crate::guard::auth::access::AccessRules;

const NOW: u64 = 1_000_000;
const ISSUER: &str = "https://as.test";
const RESOURCE: &str = "https://mcp.test/mcp";

/// A private key with its id.
struct Signer {
    algorithm: Algorithm,
    key: EncodingKey,
    id: &'static str,
    /// The public key, of Ed25519.
    public: Option<Vec<u8>>,
}

impl Signer {
    fn new(algorithm: Algorithm, id: &'static str) -> Self {
        let random = SystemRandom::new();
        let mut public = None;
        let key = match algorithm {
            Algorithm::ES256 => {
                let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random);
                EncodingKey::from_ec_der(key.expect("valid test data").as_ref())
            }
            Algorithm::ES384 => {
                let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &random);
                EncodingKey::from_ec_der(key.expect("valid test data").as_ref())
            }
            Algorithm::EdDSA => {
                let key = Ed25519KeyPair::generate_pkcs8(&random).expect("valid test data");
                let pair = Ed25519KeyPair::from_pkcs8(key.as_ref()).expect("valid test data");
                public = Some(pair.public_key().as_ref().to_vec());
                EncodingKey::from_ed_der(key.as_ref())
            }
            _ => Self::rsa(KeySize::Rsa2048),
        };
        Self { algorithm, key, id, public }
    }

    fn rsa(size: KeySize) -> EncodingKey {
        let key = RsaKeyPair::generate(size).expect("valid test data");
        let der: Pkcs8V1Der<'_> = key.as_der().expect("valid test data");
        let pem = pem_of(der.as_ref());
        EncodingKey::from_rsa_pem(pem.as_bytes()).expect("valid test data")
    }

    fn es256() -> Self {
        Self::new(Algorithm::ES256, "one")
    }

    fn jwk(&self) -> Value {
        if let Some(public) = &self.public {
            let x = BASE64_URL_SAFE_NO_PAD.encode(public);
            return json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": self.id});
        }
        let mut jwk = Jwk::from_encoding_key(&self.key, self.algorithm).expect("valid test data");
        jwk.common.key_id = Some(self.id.to_owned());
        jwk.common.key_algorithm = None;
        serde_json::to_value(jwk).expect("valid test data")
    }

    fn sign(&self, header: &Header, claims: &Value) -> String {
        jsonwebtoken::encode(header, claims, &self.key).expect("valid test data")
    }

    fn header(&self) -> Header {
        Header { kid: Some(self.id.to_owned()), ..Header::new(self.algorithm) }
    }
}

fn pem_of(der: &[u8]) -> String {
    let text = base64::prelude::BASE64_STANDARD.encode(der);
    format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n")
}

fn key_set(keys: &[Value]) -> KeySet {
    KeySet::parse(json!({ "keys": keys }).to_string().as_bytes()).expect("valid test data")
}

fn verifier(keys: KeySet) -> JwtVerifier {
    JwtVerifier {
        issuers: vec![Issuer { name: ISSUER.into(), keys: Some(Arc::new(keys)), answered: 0 }],
        algorithms: ALGORITHMS.map(Box::from).to_vec(),
        requires_access_token_type: false,
        claims: ClaimRules {
            audiences: vec![RESOURCE.into(), "alias".into()],
            leeway_seconds: 60,
            tier_claim: Some("tier".into()),
        },
    }
}

fn claims() -> Value {
    json!({
        "iss": ISSUER, "sub": "ada", "aud": RESOURCE, "exp": NOW + 300, "iat": NOW - 1,
        "client_id": "cli", "scope": "read call", "tier": "admin",
    })
}

/// The claims with another value of one; `null` removes it.
fn claims_with(name: &str, value: Value) -> Value {
    let mut all: Map<String, Value> = claims().as_object().expect("valid test data").clone();
    all.remove(name);
    if !value.is_null() {
        all.insert(name.to_owned(), value);
    }
    all.into()
}

fn verify(verifier: &JwtVerifier, token: &str) -> Result<Principal, JwtError> {
    verifier.verify(token, NOW, &AccessRules::default())
}

fn reason(result: Result<Principal, JwtError>) -> Cow<'static, str> {
    match result {
        Err(JwtError::Invalid(token)) => token.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn token_of_every_algorithm_is_accepted() {
    for name in ALGORITHMS {
        let signer = Signer::new(name.parse().unwrap(), "one");
        let verifier = verifier(key_set(&[signer.jwk()]));
        let token = signer.sign(&signer.header(), &claims());
        let principal = verify(&verifier, &token).expect(name);
        assert_eq!((principal.id(), principal.issuer()), ("ada", ISSUER));
        assert_eq!((principal.client_id(), principal.tier()), ("cli", "admin"));
        assert_eq!(principal.scopes().collect::<Vec<_>>(), ["read", "call"]);
        assert_eq!(principal.expires_at(), Some(NOW + 360));
        assert_eq!(principal.claim("sub").unwrap(), "ada");
    }
}

#[test]
fn claims_have_variants_that_are_accepted() {
    let signer = Signer::es256();
    let verifier = verifier(key_set(&[signer.jwk()]));
    let variants = [
        ("aud", json!(["other", RESOURCE])),
        ("aud", json!("alias")),
        ("exp", json!(NOW - 59)),
        ("exp", json!(1_000_000.5)),
        ("nbf", json!(NOW + 60)),
        ("iat", Value::Null),
        ("scp", json!(["more"])),
    ];
    for (name, value) in variants {
        let token = signer.sign(&signer.header(), &claims_with(name, value.clone()));
        assert!(verify(&verifier, &token).is_ok(), "{name} = {value}");
    }
}

#[test]
fn each_invalid_claim_has_its_reason() {
    let signer = Signer::es256();
    let verifier = verifier(key_set(&[signer.jwk()]));
    let expired = "the token has expired";
    let audience = "the audience of the token is not this server";
    let unknown_binding = "the token is bound to a key of which this server verifies no proofs";
    let thumbprint = BASE64_URL_SAFE_NO_PAD.encode([7; 32]);
    let cases = [
        ("iss", json!("https://as.test/"), "the issuer of the token is not accepted"),
        ("iss", Value::Null, "the issuer of the token is not accepted"),
        ("exp", json!(NOW - 60), expired),
        ("exp", Value::Null, "the token has no expiry"),
        ("exp", json!("soon"), "the claim exp is not a time"),
        ("nbf", json!(NOW + 61), "the token is not valid yet"),
        ("iat", json!(NOW + 61), "the token is issued in the future"),
        ("aud", json!("https://mcp.test/mcp/"), audience),
        ("aud", json!([]), audience),
        ("aud", json!({"a": RESOURCE}), audience),
        ("aud", Value::Null, "the token has no audience"),
        ("sub", Value::Null, "the token has no subject"),
        ("cnf", json!({"jkt": "x"}), "the claim cnf has no SHA-256"),
        ("cnf", json!({"kid": "x"}), unknown_binding),
        ("cnf", json!({"jkt": thumbprint, "x5t#S256": thumbprint}), unknown_binding),
    ];
    for (name, value, expected) in cases {
        let token = signer.sign(&signer.header(), &claims_with(name, value.clone()));
        assert_eq!(reason(verify(&verifier, &token)), expected, "{name} = {value}");
    }
}

#[test]
fn none_and_symmetric_algorithms_are_rejected() {
    let signer = Signer::es256();
    let verifier = verifier(key_set(&[signer.jwk()]));
    let expected = "the algorithm of the token is not accepted";
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    for algorithm in ["none", "None", "NONE", "HS256", ""] {
        let token = format!("{}.{}.", encode(&json!({"alg": algorithm})), encode(&claims()));
        assert_eq!(reason(verify(&verifier, &token)), expected, "{algorithm}");
    }
    // Signed with the public key as the secret (RFC 8725, section 2.1).
    let secret = EncodingKey::from_secret(signer.jwk().to_string().as_bytes());
    let token = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims(), &secret).unwrap();
    assert_eq!(reason(verify(&verifier, &token)), expected);
}

#[test]
fn algorithm_outside_the_list_is_rejected() {
    let signer = Signer::es256();
    let mut verifier = verifier(key_set(&[signer.jwk()]));
    verifier.algorithms = vec!["RS256".into()];
    let token = signer.sign(&signer.header(), &claims());
    assert_eq!(reason(verify(&verifier, &token)), "the algorithm of the token is not accepted");
}

#[test]
fn modified_token_is_rejected() {
    let signer = Signer::es256();
    let verifier = verifier(key_set(&[signer.jwk()]));
    let token = signer.sign(&signer.header(), &claims());
    let (message, signature) = token.rsplit_once('.').unwrap();
    let other = signer.sign(&signer.header(), &claims_with("sub", json!("bob")));
    let (_, foreign) = other.rsplit_once('.').unwrap();
    let der = BASE64_URL_SAFE_NO_PAD.encode([0x30, 6, 2, 1, 1, 2, 1, 1]);
    for changed in [foreign, "", &signature[2..], &der, &format!("{signature}AA")] {
        assert!(matches!(
            verify(&verifier, &format!("{message}.{changed}")),
            Err(JwtError::Invalid(_))
        ));
    }
    for malformed in ["", ".", "..", "a.b.c", &format!("{token}.x"), &token[1..]] {
        assert_eq!(reason(verify(&verifier, malformed)), "the token is malformed", "{malformed}");
    }
}

#[test]
fn key_of_the_header_is_not_used() {
    let (signer, attacker) = (Signer::es256(), Signer::es256());
    let verifier = verifier(key_set(&[signer.jwk()]));
    let jwk = Jwk::from_encoding_key(&attacker.key, Algorithm::ES256).unwrap();
    let header = Header {
        jwk: Some(jwk),
        jku: Some("https://attacker.test/keys".to_owned()),
        x5u: Some("https://attacker.test/cert".to_owned()),
        ..attacker.header()
    };
    let token = attacker.sign(&header, &claims());
    assert_eq!(reason(verify(&verifier, &token)), "the signature of the token is invalid");
}

#[test]
fn critical_header_is_rejected() {
    let signer = Signer::es256();
    let verifier = verifier(key_set(&[signer.jwk()]));
    let header = json!({"alg": "ES256", "kid": "one", "crit": ["b64"], "b64": false});
    let encode = |value: &Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let token = format!("{}.{}.AAAA", encode(&header), encode(&claims()));
    let expected = "the token has a critical header that is not supported";
    assert_eq!(reason(verify(&verifier, &token)), expected);
}

#[test]
fn type_of_another_purpose_is_rejected() {
    let signer = Signer::es256();
    let mut verifier = verifier(key_set(&[signer.jwk()]));
    let expected = "the type of the token is not that of an access token";
    let token = |typ: Option<&str>| {
        let header = Header { typ: typ.map(str::to_owned), ..signer.header() };
        signer.sign(&header, &claims())
    };
    for typ in [None, Some("JWT"), Some("jwt"), Some("at+jwt"), Some("application/at+jwt")] {
        assert!(verify(&verifier, &token(typ)).is_ok(), "{typ:?}");
    }
    for typ in ["dpop+jwt", "oauth-id-jag+jwt", "logout+jwt", ""] {
        assert_eq!(reason(verify(&verifier, &token(Some(typ)))), expected, "{typ}");
    }
    verifier.requires_access_token_type = true;
    assert!(verify(&verifier, &token(Some("AT+JWT"))).is_ok());
    for typ in [None, Some("JWT")] {
        assert_eq!(reason(verify(&verifier, &token(typ))), expected, "{typ:?}");
    }
}

#[test]
fn key_is_chosen_by_id_and_algorithm() {
    let (one, two) = (Signer::es256(), Signer::new(Algorithm::ES256, "two"));
    let rsa = Signer::new(Algorithm::RS256, "rsa");
    let verifier = verifier(key_set(&[rsa.jwk(), one.jwk(), two.jwk()]));
    assert!(verify(&verifier, &two.sign(&two.header(), &claims())).is_ok());
    // Without `kid` each key for the algorithm is tried.
    assert!(verify(&verifier, &two.sign(&Header::new(Algorithm::ES256), &claims())).is_ok());
    let wrong = two.sign(&one.header(), &claims());
    assert_eq!(reason(verify(&verifier, &wrong)), "the signature of the token is invalid");
    for id in ["three", "rsa", "", "../one"] {
        let header = Header { kid: Some(id.to_owned()), ..one.header() };
        let unknown = one.sign(&header, &claims());
        assert_eq!(verify(&verifier, &unknown), Err(JwtError::KeysNeeded(0)), "{id}");
    }
}

#[test]
fn issuer_without_keys_needs_them() {
    let signer = Signer::es256();
    let mut verifier = verifier(key_set(&[signer.jwk()]));
    verifier
        .issuers
        .insert(0, Issuer { name: "https://other.test".into(), keys: None, answered: 0 });
    let token = signer.sign(&signer.header(), &claims());
    assert!(verify(&verifier, &token).is_ok());
    // The keys of one issuer do not verify the tokens of another.
    let token = signer.sign(&signer.header(), &claims_with("iss", json!("https://other.test")));
    assert_eq!(verify(&verifier, &token), Err(JwtError::KeysNeeded(0)));
}

#[test]
fn unsuitable_keys_of_a_set_are_left_out() {
    let signer = Signer::es256();
    let with = |name: &str, value: Value| {
        let mut jwk = signer.jwk();
        jwk[name] = value;
        jwk
    };
    let weak = "x".repeat(170);
    let unsuitable = [
        with("use", json!("enc")),
        with("key_ops", json!(["sign"])),
        with("alg", json!("ES384")),
        with("crv", json!("P-521")),
        json!({"kty": "oct", "k": "c2VjcmV0", "kid": "one"}),
        json!({"kty": "RSA", "n": weak, "e": "AQAB", "kid": "one"}),
        json!({"kty": "new"}),
        json!("text"),
    ];
    for jwk in &unsuitable {
        let text = json!({ "keys": [jwk] }).to_string();
        assert!(KeySet::parse(text.as_bytes()).is_err(), "{jwk}");
    }
    let mut all = unsuitable.to_vec();
    all.push(with("alg", json!("ES256")));
    let verifier = verifier(key_set(&all));
    assert!(verify(&verifier, &signer.sign(&signer.header(), &claims())).is_ok());
    let many = json!({ "keys": vec![signer.jwk(); 101] }).to_string();
    assert!(KeySet::parse(many.as_bytes()).unwrap_err().contains("101 keys"));
    for text in ["", "[]", "{}", "{\"keys\": 1}"] {
        assert!(KeySet::parse(text.as_bytes()).is_err(), "{text}");
    }
}
