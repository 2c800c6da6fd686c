//! Checks of tokens and of proofs of keys on a shard: how many signatures a turn verifies, which
//! proofs were used before, and how checks and refusals are counted.
//!
//! A request with an unknown token or a proof beyond the limit of a turn waits for a later turn, so
//! that those that need no check are answered meanwhile. Invariants: a turn has at most its number
//! of checks for requests; while requests wait, half of them are theirs, so that the first
//! [`WAITING_MAX`] are served within that many turns; a further one does not wait.
//!
//! Open connections whose credential is to be verified again have half as many checks of their own
//! in each turn, so that requests and open connections do not keep each other from a check. Those
//! that need no signature check, because of an API key, a certificate or a token that was verified
//! since, take none: up to [`OPEN_MAX`] of them are visited in a turn, so that withdrawn
//! credentials of many connections end within some turns.
//!
//! Proofs (DPoP, RFC 9449) have nonces, and are known on all shards. Invariants: a proof is
//! accepted once, by one shard, as long as it could be sent again; while more proofs are remembered
//! than the limit admits, or more of one caller or of one network than its share, further ones are
//! refused, not forgotten.

use std::collections::VecDeque;
use std::fmt;
use std::hash::Hasher;
use std::net::SocketAddr;
use std::sync::Arc;

use corelane_base::client_address::ClientAddress;
use corelane_base::holders::PlaceOwner;
use corelane_base::principal::Principal;
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_protocol::error::{Error, ErrorKind};
use siphasher::sip128::{Hasher128, SipHasher13};

use super::Credential;
use super::proof_threads::{AskedProof, ProofReport, ProofThreads, ThreadProofs, VerifiedProof};
use crate::guard::auth::dpop::{DpopRules, Nonces, ReadProof};
use crate::guard::auth::{AuthError, TokenFault};
use crate::guard::secure_rng::{Purpose, SecureRng};
use crate::guard::state_cipher::KEY_BYTES;
use crate::server::used_digests::{UsedDigest, UsedDigests};
use crate::telemetry::auth_event::AuthEvent;
use crate::telemetry::counters::AuthCounters;
use crate::telemetry::event::Event;

/// Requests that wait, at most.
const WAITING_MAX: usize = 1_024;
/// Open connections that are visited in one turn.
const OPEN_MAX: u16 = 256;

/// The checks of one shard.
#[derive(Debug)]
pub(super) struct TurnChecks {
    per_turn_max: u16,
    /// Number of checks in the turn that began at `turn`.
    taken: u16,
    turn: Instant,
    /// Connections whose request waits, in the order in which they came.
    waiting: VecDeque<Key>,
    /// How many of them are read again in this turn, before anything else.
    resumed: u16,
    /// Open connections whose credential is to be verified again.
    open: VecDeque<Key>,
    /// Checks that are left to them in this turn.
    left_to_open: u16,
    /// How many more of them are visited in this turn.
    visits_left: u16,
}

impl TurnChecks {
    pub(super) const fn new(per_turn_max: u16) -> Self {
        Self {
            per_turn_max,
            taken: 0,
            turn: Instant::ORIGIN,
            waiting: VecDeque::new(),
            resumed: 0,
            open: VecDeque::new(),
            left_to_open: 0,
            visits_left: 0,
        }
    }

    /// Takes a check. Returns `false` if there is none left.
    pub(super) fn take(&mut self, turn: Instant) -> bool {
        self.begin_turn(turn);
        if self.left_to_open > 0 {
            self.left_to_open -= 1;
            return true;
        }
        let is_resumed = self.resumed > 0;
        self.resumed = self.resumed.saturating_sub(1);
        let reserved = if is_resumed { 0 } else { self.reserved() };
        let is_left = self.taken.saturating_add(reserved) < self.per_turn_max;
        self.taken += u16::from(is_left);
        is_left
    }

    /// Returns whether one more request may wait.
    pub(super) fn can_wait(&self) -> bool {
        self.waiting.len() < WAITING_MAX
    }

    /// Has the request of a connection wait for a later turn.
    pub(super) fn wait(&mut self, key: Key) {
        if !self.waiting.contains(&key) {
            self.waiting.push_back(key);
        }
    }

    /// Returns whether requests wait.
    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes the connections whose request is read again in the turn that began at `turn`.
    pub(super) fn resume(&mut self, turn: Instant) -> Vec<Key> {
        self.begin_turn(turn);
        let left = self.per_turn_max.saturating_sub(self.taken);
        let count = self.waiting.len().min(left.into());
        let resumed: Vec<Key> = self.waiting.drain(..count).collect();
        self.resumed = u16::try_from(resumed.len()).unwrap_or(u16::MAX);
        resumed
    }

