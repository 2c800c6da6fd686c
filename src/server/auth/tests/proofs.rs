//! Proofs of keys whose signatures threads verify.

use std::sync::mpsc::{Receiver, channel};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use corelane_base::principal::Binding;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::*;
use crate::guard::auth::dpop::DpopRules;
use crate::guard::auth::jwt::EmbeddedKey;
use crate::guard::state_cipher::KEY_BYTES;
use crate::server::auth::proof_threads::ProofThreads;
use crate::server::used_digests::UsedDigests;

const TOKEN: &str = "token";

/// Knows all tokens, which are bound to the key with this thumbprint.
struct Bound([u8; 32]);

impl TokenVerifier for Bound {
    fn verify(&self, token: &str, _: u64) -> Result<Principal, TokenError> {
        Ok(Principal::new(token).with_binding(Binding::ProofKey(self.0)))
    }
}

/// The key of RFC 7517, appendix A.1.
fn jwk() -> Value {
    json!({
        "kty": "EC", "crv": "P-256", "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
    })
}

/// Returns a shard that has verified itself what it may, and what threads find out for it.
fn proving() -> (Authentication, Receiver<VerifiedProof>) {
    let mut auth = authentication(99);
    let key = EmbeddedKey::read(jwk().as_object().unwrap()).unwrap();
    let verifier: Arc<dyn TokenVerifier> = Arc::new(Bound(*key.thumbprint()));
    let dpop = DpopRules::new("https://mcp.test/mcp", vec!["ES256".into()], 300).unwrap();
    let active = auth.verification.as_mut().unwrap();
    active.authenticator = Arc::new(Authenticator {
        verifier: Some(verifier),
        dpop: Some(dpop),
        ..Authenticator::default()
    });
    let (used, threads) = (UsedDigests::new(9_999), ProofThreads::new(1));
    active.proofs = Some(ProofChecks::new(used.into(), threads, &[7; KEY_BYTES]));
    let (sender, receiver) = channel();
    let report = ProofReport::new(move |verified| sender.send(verified).unwrap_or_default());
    let mut auth = auth.verifying_for(report);
    let on_shard = (0..99).take_while(|_| send(&mut auth, "shard") == INVALID_SIGNATURE).count();
    assert!((1..99).contains(&on_shard));
    (auth, receiver)
}

/// Sends a proof with this `jti`, whose signature is invalid. Returns how that is refused.
fn send(auth: &mut Authentication, id: &str) -> AuthError {
    let encode = |value: Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
    let header = encode(json!({ "typ": "dpop+jwt", "alg": "ES256", "jwk": jwk() }));
    let claims = encode(json!({
        "jti": id, "htm": "POST", "htu": "https://mcp.test/mcp", "iat": 1,
        "ath": BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(TOKEN)),
    }));
    let text = format!("{header}.{claims}.{}", BASE64_URL_SAFE_NO_PAD.encode([1; 64]));
    let sent = SentProof { values: [Some(text.as_bytes()), None], ..SENT };
    let proof = Proof { key: KeyProof::Sent(sent), ..Proof::default() };
    auth.authenticate(TOKEN, proof, None, at(1), &mut AuthCounters::default()).unwrap_err()
}

/// Sends a proof for which a connection waits then.
fn send_and_wait(auth: &mut Authentication, id: &str, key: Key) {
    assert_eq!(send(auth, id), AuthError::Pending);
    auth.wait(TOKEN, key);
}

#[test]
fn proof_read_again_has_one_signature_check() {
    let (mut auth, verified) = proving();
    let [first, second] = [7, 8].map(Key::from_bits);
    for key in [first, first, second] {
        send_and_wait(&mut auth, "one", key);
    }
    send_and_wait(&mut auth, "two", second);
    assert_eq!(auth.complete_proof(&verified.recv().unwrap()), [first, second]);
    assert_eq!(auth.complete_proof(&verified.recv().unwrap()), [second]);
    for id in ["one", "two"] {
        assert_eq!(send(&mut auth, id), INVALID_SIGNATURE);
        // A result is used once.
        assert_eq!(send(&mut auth, id), AuthError::Pending);
    }
    // All that threads do has been reported.
    drop(auth);
    assert!(verified.recv().is_err());
}

#[test]
fn proof_of_refused_head_is_not_verified() {
    let (mut auth, verified) = proving();
    let key = Key::from_bits(7);
    assert_eq!(send(&mut auth, "refused"), AuthError::Pending);
    send_and_wait(&mut auth, "one", key);
    assert_eq!(auth.complete_proof(&verified.recv().unwrap()), [key]);
    assert_eq!(send(&mut auth, "one"), INVALID_SIGNATURE);
    assert_eq!(send(&mut auth, "refused"), AuthError::Pending);
    drop(auth);
    assert!(verified.recv().is_err());
}

#[test]
fn signatures_on_threads_are_bounded() {
    let (mut auth, verified) = proving();
    let key = Key::from_bits(7);
    // Three quarters of those of a shard.
    for number in 0..768 {
        send_and_wait(&mut auth, &number.to_string(), key);
    }
    assert!(matches!(send(&mut auth, "one"), AuthError::Unavailable(_)));
    // One that is on a thread is waited for.
    send_and_wait(&mut auth, "9", key);
    assert_eq!(auth.complete_proof(&verified.recv().unwrap()), [key]);
    send_and_wait(&mut auth, "one", key);
}
