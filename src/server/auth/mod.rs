//! Authentication on a shard: from the token of a request to its principal.
//!
//! ```text
//! token ─ credential of the connection ─ table of verified tokens ─ signature ─▶ Credential
//! ```
//!
//! The first that knows the token answers: a connection that repeats its token costs a comparison,
//! a known token a SHA-256, an unknown one a signature check, or a question to the authorization
//! server (RFC 7662), for whose answer the request waits. A bound token costs a signature check for
//! the proof of each request. A turn has a limited number of signature checks; further requests
//! wait for later turns.
//! `source` reads the keys, before the server starts and on threads of its own.

mod access;
mod credential;

mod proof_threads;

mod checks;
mod key_requests;

mod question_queue;

mod introspection;

mod settings;

mod source;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::principal::Principal;
use corelane_base::slab::Key;
use corelane_base::time::{Instant, WallClock};

use self::checks::{ProofChecks, TurnChecks, count_check};
pub(super) use self::checks::{
    count_refusal, parity_refusal_error, refusal_error, unauthorized_event,
};
pub(super) use self::credential::{Credential, OwnCredential};
use self::introspection::{NO_ANSWER, PendingTokens, TOO_MANY_QUESTIONS};
use self::key_requests::{KeyRequests, KeyState};
pub(super) use self::proof_threads::{ProofReport, VerifiedProof};
use self::question_queue::Question;
#[cfg(feature = "cli")]
pub use self::source::check_auth;
pub(super) use self::source::{AuthSource, AuthUpdate, HOW_TO_KNOW_CALLERS, HostCallers};
use crate::guard::auth::certificates::{ClientCertificate, RevokedCertificates};
use crate::guard::auth::challenge::Challenges;
use crate::guard::auth::dpop::INVALID_SIGNATURE;
use crate::guard::auth::introspection::{IntrospectedToken, NotIntrospected};
use crate::guard::auth::metadata::ResourceMetadata;
use crate::guard::auth::proof::{Proof, SentProof};
use crate::guard::auth::token_table::{TokenDigest, TokenTable, digest_of};
use crate::guard::auth::{
    AuthError, Authenticator, InvalidToken, TokenFault, Verified, VerifyError,
};
use crate::server::failure_limit::FailureLimit;
use crate::telemetry::counters::AuthCounters;

/// Interval at which the credentials of open connections are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Time in seconds for which a token that was valid is accepted while the authorization server is
/// asked about it again. Later requests wait for the answer.
const GRACE_SECONDS: u64 = 10;

/// Who the callers of one shard are; by default they are not distinguished.
#[derive(Debug, Default)]
pub(super) struct Authentication {
    /// Callers are distinguished: tokens are verified, or the host names callers.
    is_active: bool,
    /// What tokens are verified with, if they are.
    verification: Option<Box<TokenVerification>>,
    /// What callers may do where no tokens are verified: those that the host names, and others.
    attached: Arc<Authenticator>,
    /// How often an address may fail.
    failures: Arc<FailureLimit>,
    /// The credential of a connection whose present message has another token.
    pub(super) replaced: Option<Box<OwnCredential>>,
    /// Certificates of clients that were revoked since the start. TLS refuses later connections
    /// with them.
    pub(super) revoked: Arc<RevokedCertificates>,
}

/// What a shard verifies tokens with.
#[derive(Debug)]
struct TokenVerification {
    authenticator: Arc<Authenticator>,
    /// Number of authenticators before this one. A credential of an earlier one is not current.
    version: u32,
    tokens: TokenTable,
    key_requests: KeyRequests,
    pending: PendingTokens,
    /// Checks proofs of keys; `None` if none is accepted.
    proofs: Option<ProofChecks>,
    checks: TurnChecks,
    accepts_query_token: bool,
    /// When the credentials of open connections are checked; `None` before the first.
    check_at: Option<Instant>,
}

/// A token with what its request proves.
#[derive(Clone, Copy, Debug)]
struct TokenWithProof<'a> {
    token: &'a str,
    proof: Proof<'a>,
    /// Who sends it.
    client: Option<ClientAddress>,
}