    /// Has the credential of an open connection verified again, in this turn or a later one.
    pub(super) fn push_open(&mut self, key: Key) {
        self.open.push_back(key);
    }

    /// Returns whether open connections wait for a check of their credential.
    #[inline]
    pub(super) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Gives open connections their checks in the turn that began at `turn`, before anything else.
    pub(super) fn begin_open(&mut self, turn: Instant) {
        self.begin_turn(turn);
        (self.left_to_open, self.visits_left) = (self.per_turn_max.div_ceil(2), OPEN_MAX);
    }

    /// Takes the next open connection whose credential is verified again in this turn, if there are
    /// checks left to it.
    pub(super) fn next_open(&mut self) -> Option<Key> {
        let next = match (self.left_to_open, self.visits_left) {
            (0, _) | (_, 0) => None,
            _ => self.open.pop_front(),
        };
        if next.is_some() {
            self.visits_left -= 1;
        } else {
            (self.left_to_open, self.visits_left) = (0, 0);
        }
        next
    }

    fn begin_turn(&mut self, turn: Instant) {
        if turn != self.turn {
            (self.turn, self.taken, self.resumed) = (turn, 0, 0);
            (self.left_to_open, self.visits_left) = (0, 0);
        }
    }

    /// Returns the checks that are left to requests that wait.
    fn reserved(&self) -> u16 {
        let half = self.per_turn_max.div_ceil(2);
        half.min(u16::try_from(self.waiting.len()).unwrap_or(half))
    }
}

/// What a shard checks proofs with; all shards share the proofs that were used.
pub(super) struct ProofChecks {
    used: Arc<UsedDigests>,
    threads: ProofThreads,
    /// Proofs that the threads verify; `None` before [`ProofChecks::set_shard`].
    on_threads: Option<ThreadProofs>,
    nonces: Nonces,
    /// Makes hashes that clients cannot foresee.
    hasher: SipHasher13,
}

impl ProofChecks {
    /// Creates the checks of a process with this secret.
    pub(super) fn new(
        used: Arc<UsedDigests>,
        threads: ProofThreads,
        secret: &[u8; KEY_BYTES],
    ) -> Self {
        let mut random = SecureRng::new(secret, Purpose::ProofKeys);
        let mut next = || random.next_u128().unwrap_or_default().to_le_bytes();
        let mut key = [0; KEY_BYTES];
        for part in key.chunks_exact_mut(size_of::<u128>()) {
            part.copy_from_slice(&next());
        }
        let (nonces, hasher) = (Nonces::new(&key), SipHasher13::new_with_key(&next()));
        Self { used, threads, on_threads: None, nonces, hasher }
    }

    /// Has the threads send to a shard what they find out.
    pub(super) fn set_shard(&mut self, report: ProofReport) {
        self.on_threads = Some(ThreadProofs::new(self.threads.clone(), report));
    }

    /// Begins the check of a request.
    #[inline]
    pub(super) fn begin_check(&mut self) {
        if let Some(threads) = &mut self.on_threads {
            threads.begin_check();
        }
    }

    /// Has a thread verify the proof of the request of a connection, which waits for that. Returns
    /// `false` if none does.
    pub(super) fn wait(&mut self, key: Key) -> bool {
        self.on_threads.as_mut().is_some_and(|threads| threads.wait(key))
    }

    /// Learns what a thread has found out. Returns the connections that wait for that.
    pub(super) fn complete(&mut self, verified: &VerifiedProof) -> Vec<Key> {
        self.on_threads.as_mut().map(|threads| threads.complete(verified)).unwrap_or_default()
    }

