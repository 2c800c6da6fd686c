//! Counters and log events of authentication: refused requests, and checks of tokens.

use std::net::SocketAddr;

use super::Credential;
use crate::guard::auth::{AuthError, TokenFault};
use crate::telemetry::auth_event::AuthEvent;
use crate::telemetry::counters::AuthCounters;
use crate::telemetry::event::Event;

/// Counts a request that is not authenticated.
pub const fn count_refusal(counters: &mut AuthCounters, error: &AuthError) {
    let counter = match error {
        AuthError::Missing => &mut counters.missing_token,
        AuthError::InvalidToken(_) | AuthError::UnprovedToken(_) => &mut counters.invalid_token,
        AuthError::InvalidProof(_) => &mut counters.invalid_proof,
        AuthError::NonceNeeded(_) => &mut counters.missing_nonce,
        AuthError::InvalidRequest(_) => &mut counters.invalid_request,
        AuthError::Unavailable(_) | AuthError::Pending => &mut counters.unavailable,
    };
    *counter += 1;
}

/// Returns the log event of a request of `peer` that is not authenticated.
pub fn unauthorized_event(
    error: &AuthError,
    peer: Option<SocketAddr>,
    request_id: Option<&str>,
) -> Event<'static> {
    let (reason, check, detail) = (error.label(), error.check(), error.detail().into());
    let request_id = request_id.map(Box::from);
    Event::Auth(AuthEvent::Unauthorized { reason, check, detail, peer, request_id })
}

/// Counts a check by its result. `is_hit` is whether the shard has verified the token before.
#[inline]
pub(super) const fn count_check(
    counters: &mut AuthCounters,
    is_hit: bool,
    checked: &Result<Credential, AuthError>,
) {
    match checked {
        Ok(_) if is_hit => counters.checks_hit += 1,
        Ok(_) => counters.checks_verified += 1,
        Err(error) => count_failure(counters, error),
    }
}

/// Counts a check that has failed. A request that waits, or has no credential, is no check.
#[cold]
const fn count_failure(counters: &mut AuthCounters, error: &AuthError) {
    let counter = match error {
        AuthError::Missing | AuthError::InvalidRequest(_) | AuthError::Pending => return,
        AuthError::InvalidToken(token) => match token.fault {
            TokenFault::Malformed => &mut counters.checks_malformed,
            TokenFault::Unsupported => &mut counters.checks_unsupported,
            TokenFault::Issuer => &mut counters.checks_issuer,
            TokenFault::Signature | TokenFault::Key => &mut counters.checks_bad_signature,
            TokenFault::Expired => &mut counters.checks_expired,
            TokenFault::NotYetValid => &mut counters.checks_not_yet_valid,
            TokenFault::Audience => &mut counters.checks_audience,
            TokenFault::Binding => &mut counters.checks_binding,
            TokenFault::Unknown => &mut counters.checks_unknown,
        },
        AuthError::UnprovedToken(_) => &mut counters.checks_binding,
        AuthError::InvalidProof(_) | AuthError::NonceNeeded(_) => &mut counters.checks_proof,
        AuthError::Unavailable(_) => &mut counters.checks_unavailable,
    };
    *counter += 1;
}
