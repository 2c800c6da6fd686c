//! Fuzz target body of what clients send as a token, and of what an authorization server says of
//! one.
//!
//! It panics if an invariant is violated, which no input may cause. Called by a fuzzer with its own
//! text, and by a test with seeded damage.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use corelane::internal::{
    ALGORITHMS, AccessRules, AuthError, Challenges, ClaimRules, Issuer, JwtError, JwtVerifier,
    KeySet, TOKEN_BYTES_MAX, read_authorization, read_token,
};
use serde_json::{Map, Value};

/// The public key of RFC 7517, appendix A.1.
pub(crate) const KEY_SET: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"1",
    "x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
    "y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;

const NOW: u64 = 1_000_000;

/// Reads `text` as the value of `Authorization`, as a JWT, as its claims, and as a key set. Returns
/// whether it is a bearer token.
///
/// # Panics
///
/// If an invariant is violated: a token is accepted that no issuer has signed, or the refusal of
/// one is malformed or has a part of it.
pub(crate) fn check_text(text: &str) -> bool {
    let verifier = verifier();
    let access = AccessRules::default();
    let value = read_authorization(text.as_bytes());
    let token = match &value {
        Ok(token) => *token,
        Err(error) => {
            check_refusal(error, text);
            text
        }
    };
    if value.is_ok() {
        assert!(
            token.len() <= TOKEN_BYTES_MAX && text.trim_ascii_end().ends_with(token),
            "{text:?}"
        );
        assert_eq!(read_token(token.as_bytes()), Ok(token));
    }
    match verifier.verify(token, NOW, &access) {
        Ok(principal) => panic!("{principal:?} has no signature"),
        Err(JwtError::Invalid(invalid)) => check_refusal(&AuthError::InvalidToken(invalid), token),
        Err(JwtError::KeysNeeded(issuer)) => assert_eq!(issuer, 0),
    }
    // The claims behind a signature, as they are or as the payload of a token.
    let payload = token.split('.').nth(1).and_then(|part| BASE64_URL_SAFE_NO_PAD.decode(part).ok());
    for claims in [text.as_bytes(), &payload.unwrap_or_default()] {
        let Ok(claims) = serde_json::from_slice::<Map<String, Value>>(claims) else { continue };
        if let Ok(principal) = verifier.claims.check(&claims, NOW, &access) {
            assert!(principal.expires_at().is_some_and(|at| at > NOW), "{principal:?}");
            assert!(claims.contains_key("aud") && claims.contains_key("sub"), "{claims:?}");
            assert_eq!(principal.binding().is_some(), claims.contains_key("cnf"), "{claims:?}");
        }
    }
    // Must not panic.
    drop(KeySet::parse(text.as_bytes()));
    value.is_ok()
}

fn verifier() -> JwtVerifier {
    let keys = KeySet::parse(KEY_SET.as_bytes()).ok().map(Arc::new);
    JwtVerifier {
        issuers: vec![Issuer { name: "https://as.test".into(), keys, answered: 0 }],
        algorithms: ALGORITHMS.map(Box::from).to_vec(),
        requires_access_token_type: false,
        claims: ClaimRules { audiences: vec!["https://a/mcp".into()], ..ClaimRules::default() },
    }
}

/// Checks that a refusal is a field value, and has no token.
fn check_refusal(error: &AuthError, token: &str) {
    let refusal = Challenges::default().refuse(error);
    let challenge = refusal.challenge.unwrap_or_default();
    assert!(challenge.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()), "{challenge}");
    assert!(serde_json::from_str::<Value>(&refusal.body).is_ok(), "{}", refusal.body);
    // The words of a refusal are shorter.
    let is_word = |it: char| it.is_ascii_alphanumeric() || "-_".contains(it);
    for word in token.split(|it| !is_word(it)).filter(|word| word.len() > 30) {
        assert!(!challenge.contains(word), "{challenge}");
    }
}