/// The present, as an instant of the shard and as seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct AuthTime {
    pub(super) turn: Instant,
    pub(super) unix_seconds: u64,
}

impl AuthTime {
    /// The instant `turn`, with its seconds by `wall_clock`.
    pub(super) const fn at(turn: Instant, wall_clock: WallClock) -> Self {
        Self { turn, unix_seconds: wall_clock.unix_ms(turn) / 1_000 }
    }
}

impl Authentication {
    /// Distinguishes callers by their tokens.
    fn by_tokens(verification: TokenVerification) -> Self {
        Self { is_active: true, verification: Some(Box::new(verification)), ..Self::default() }
    }

    /// Distinguishes callers by the principals that the host attaches: at once if `attached` has
    /// rules or `is_active`, otherwise when the first connection comes to which it can attach one.
    fn by_host(attached: Arc<Authenticator>, is_active: bool) -> Self {
        let access = &attached.access;
        let is_active = is_active || !access.is_empty() || access.has_audit();
        Self { is_active, attached, ..Self::default() }
    }

    /// Has threads verify signatures of proofs for a shard, to which `report` sends the results.
    pub(super) fn verifying_for(mut self, report: ProofReport) -> Self {
        let verification = self.verification.as_mut();
        if let Some(proofs) = verification.and_then(|it| it.proofs.as_mut()) {
            proofs.set_shard(report);
        }
        self
    }

    /// Limits how often an address may fail.
    pub(super) fn limited_by(self, failures: &Arc<FailureLimit>) -> Self {
        Self { failures: Arc::clone(failures), ..self }
    }

    /// Returns whether an address may fail once more.
    ///
    /// # Errors
    ///
    /// [`AuthError::TooManyFailures`].
    pub(super) fn check_failures(
        &self,
        client: Option<ClientAddress>,
        now: Instant,
    ) -> Result<(), AuthError> {
        self.failures.check(client, now).map_err(AuthError::TooManyFailures)
    }

    /// Counts a refused request of an address against its limit of failures, if it is one.
    #[cold]
    pub(super) fn record_failure(
        &self,
        error: &AuthError,
        client: Option<ClientAddress>,
        now: Instant,
    ) {
        if error.is_failure() {
            self.failures.record(client, now);
        }
    }

    /// Counts a failed handshake of an address against its limit of failures.
    #[cold]
    pub(super) fn record_failed_handshake(&self, client: Option<ClientAddress>, now: Instant) {
        self.failures.record(client, now);
    }

    /// Returns whether callers are distinguished: by their tokens, or by the principals that the
    /// host attaches to their requests.
    #[inline]
    pub(super) const fn is_active(&self) -> bool {
        self.is_active
    }

    /// Returns whether tokens are verified. Without that, the word of the host is all that is known
    /// of a caller.
    #[inline]
    pub(super) const fn verifies_tokens(&self) -> bool {
        self.verification.is_some()
    }

    /// Returns whether a client without a token is refused.
    pub(super) fn requires_tokens(&self) -> bool {
        self.verifies_tokens() && !self.admits_anonymous()
    }

    /// Distinguishes callers from now on, because the host can attach principals to requests.
    pub(super) const fn distinguish_callers(&mut self) {
        self.is_active = true;
    }

    /// Returns a principal of the host with the scopes that its own imply.
    pub(super) fn with_implied_scopes(&self, principal: Arc<Principal>) -> Arc<Principal> {
        let authenticator = self.authenticator();
        if !authenticator.access.implies_scopes() {
            return principal;
        }
        Arc::new(authenticator.with_implied_scopes(&principal))
    }

    /// Returns what callers may do, and what refused ones are sent.
    fn authenticator(&self) -> &Arc<Authenticator> {
        self.verification.as_ref().map_or(&self.attached, |active| &active.authenticator)
    }

    /// Uses other keys and rules from now on.
    pub(super) fn install(&mut self, authenticator: Arc<Authenticator>) {
        let Some(active) = &mut self.verification else {
            self.attached = authenticator;
            self.is_active = true;
            return;
        };
        active.authenticator = authenticator;
        active.version = active.version.wrapping_add(1);
        active.tokens.forget_owners();
        active.pending.forget_refused();
        active.check_at = active.check_at.map(|_| Instant::ORIGIN);
    }

