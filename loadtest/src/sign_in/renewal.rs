//! The tokens of a run: obtained before it, renewed by a thread during it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use corelane_engine::clock::unix_ms;

use super::{AccessToken, SignInConfig, SignInError};
use crate::mcp::Secret;

/// Shortest time between two tokens of the same credentials.
const RENEWAL_INTERVAL_MIN: Duration = Duration::from_millis(200);
/// Delay before a renewal that has failed is tried again; doubled after each failure.
const RETRY_AFTER: Duration = Duration::from_secs(1);
const RETRY_AFTER_MAX: Duration = Duration::from_mins(1);
/// Clients that sign in at a time.
const CONCURRENCY: usize = 8;

/// A token for the users of some credentials.
#[derive(Clone, Debug)]
pub(crate) struct NewToken {
    /// Index of the credentials.
    pub(crate) credentials: usize,
    /// Value of `Authorization`.
    pub(crate) authorization: Arc<Secret>,
}

/// Renews the tokens of a run until it is dropped.
#[derive(Debug)]
pub(crate) struct TokenRenewal {
    /// Ends the thread when it is dropped.
    _stop: Sender<()>,
    failures: Receiver<String>,
}

/// Credentials with their token.
struct Renewable {
    credentials: usize,
    authorization: Arc<Secret>,
    /// In milliseconds since 1970-01-01 UTC; `None` for never.
    renew_at_ms: Option<u64>,
    /// Delay before the next attempt if one fails.
    retry_after: Duration,
}

impl TokenRenewal {
    /// Obtains a token for each of the credentials `used`, sends it to each of the load threads and
    /// begins to renew them.
    ///
    /// # Errors
    ///
    /// If one of them gets no token.
    pub(crate) fn start(
        sign_in: &SignInConfig,
        used: &BTreeSet<usize>,
        is_stopped: impl Fn() -> bool + Sync,
        load_threads: Vec<Sender<NewToken>>,
    ) -> Result<Self, SignInError> {
        let tokens = obtain_all(sign_in, used, is_stopped)?;
        let tokens = used.iter().zip(tokens);
        let renewable = tokens.map(|(&credentials, token)| {
            let token = Renewable::new(credentials, token);
            send(&load_threads, &token);
            token
        });
        let mut renewable: Vec<Renewable> = renewable.collect();
        let sign_in = sign_in.clone();
        let (stop_tx, stop_rx) = channel::<()>();
        let (failure_tx, failures) = channel();
        let renew = move || {
            while let Some(due) = next_due(&mut renewable, &stop_rx) {
                match due.renew(&sign_in) {
                    Ok(()) => send(&load_threads, due),
                    // The run may have ended meanwhile.
                    Err(why) => failure_tx.send(why).unwrap_or(()),
                }
            }
        };
        let thread = thread::Builder::new().name("sign-in".into()).spawn(renew);
        thread.map_err(|error| {
            SignInError::Refused(format!("no thread renews the tokens of oauth: {error}"))
        })?;
        Ok(Self { _stop: stop_tx, failures })
    }

    /// Returns a note if tokens could not be renewed so far.
    pub(crate) fn note(&self) -> Option<String> {
        let failures: Vec<String> = self.failures.try_iter().collect();
        let (count, last) = (failures.len(), failures.last()?);
        Some(format!(
            "{count} renewals of access tokens failed, and requests went on with the old ones; \
             the last: {last}"
        ))
    }
}

/// Obtains a token for each of the credentials `used`, several at a time; for the first of them if
/// the run is stopped meanwhile.
fn obtain_all(
    sign_in: &SignInConfig,
    used: &BTreeSet<usize>,
    is_stopped: impl Fn() -> bool + Sync,
) -> Result<Vec<AccessToken>, SignInError> {
    let indices: Vec<usize> = used.iter().copied().collect();
    let obtain = |indices: &[usize]| {
        let tokens = indices.iter().take_while(|_| !is_stopped());
        tokens.map(|index| sign_in.sign_in(*index)).collect::<Result<Vec<_>, _>>()
    };
    let mut all = Vec::with_capacity(indices.len());
    thread::scope(|scope| {
        let parts = indices.chunks(indices.len().div_ceil(CONCURRENCY).max(1));
        let parts: Vec<_> = parts.map(|part| scope.spawn(move || obtain(part))).collect();
        for part in parts {
            let tokens = part.join().unwrap_or_else(|_| {
                Err(SignInError::Refused("a thread that signs in has failed".into()))
            });
            all.extend(tokens?);
        }
        Ok(all)
    })
}

fn send(load_threads: &[Sender<NewToken>], token: &Renewable) {
    for thread in load_threads {
        let authorization = Arc::clone(&token.authorization);
        // A thread that has ended needs none.
        thread.send(NewToken { credentials: token.credentials, authorization }).unwrap_or(());
    }
}

/// Waits until a token is due and returns it, or `None` when the run has ended.
fn next_due<'a>(tokens: &'a mut [Renewable], stop: &Receiver<()>) -> Option<&'a mut Renewable> {
    let due = tokens.iter_mut().filter(|token| token.renew_at_ms.is_some());
    let Some(due) = due.min_by_key(|token| token.renew_at_ms) else {
        stop.recv().unwrap_or(());
        return None;
    };
    let wait = Duration::from_millis(due.renew_at_ms?.saturating_sub(unix_ms()));
    (stop.recv_timeout(wait) == Err(RecvTimeoutError::Timeout)).then_some(due)
}

impl Renewable {
    fn new(credentials: usize, token: AccessToken) -> Self {
        let AccessToken { authorization, renew_at } = token;
        let renew_at_ms = renew_at
            .map(|seconds| seconds.saturating_mul(1_000).max(after_now(RENEWAL_INTERVAL_MIN)));
        Self { credentials, authorization, renew_at_ms, retry_after: RETRY_AFTER }
    }

    /// Replaces the token.
    ///
    /// # Errors
    ///
    /// Why there is no new one, in one line without secrets. The old one stays, and the renewal is
    /// due again later.
    fn renew(&mut self, sign_in: &SignInConfig) -> Result<(), String> {
        let why = match sign_in.sign_in(self.credentials) {
            Ok(token) if token.authorization != self.authorization => {
                *self = Self::new(self.credentials, token);
                return Ok(());
            }
            Ok(_) => "the authorization server has issued no new one".to_owned(),
            Err(error) => error.to_string(),
        };
        self.renew_at_ms = Some(after_now(self.retry_after));
        self.retry_after = (self.retry_after * 2).min(RETRY_AFTER_MAX);
        Err(why)
    }
}

/// Returns the time after `delay`, in milliseconds since 1970-01-01 UTC.
fn after_now(delay: Duration) -> u64 {
    unix_ms().saturating_add(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
}
