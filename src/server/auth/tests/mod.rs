//! Tokens of a shard: limits of a turn, expiry, and what is counted.

#[cfg(feature = "oauth-jwt")]
mod proofs;

use super::introspection::WAIT_MAX;
use super::question_queue::{NextQuestion, QuestionQueue};
use super::*;
use crate::guard::auth::introspection::{IntrospectionRules, TokenStatus};
use crate::guard::auth::jwt::ClaimRules;
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
    Authentication::by_tokens(TokenVerification {
        authenticator: Arc::new(Authenticator {
            verifier: Some(verifier),
            ..Authenticator::default()
        }),
        version: 0,
        tokens: TokenTable::new(16),
        key_requests: KeyRequests { issuers: Arc::new([]) },
        pending: PendingTokens::new(QuestionQueue::new(16, 1, WAIT_MAX).into()),
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
    auth.authenticate(token, Proof::default(), None, time, &mut AuthCounters::default())
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
        auth.authenticate(token, proof, None, at(1), &mut counters).ok();
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

/// Asks an authorization server about tokens, with a grace of five minutes.
fn introspecting() -> (Authentication, Arc<QuestionQueue>) {
    let mut auth = authentication(9);
    let queue = Arc::new(QuestionQueue::new(16, 4, WAIT_MAX));
    let active = auth.verification.as_mut().unwrap();
    let claims = ClaimRules { audiences: vec!["https://a/mcp".into()], ..ClaimRules::default() };
    active.authenticator = Arc::new(Authenticator {
        introspection: Some(IntrospectionRules { issuers: Vec::new(), claims, grace_seconds: 300 }),
        ..Authenticator::default()
    });
    active.pending = PendingTokens::new(Arc::clone(&queue));
    (auth, queue)
}

/// Answers the question about the only token that waits.
fn answer(
    auth: &mut Authentication,
    queue: &QuestionQueue,
    is_known: bool,
    answer: Result<TokenStatus, NotIntrospected>,
    time: AuthTime,
) {
    let Some(NextQuestion::Ask(question)) = queue.next() else { panic!("no question") };
    assert_eq!(question.is_known, is_known);
    queue.end(&question);
    let token = IntrospectedToken { digest: question.digest, answer };
    auth.complete(&token, time, &mut AuthCounters::default());
}

fn active_until(expires_at: u64) -> TokenStatus {
    let members = serde_json::json!({"sub": "ada", "aud": "https://a/mcp", "exp": expires_at});
    TokenStatus::Active(members.as_object().unwrap().clone())
}

#[test]
fn known_token_goes_on_while_endpoint_is_away() {
    let (mut auth, queue) = introspecting();
    assert_eq!(authenticate(&mut auth, "t", at(1)).unwrap_err(), AuthError::Pending);
    answer(&mut auth, &queue, false, Ok(active_until(9_999)), at(1));
    assert!(authenticate(&mut auth, "t", at(60)).is_ok());
    // It is asked about again, and accepted meanwhile.
    assert!(authenticate(&mut auth, "t", at(61)).is_ok());
    answer(&mut auth, &queue, true, Ok(active_until(9_999)), at(61));
    assert!(authenticate(&mut auth, "t", at(120)).is_ok());
    // Later, a request waits until the server has not answered.
    assert_eq!(authenticate(&mut auth, "t", at(140)).unwrap_err(), AuthError::Pending);
    answer(&mut auth, &queue, true, Err(NotIntrospected::NoAnswer), at(140));
    let credential = authenticate(&mut auth, "t", at(140)).unwrap();
    assert_eq!(credential.principal().id(), "ada");
    assert!(!auth.is_current(&credential, at(141)));
    assert!(authenticate(&mut auth, "t", at(200)).is_ok());
    assert!(authenticate(&mut auth, "t", at(420)).is_ok());
    // The grace has ended, five minutes after the token was known.
    assert_eq!(authenticate(&mut auth, "t", at(421)).unwrap_err(), AuthError::Pending);
}

#[test]
fn withdrawn_token_has_no_grace() {
    let (mut auth, queue) = introspecting();
    authenticate(&mut auth, "t", at(1)).unwrap_err();
    answer(&mut auth, &queue, false, Ok(active_until(9_999)), at(1));
    assert!(authenticate(&mut auth, "t", at(61)).is_ok());
    answer(&mut auth, &queue, true, Ok(TokenStatus::Inactive), at(61));
    let error = authenticate(&mut auth, "t", at(61)).unwrap_err();
    assert!(matches!(error, AuthError::InvalidToken(_)), "{error:?}");
    assert_eq!(authenticate(&mut auth, "t", at(72)).unwrap_err(), AuthError::Pending);
}

#[test]
fn grace_ends_when_token_expires() {
    let (mut auth, queue) = introspecting();
    authenticate(&mut auth, "t", at(1)).unwrap_err();
    answer(&mut auth, &queue, false, Ok(active_until(70)), at(1));
    assert!(authenticate(&mut auth, "t", at(69)).is_ok());
    assert_eq!(authenticate(&mut auth, "t", at(70)).unwrap_err(), AuthError::Pending);
}

#[test]
fn known_token_has_no_grace_after_reload() {
    let (mut auth, queue) = introspecting();
    authenticate(&mut auth, "t", at(1)).unwrap_err();
    answer(&mut auth, &queue, false, Ok(active_until(9_999)), at(1));
    let authenticator = Arc::clone(&auth.verification.as_ref().unwrap().authenticator);
    auth.install(authenticator);
    assert_eq!(authenticate(&mut auth, "t", at(2)).unwrap_err(), AuthError::Pending);
    // It is asked about before tokens that are not known.
    answer(&mut auth, &queue, true, Ok(active_until(9_999)), at(2));
    assert!(authenticate(&mut auth, "t", at(2)).is_ok());
}