    /// Returns when the credentials of open connections are checked, or requests have waited long
    /// enough.
    pub(super) fn next_check(&self) -> Option<Instant> {
        let active = self.verification.as_ref()?;
        if active.checks.has_waiting() || active.checks.has_open() {
            return Some(Instant::ORIGIN);
        }
        Instant::earliest([active.check_at, active.pending.next_deadline()])
    }

    /// Has a request wait until the authorization server has said what the token is, or else for a
    /// turn in which its token or its proof can be verified.
    pub(super) fn wait(&mut self, token: &str, key: Key) {
        let Some(active) = &mut self.verification else { return };
        let is_on_thread = active.proofs.as_mut().is_some_and(|proofs| proofs.wait(key));
        if !is_on_thread && !active.pending.wait(&digest_of(token), key) {
            active.checks.wait(key);
        }
    }

    /// Learns whether the signature of a proof is valid. Returns the connections whose request has
    /// waited for that.
    pub(super) fn complete_proof(&mut self, verified: &VerifiedProof) -> Vec<Key> {
        let proofs = self.verification.as_mut().and_then(|active| active.proofs.as_mut());
        proofs.map(|proofs| proofs.complete(verified)).unwrap_or_default()
    }

    /// Learns what the authorization server says of a token, and counts one that it accepts.
    /// Returns the connections whose request has waited for that.
    pub(super) fn complete(
        &mut self,
        token: &IntrospectedToken,
        time: AuthTime,
        counters: &mut AuthCounters,
    ) -> Vec<Key> {
        self.verification
            .as_mut()
            .map(|active| active.complete(token, time, counters))
            .unwrap_or_default()
    }

    /// Ends what has taken too long. Returns the connections whose request has waited for that, or
    /// for this turn.
    pub(super) fn expire(&mut self, time: AuthTime) -> Vec<Key> {
        let Some(active) = &mut self.verification else { return Vec::new() };
        let mut waiting = active.pending.expire(time);
        if active.checks.has_waiting() {
            waiting.append(&mut active.checks.resume(time.turn));
        }
        waiting
    }

    /// Returns whether the credentials of open connections are to be checked now: the time has
    /// come, and those of the last check are verified. The next check follows the next token, or
    /// [`Authentication::schedule_check`].
    pub(super) fn begins_check(&mut self, now: Instant) -> bool {
        let Some(active) = &mut self.verification else { return false };
        let is_due =
            active.check_at.is_some_and(|check_at| check_at <= now) && !active.checks.has_open();
        if is_due {
            active.check_at = None;
        }
        is_due
    }

    /// Has the credentials of open connections checked after an interval.
    pub(super) fn schedule_check(&mut self, now: Instant) {
        if let Some(active) = &mut self.verification {
            active.check_at.get_or_insert_with(|| now.after(CHECK_INTERVAL));
        }
    }

    /// Has the credential of an open connection verified again, in this turn or a later one.
    pub(super) fn verify_later(&mut self, key: Key) {
        if let Some(active) = &mut self.verification {
            active.checks.push_open(key);
        }
    }

    /// Gives the open connections whose credential is verified again their checks of this turn.
    pub(super) fn begin_open(&mut self, turn: Instant) {
        if let Some(active) = self.verification.as_mut().filter(|active| active.checks.has_open()) {
            active.checks.begin_open(turn);
        }
    }

    /// Takes the next open connection whose credential is verified again in this turn.
    pub(super) fn next_open(&mut self) -> Option<Key> {
        self.verification.as_mut()?.checks.next_open()
    }

    /// Returns whether callers without a token are served.
    pub(super) fn admits_anonymous(&self) -> bool {
        self.verification.as_ref().is_none_or(|it| it.authenticator.admits_anonymous)
    }

    /// Returns whether the token may be in the query.
    pub(super) fn accepts_query_token(&self) -> bool {
        self.verification.as_ref().is_some_and(|it| it.accepts_query_token)
    }