    /// Returns whether the signature of a proof of a caller is valid, if a thread has verified it.
    /// `None` if the shard is to verify it itself.
    ///
    /// # Errors
    ///
    /// [`AuthError::Pending`] if a thread does so while the request [waits](ProofChecks::wait),
    /// [`AuthError::Unavailable`] if too many are on threads, in all or of the caller or its
    /// network.
    pub(super) fn on_thread(
        &mut self,
        proof: &ReadProof<'_>,
        principal: &Principal,
        client: Option<ClientAddress>,
        turn: Instant,
    ) -> Result<Option<bool>, AuthError> {
        let Some(threads) = &mut self.on_threads else { return Ok(None) };
        let mut hasher = self.hasher;
        // The length separates both.
        let [message, signature] = proof.signed();
        hasher.write(&message.len().to_le_bytes());
        hasher.write(message.as_bytes());
        hasher.write(signature.as_bytes());
        let digest = hasher.finish128().as_u128();
        if let Some(is_valid) = threads.take_result(digest) {
            return Ok(Some(is_valid));
        }
        let holders =
            threads.holders_of(PlaceOwner { principal: Some(principal), address: client });
        if !threads.is_pending(digest) {
            if threads.is_rare(turn) {
                return Ok(None);
            }
            if !threads.has_room(holders) {
                return Err(TOO_MANY_ON_THREADS);
            }
        }
        let (owner, signature) = (self.used.holder_of(principal), proof.to_signature());
        threads.ask(AskedProof { owner, holders, digest, signature });
        Err(AuthError::Pending)
    }

    /// Returns the nonce that clients are to use.
    pub(super) fn nonce(&self, unix_seconds: u64) -> String {
        self.nonces.current(unix_seconds)
    }

    /// Checks the nonce of a proof, if it needs one.
    pub(super) fn check_nonce(
        &self,
        rules: &DpopRules,
        proof: &ReadProof<'_>,
        unix_seconds: u64,
    ) -> Result<(), AuthError> {
        match proof.nonce() {
            _ if !rules.needs_nonce => Ok(()),
            None => Err(AuthError::NonceNeeded("the proof needs a nonce of this server")),
            Some(nonce) if self.nonces.accepts(nonce, unix_seconds) => Ok(()),
            Some(_) => Err(AuthError::NonceNeeded("the nonce of the proof is not a current one")),
        }
    }

    /// Uses a proof of a caller whose signature is verified. No shard accepts it again.
    pub(super) fn use_once(
        &self,
        proof: &ReadProof<'_>,
        principal: &Principal,
        client: Option<ClientAddress>,
        unix_seconds: u64,
    ) -> Result<(), AuthError> {
        let (thumbprint, id) = proof.id();
        let mut hasher = self.hasher;
        hasher.write(thumbprint);
        hasher.write(id.as_bytes());
        let digest = hasher.finish128().as_u128();
        let owner = PlaceOwner { principal: Some(principal), address: client };
        match self.used.insert(digest, owner, unix_seconds, proof.usable_until()) {
            UsedDigest::First => Ok(()),
            UsedDigest::Present => Err(AuthError::InvalidProof("the proof was used before (jti)")),
            UsedDigest::NoRoom => Err(TOO_MANY_PROOFS),
            UsedDigest::NoRoomOfCaller => Err(TOO_MANY_OF_CALLER),
        }
    }
}

impl fmt::Debug for ProofChecks {
    /// Does not print the keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ProofChecks(..)")
    }
}

const TOO_MANY_PROOFS: AuthError =
    AuthError::Unavailable("too many proofs are remembered at the moment; try again");
const TOO_MANY_ON_THREADS: AuthError = AuthError::Unavailable(
    "too many proofs, in all or of this caller or its network, are verified at the moment; \
     try again",
);
const TOO_MANY_OF_CALLER: AuthError = AuthError::Unavailable(
    "too many proofs of this caller or its network are remembered at the moment; try again",
);

/// Counts a request that is not authenticated.
pub const fn count_refusal(counters: &mut AuthCounters, error: &AuthError) {
    let counter = match error {
        AuthError::Missing => &mut counters.missing_token,
        AuthError::InvalidToken(_) | AuthError::UnprovedToken(_) => &mut counters.invalid_token,
        AuthError::InvalidProof(_) => &mut counters.invalid_proof,
        AuthError::NonceNeeded(_) => &mut counters.missing_nonce,
        AuthError::InvalidRequest(_) => &mut counters.invalid_request,
        AuthError::Unavailable(_) | AuthError::Pending => &mut counters.unavailable,
        AuthError::TooManyFailures(_) => &mut counters.too_many_failures,
    };
    *counter += 1;
}

