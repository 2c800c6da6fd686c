//! Requests of shards for keys of issuers, to the threads that fetch them.
//!
//! Invariants: an issuer is asked at most once in [`REFETCH_SECONDS`], or
//! [`FAILED_REFETCH_SECONDS`], however many tokens name keys that it does not have; a shard never
//! waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

/// Time between two requests for the keys of one issuer: tokens with keys that do not exist can
/// delay a new key by that much.
const REFETCH_SECONDS: u64 = 5;

/// [`REFETCH_SECONDS`] after a request that has failed.
const FAILED_REFETCH_SECONDS: u64 = 30;

/// Time after a fetch in which a key that is missing does not exist. It is asked for once all the
/// same, in case the issuer has just made it.
const FRESH_SECONDS: u64 = 5;

/// What a shard knows of the keys of an issuer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum KeyState {
    /// They are those of the issuer: a key that is missing does not exist.
    Current,
    /// They are being fetched.
    Pending,
}

/// Where the keys of an issuer come from, and whether they are being fetched. Shared by all shards.
#[derive(Debug, Default)]
pub(super) struct IssuerState {
    /// Whether they come from a URL.
    pub(super) is_remote: bool,
    /// Number of requests of all shards.
    pub(super) requests: AtomicU64,
    /// How many of them ended before the last failure.
    pub(super) failed: AtomicU64,
    /// How many of them the last keys answer.
    pub(super) answered: AtomicU64,
    /// Whether keys have been read at all.
    pub(super) has_keys: AtomicBool,
    /// Seconds since 1970 of the last fetch that has succeeded.
    pub(super) fetched_at: AtomicU64,
    /// Seconds since 1970 of the last request.
    pub(super) requested_at: AtomicU64,
    /// Wakes the thread that fetches them, if they come from a URL; a full channel has woken it
    /// already.
    pub(super) wake: Option<SyncSender<()>>,
}

impl IssuerState {
    /// Wakes the thread that fetches the keys.
    pub(super) fn wake(&self) {
        if let Some(wake) = &self.wake {
            wake.try_send(()).ok();
        }
    }

    /// Returns whether a request has not ended.
    pub(super) fn is_requested(&self) -> bool {
        let [answered, failed] =
            [&self.answered, &self.failed].map(|it| it.load(Ordering::Acquire));
        self.requests.load(Ordering::Acquire) > answered.max(failed)
    }
}

/// Requests keys; one for each shard.
#[derive(Clone, Debug)]
pub(super) struct KeyRequests {
    pub(super) issuers: Arc<[IssuerState]>,
}

impl KeyRequests {
    /// Requests the keys of an issuer, if a token names one that is not known. The keys that the
    /// shard has answer the first `answered` requests.
    pub(super) fn request(&self, issuer: usize, answered: u64, unix_seconds: u64) -> KeyState {
        let Some(state) = self.issuers.get(issuer).filter(|state| state.is_remote) else {
            return KeyState::Current;
        };
        let requested_at = state.requested_at.load(Ordering::Relaxed);
        let has_failed =
            state.failed.load(Ordering::Acquire) > state.answered.load(Ordering::Acquire);
        let interval = if has_failed { FAILED_REFETCH_SECONDS } else { REFETCH_SECONDS };
        if unix_seconds.saturating_sub(requested_at) >= interval {
            state.requested_at.store(unix_seconds, Ordering::Relaxed);
            state.requests.fetch_add(1, Ordering::AcqRel);
            state.wake();
        }
        let ended = answered.max(state.failed.load(Ordering::Acquire));
        let is_pending = state.requests.load(Ordering::Acquire) > ended;
        let age = unix_seconds.saturating_sub(state.fetched_at.load(Ordering::Acquire));
        if is_pending && age >= FRESH_SECONDS { KeyState::Pending } else { KeyState::Current }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[test]
    fn unknown_key_is_requested_once_in_interval() {
        let (wake, woken) = sync_channel(1);
        let remote = IssuerState { is_remote: true, wake: Some(wake), ..IssuerState::default() };
        let issuers: Arc<[IssuerState]> = [IssuerState::default(), remote].into();
        let requests = KeyRequests { issuers: Arc::clone(&issuers) };
        assert_eq!(requests.request(0, 0, 100), KeyState::Current);
        assert_eq!(requests.request(7, 0, 100), KeyState::Current);
        assert_eq!(requests.request(1, 0, 100), KeyState::Pending);
        assert!(woken.try_recv().is_ok());
        assert_eq!(requests.request(1, 0, 101), KeyState::Pending);
        // The keys are here.
        issuers[1].answered.store(1, Ordering::Release);
        assert_eq!(requests.request(1, 1, 104), KeyState::Current);
        assert!(woken.try_recv().is_err());
        assert_eq!(requests.request(1, 1, 105), KeyState::Pending);
        assert!(woken.try_recv().is_ok());
        issuers[1].failed.store(2, Ordering::Release);
        assert_eq!(requests.request(1, 1, 134), KeyState::Current);
        assert!(woken.try_recv().is_err());
        assert_eq!(requests.request(1, 1, 135), KeyState::Pending);
        assert!(woken.try_recv().is_ok());
    }

    #[test]
    fn fresh_key_set_lacks_unknown_keys() {
        let (wake, woken) = sync_channel(1);
        let state = IssuerState { is_remote: true, wake: Some(wake), ..IssuerState::default() };
        state.fetched_at.store(100, Ordering::Release);
        let requests = KeyRequests { issuers: [state].into() };
        assert_eq!(requests.request(0, 0, 100), KeyState::Current);
        assert!(woken.try_recv().is_ok());
        assert_eq!(requests.request(0, 0, 104), KeyState::Current);
        assert_eq!(requests.request(0, 0, 105), KeyState::Pending);
    }
}