    /// Returns the metadata document of the resource.
    pub(super) fn metadata(&self) -> Option<&ResourceMetadata> {
        self.verification.as_ref()?.authenticator.metadata.as_ref()
    }

    /// Returns how refused callers are challenged.
    pub(super) fn challenges(&self) -> Option<&Challenges> {
        Some(&self.verification.as_ref()?.authenticator.challenges)
    }

    /// Returns whether tokens with proofs of keys are accepted.
    pub(super) fn accepts_proofs(&self) -> bool {
        self.verification.as_ref().is_some_and(|it| it.proofs.is_some())
    }

    /// Returns the nonce that clients are to use in proofs of keys.
    pub(super) fn proof_nonce(&self, time: AuthTime) -> Option<String> {
        Some(self.verification.as_ref()?.proofs.as_ref()?.nonce(time.unix_seconds))
    }

    /// Returns whether lists differ between callers, apart from scopes of tools.
    #[inline]
    pub(super) fn has_rules(&self) -> bool {
        self.is_active && !self.authenticator().access.is_empty()
    }

    /// Returns whether calls of some tools are logged.
    #[inline]
    pub(super) fn has_audit(&self) -> bool {
        self.is_active && self.authenticator().access.has_audit()
    }

    /// Returns whether calls of a tool are logged.
    #[inline]
    pub(super) fn audits(&self, tool: &str) -> bool {
        self.is_active && self.authenticator().access.audits(tool)
    }

    /// Returns whether a credential is still valid.
    #[inline]
    pub(super) fn is_current(&self, credential: &Credential, time: AuthTime) -> bool {
        let Some(active) = &self.verification else { return true };
        credential.version == active.version && time.unix_seconds < credential.known_until
    }

    /// Returns whether a credential was valid until a moment ago, and has not expired since.
    pub(super) fn is_verified(&self, credential: &Credential, time: AuthTime) -> bool {
        let expires_at = credential.principal().expires_at();
        self.verification.as_ref().is_some_and(|active| credential.version == active.version)
            && time.unix_seconds < credential.known_until.saturating_add(GRACE_SECONDS)
            && expires_at.is_none_or(|expires_at| time.unix_seconds < expires_at)
    }

    /// Returns the credential of a token that `client` sends with `proof`, and counts the check. A
    /// token that is not known is not verified after too many failures of the client.
    ///
    /// # Errors
    ///
    /// Why the token is not accepted.
    pub(super) fn authenticate(
        &mut self,
        token: &str,
        proof: Proof<'_>,
        client: Option<ClientAddress>,
        time: AuthTime,
        counters: &mut AuthCounters,
    ) -> Result<Credential, AuthError> {
        let Some(active) = &mut self.verification else { return Err(NO_AUTHENTICATION) };
        if let Some(proofs) = &mut active.proofs {
            proofs.begin_check();
        }
        let known = active.find(token, time);
        let is_hit = known.is_some();
        if !is_hit && !active.was_introspected(token) {
            self.failures.check(client, time.turn).map_err(AuthError::TooManyFailures)?;
        }
        let credential = known.map_or_else(|| active.verify(token, client, time), Ok);
        let sent = TokenWithProof { token, proof, client };
        let checked = credential.and_then(|it| active.check_binding(it, &sent, time));
        count_check(counters, is_hit, &checked);
        checked
    }

    /// Returns the credential of a connection without token, by the certificate of its client, and
    /// counts the check.
    ///
    /// # Errors
    ///
    /// [`AuthError::Missing`] without a certificate that stands for a token.
    pub(super) fn authenticate_certificate(
        &mut self,
        certificate: Option<&ClientCertificate>,
        time: AuthTime,
        counters: &mut AuthCounters,
    ) -> Result<Credential, AuthError> {
        let Some(active) = &mut self.verification else { return Err(NO_AUTHENTICATION) };
        let certificate = certificate.ok_or(AuthError::Missing)?;
        let checked = active.verify_certificate(certificate, time);
        count_check(counters, false, &checked);
        checked
    }
}

