//! Tokens of a shard: limits of a turn, expiry, and what is counted.

use std::sync::mpsc::sync_channel;

use super::introspection::Questions;
use super::*;
use crate::guard::auth::proof::KeyProof;
use crate::guard::auth::{TokenError, TokenVerifier};

const SENT: SentProof<'_> =
    SentProof { values: [Some(b"p"), None], method: "POST", path: "/mcp", is_endpoint: true };

/// Knows the tokens that begin with `a`, for ten seconds.
struct Prefix;

impl TokenVerifier for Prefix {
    fn verify(&self, token: &str, now: u64) -> Result<Principal, TokenError> {
        if token.starts_with('a') {
            return Ok(Principal::new(token).with_expiry(now + 10));
        }
        Err(TokenError::Unknown)
    }
}

fn authentication(checks_per_turn_max: u16) -> Authentication {
    let verifier: Arc<dyn TokenVerifier> = Arc::new(Prefix);
    let (wake, _) = sync_channel(1);
    let (tokens, _) = sync_channel(1);
    let questions = Questions { tokens, wake: wake.clone() };
    Authentication::by_tokens(TokenVerification {
        authenticator: Arc::new(Authenticator {
            verifier: Some(verifier),
            ..Authenticator::default()
        }),
        version: 0,
        tokens: TokenTable::new(16),
        key_requests: KeyRequests { issuers: Arc::new([]), wake },
        pending: PendingTokens::new(questions),
        proofs: None,
        checks: TurnChecks::new(checks_per_turn_max),
        accepts_query_token: false,
        check_at: None,
    })
}

fn at(seconds: u64) -> AuthTime {
    let turn = Instant::from_milliseconds(1_000 * seconds);
    AuthTime { turn, unix_seconds: seconds }
}

fn authenticate(
    auth: &mut Authentication,
    token: &str,
    time: AuthTime,
) -> Result<Credential, AuthError> {
    auth.authenticate(token, Proof::default(), time, &mut AuthCounters::default())
}

#[test]
fn new_tokens_of_one_turn_are_limited() {
    let mut auth = authentication(2);
    assert!(authenticate(&mut auth, "a1", at(1)).is_ok());
    assert!(matches!(authenticate(&mut auth, "b1", at(1)), Err(AuthError::InvalidToken(_))));
    let error = authenticate(&mut auth, "a2", at(1)).unwrap_err();
    assert_eq!(error, AuthError::Pending);
    // Known tokens are not limited.
    assert!(authenticate(&mut auth, "a1", at(1)).is_ok());
    assert!(authenticate(&mut auth, "a2", at(2)).is_ok());
}

#[test]
fn each_check_is_counted_by_result() {
    let (mut auth, mut counters) = (authentication(2), AuthCounters::default());
    let sent = Proof { key: KeyProof::Sent(SENT), ..Proof::default() };
    for (token, proof) in [
        ("a1", Proof::default()),
        ("a1", Proof::default()),
        ("a1", sent),
        ("b1", Proof::default()),
        // Waits for a later turn.
        ("a2", Proof::default()),
    ] {
        auth.authenticate(token, proof, at(1), &mut counters).ok();
    }
    assert_eq!(
        auth.authenticate_certificate(None, at(1), &mut counters).err(),
        Some(AuthError::Missing)
    );
    let expected = AuthCounters {
        checks_hit: 1,
        checks_verified: 1,
        checks_binding: 1,
        checks_unknown: 1,
        ..AuthCounters::default()
    };
    assert_eq!(counters, expected);
}

#[test]
fn credential_is_current_until_it_expires() {
    let mut auth = authentication(9);
    let credential = authenticate(&mut auth, "a1", at(1)).unwrap();
    assert!(auth.is_current(&credential, at(10)));
    assert!(!auth.is_current(&credential, at(11)));
    auth.install(Arc::default());
    assert!(!auth.is_current(&credential, at(2)));
    assert!(authenticate(&mut auth, "a1", at(2)).is_err());
}

#[test]
fn open_connections_are_checked_after_an_interval() {
    let mut auth = authentication(9);
    assert_eq!(auth.next_check(), None);
    assert!(authenticate(&mut auth, "a1", at(1)).is_ok());
    assert_eq!(auth.next_check(), Some(at(6).turn));
    assert!(!auth.begins_check(at(5).turn));
    assert!(auth.begins_check(at(6).turn) && !auth.begins_check(at(7).turn));
    auth.schedule_check(at(7).turn);
    auth.install(Arc::default());
    assert!(auth.begins_check(at(7).turn));
}