/// Returns the error for a request of MCP that is not authenticated. `missing`: its message if the
/// request has no token.
pub fn refusal_error(error: &AuthError, missing: &'static str) -> Error {
    match error {
        AuthError::Missing => Error::unauthorized(missing),
        _ if error.is_expired() => Error::token_expired(error.detail()),
        AuthError::InvalidToken(_)
        | AuthError::UnprovedToken(_)
        | AuthError::InvalidProof(_)
        | AuthError::NonceNeeded(_)
        | AuthError::InvalidRequest(_) => Error::unauthorized(error.detail()),
        AuthError::Unavailable(_) | AuthError::Pending => {
            Error::new(ErrorKind::TooManyRequests, error.unavailable_reason())
                .with_data(r#"{"retryable":true,"retryAfterMs":1000}"#)
        }
        AuthError::TooManyFailures(retry_after) => {
            let milliseconds = retry_after.as_nanos().div_ceil(1_000_000).max(1);
            let message = format!("{}; retry in {milliseconds} ms", error.detail());
            let data = format!(r#"{{"retryable":true,"retryAfterMs":{milliseconds}}}"#);
            Error::new(ErrorKind::RateLimited, message).with_data(data)
        }
    }
}

/// Returns the error for a message of the parity dialect that is not authenticated: the same on
/// every transport.
pub fn parity_refusal_error(error: &AuthError) -> Error {
    refusal_error(error, MISSING_PARITY_TOKEN)
}

const MISSING_PARITY_TOKEN: &str =
    "a token is needed: send auth_token in the handshake, or Authorization over HTTP";

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
        AuthError::Missing
        | AuthError::InvalidRequest(_)
        | AuthError::Pending
        | AuthError::TooManyFailures(_) => return,
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

#[cfg(test)]
mod tests {
    use corelane_base::slab::Slab;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_milliseconds(ms)
    }

    fn keys(count: usize) -> Vec<Key> {
        let mut slab = Slab::new(count);
        (0..count).map(|_| slab.insert(()).unwrap()).collect()
    }

    #[test]
    fn turn_has_a_limited_number_of_checks() {
        let mut checks = TurnChecks::new(3);
        let taken = |checks: &mut TurnChecks, ms| {
            [(); 5].map(|()| checks.take(at(ms))).iter().filter(|it| **it).count()
        };
        assert_eq!((taken(&mut checks, 1), taken(&mut checks, 2)), (3, 3));
    }

    #[test]
    fn waiting_requests_are_resumed_in_order() {
        let (mut checks, keys) = (TurnChecks::new(4), keys(6));
        for key in &keys {
            checks.wait(*key);
            checks.wait(*key);
        }
        // New ones get half of the checks.
        assert!(checks.take(at(1)) && checks.take(at(1)));
        assert!(!checks.take(at(1)) && !checks.take(at(1)));
        assert_eq!(checks.resume(at(1)), keys[..2]);
        assert!(checks.take(at(1)) && checks.take(at(1)));
        assert!(!checks.take(at(1)));
        assert_eq!(checks.resume(at(2)), keys[2..]);
        assert!(!checks.has_waiting() && checks.resume(at(2)).is_empty());
    }

    #[test]
    fn only_check_is_for_waiting_request() {
        let (mut checks, keys) = (TurnChecks::new(1), keys(1));
        checks.wait(keys[0]);
        assert!(!checks.take(at(1)));
        assert_eq!(checks.resume(at(1)), keys);
        assert!(checks.take(at(1)));
    }

    #[test]
    fn open_connections_have_checks_of_their_own() {
        let (mut checks, keys) = (TurnChecks::new(4), keys(3));
        for key in &keys {
            checks.push_open(*key);
        }
        while checks.take(at(1)) {}
        checks.begin_open(at(1));
        for key in &keys[..2] {
            assert_eq!(checks.next_open(), Some(*key));
            assert!(checks.take(at(1)));
        }
        assert_eq!(checks.next_open(), None);
        assert!(!checks.take(at(1)) && checks.has_open());
        checks.begin_open(at(2));
        assert_eq!((checks.next_open(), checks.next_open()), (Some(keys[2]), None));
        assert!(!checks.has_open());
        // What they have not used is not left to requests.
        assert_eq!([(); 5].map(|()| checks.take(at(2))), [true, true, true, true, false]);
    }

    #[test]
    fn open_connections_without_check_are_visited_together() {
        let (mut checks, keys) = (TurnChecks::new(1), keys(300));
        for key in &keys {
            checks.push_open(*key);
        }
        let visited = |checks: &mut TurnChecks, ms| {
            checks.begin_open(at(ms));
            std::iter::from_fn(|| checks.next_open()).count()
        };
        assert_eq!((visited(&mut checks, 1), visited(&mut checks, 2)), (256, 44));
    }

    #[test]
    fn waiting_requests_are_bounded() {
        let mut checks = TurnChecks::new(1);
        for key in keys(WAITING_MAX) {
            assert!(checks.can_wait());
            checks.wait(key);
        }
        assert!(!checks.can_wait());
    }
}