impl TokenVerification {
    /// Returns the credential of a token that was verified before.
    fn find(
        &mut self,
        token: &str,
        AuthTime { turn, unix_seconds }: AuthTime,
    ) -> Option<Credential> {
        self.check_at.get_or_insert_with(|| turn.after(CHECK_INTERVAL));
        let (principal, known_until) = self.tokens.find(token, unix_seconds)?;
        let principal = Arc::clone(principal);
        Some(Credential::new(token, principal, known_until, self.version))
    }

    fn verify(
        &mut self,
        token: &str,
        client: Option<ClientAddress>,
        time: AuthTime,
    ) -> Result<Credential, AuthError> {
        let AuthTime { turn, unix_seconds } = time;
        if self.authenticator.introspection.is_some()
            && let Some(renewed) = self.renew(token, client, time)
        {
            return renewed;
        }
        if self.authenticator.needs_check(token) {
            self.take_check(turn)?;
        }
        match self.authenticator.verify(token, unix_seconds) {
            Ok(Verified { principal, known_until }) => {
                let principal = Arc::new(principal);
                self.tokens.insert(digest_of(token), Arc::clone(&principal), known_until);
                Ok(Credential::new(token, principal, known_until, self.version))
            }
            Err(VerifyError::Auth(error)) => Err(error),
            Err(VerifyError::IntrospectionNeeded) => {
                let digest = digest_of(token);
                let is_known = self.tokens.was_introspected(&digest);
                Err(self
                    .pending
                    .ask(Question { token: token.into(), digest, client, is_known }, time))
            }
            Err(VerifyError::KeysNeeded(issuer)) => {
                let issuers = self.authenticator.jwt.as_ref().map(|jwt| &jwt.issuers);
                let known = issuers.and_then(|issuers| issuers.get(issuer));
                // Without keys they are fetched until there are some.
                let known = known.filter(|issuer| issuer.keys.is_some()).ok_or(NO_KEYS)?;
                match self.key_requests.request(issuer, known.answered, unix_seconds) {
                    KeyState::Current => Err(AuthError::InvalidToken(NO_SUCH_KEY)),
                    KeyState::Pending => Err(NO_KEYS),
                }
            }
        }
    }
}

impl TokenVerification {
    /// Returns whether the authorization server has called a token valid before.
    fn was_introspected(&self, token: &str) -> bool {
        self.authenticator.introspection.is_some()
            && self.tokens.was_introspected(&digest_of(token))
    }

    /// Asks again about a token that the authorization server has called valid, and returns its
    /// credential if it may be used meanwhile: for [`GRACE_SECONDS`], and as long as the server
    /// does not answer. `None` for other tokens.
    #[cold]
    fn renew(
        &mut self,
        token: &str,
        client: Option<ClientAddress>,
        time: AuthTime,
    ) -> Option<Result<Credential, AuthError>> {
        let (digest, now) = (digest_of(token), time.unix_seconds);
        let known = self.tokens.find_unconfirmed(&digest, now)?;
        let question = Question { token: token.into(), digest, client, is_known: true };
        let error = self.pending.ask(question, time);
        let goes_on = match error {
            AuthError::Pending => {
                known.is_unanswered || now < known.known_until.saturating_add(GRACE_SECONDS)
            }
            AuthError::Unavailable(_) => {
                self.tokens.record_unanswered(&digest);
                true
            }
            _ => false,
        };
        // It is looked at again in a second.
        Some(if goes_on {
            Ok(Credential::new(token, known.principal, now + 1, self.version))
        } else {
            Err(error)
        })
    }

    fn verify_certificate(
        &mut self,
        certificate: &ClientCertificate,
        AuthTime { turn, unix_seconds }: AuthTime,
    ) -> Result<Credential, AuthError> {
        let verified = self.authenticator.verify_certificate(certificate, unix_seconds)?;
        self.check_at.get_or_insert_with(|| turn.after(CHECK_INTERVAL));
        let Verified { principal, known_until } = verified;
        Ok(Credential::of_certificate(Arc::new(principal), known_until, self.version))
    }

    /// Returns the credential of a token if the request proves the key to which it is bound.
    #[inline]
    fn check_binding(
        &mut self,
        credential: Credential,
        sent: &TokenWithProof<'_>,
        time: AuthTime,
    ) -> Result<Credential, AuthError> {
        let needed = sent.proof.check(credential.principal(), self.proofs.is_some())?;
        if let Some((proof, thumbprint)) = needed {
            self.check_proof(&proof, sent, &credential, thumbprint, time)?;
        }
        Ok(credential)
    }

    /// Checks the proof of the key with this thumbprint, to which the token is bound, and uses it.
    #[cold]
    fn check_proof(
        &mut self,
        sent: &SentProof<'_>,
        &TokenWithProof { token, client, .. }: &TokenWithProof<'_>,
        credential: &Credential,
        thumbprint: &[u8; 32],
        AuthTime { turn, unix_seconds }: AuthTime,
    ) -> Result<(), AuthError> {
        let authenticator = Arc::clone(&self.authenticator);
        let principal = credential.principal();
        let Some(rules) = &authenticator.dpop else { return Err(NO_AUTHENTICATION) };
        let proof = rules.read(sent, token, thumbprint, unix_seconds)?;
        let Some(proofs) = &mut self.proofs else { return Err(NO_AUTHENTICATION) };
        proofs.check_nonce(rules, &proof, unix_seconds)?;
        match proofs.on_thread(&proof, principal, client, turn)? {
            Some(true) => {}
            Some(false) => return Err(INVALID_SIGNATURE),
            None => {
                self.take_check(turn)?;
                proof.verify_signature()?;
            }
        }
        let Some(proofs) = &self.proofs else { return Err(NO_AUTHENTICATION) };
        proofs.use_once(&proof, principal, client, unix_seconds)
    }

    /// Takes the check of a signature, or has the request wait for one.
    fn take_check(&mut self, turn: Instant) -> Result<(), AuthError> {
        if self.checks.take(turn) {
            return Ok(());
        }
        Err(if self.checks.can_wait() { AuthError::Pending } else { TOO_MANY_TOKENS })
    }

    fn complete(
        &mut self,
        token: &IntrospectedToken,
        time: AuthTime,
        counters: &mut AuthCounters,
    ) -> Vec<Key> {
        let waiting = self.pending.end(&token.digest);
        let verified = match &token.answer {
            Ok(status) => self.authenticator.verify_introspected(status, time.unix_seconds),
            Err(NotIntrospected::NoAnswer) => Err(NO_ANSWER),
            Err(NotIntrospected::TooMany) => Err(TOO_MANY_QUESTIONS),
        };
        match verified {
            Ok(verified) => {
                self.insert_introspected(token.digest, verified);
                counters.checks_verified += 1;
            }
            // Counted for each request that it refuses.
            Err(error) => {
                if !matches!(error, AuthError::Unavailable(_))
                    && self.tokens.was_introspected(&token.digest)
                {
                    self.tokens.forget(&token.digest);
                    // What was opened with it ends.
                    self.check_at = self.check_at.map(|_| Instant::ORIGIN);
                }
                self.pending.refuse(token.digest, error, time.unix_seconds);
            }
        }
        waiting
    }

    fn insert_introspected(&mut self, digest: TokenDigest, verified: Verified) {
        let Verified { principal, known_until } = verified;
        let rules = self.authenticator.introspection.as_ref();
        let grace = rules.map_or(0, |rules| rules.grace_seconds);
        let expires_at = principal.expires_at().unwrap_or(u64::MAX);
        let grace_until = known_until.saturating_add(grace).min(expires_at);
        self.tokens.insert_introspected(
            digest,
            Arc::new(principal),
            known_until,
            Some(grace_until),
        );
    }
}

const NO_AUTHENTICATION: AuthError = AuthError::InvalidRequest("this server has no authentication");
const TOO_MANY_TOKENS: AuthError =
    AuthError::Unavailable("too many new tokens at the moment; try again");
const NO_SUCH_KEY: InvalidToken =
    InvalidToken::new(TokenFault::Key, "the issuer has no key with the id of the token");
const NO_KEYS: AuthError = AuthError::Unavailable("the keys of the issuer are not known yet");
