//! The limit of failed tokens and handshakes of a client address (`rate.failures`), over all
//! shards.
//!
//! Invariant: an address that has reached the limit has no token verified until some time has
//! passed, whatever shard its requests reach.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::time::Instant;

use crate::connection::tls::HandshakeGuard;
use crate::guard::rate::ConnectionRates;
use crate::guard::rate::bucket::Quota;

#[expect(clippy::disallowed_types, reason = "locked for tokens that are not known, with a limit")]
type Mutex<T> = std::sync::Mutex<T>;

/// The failures of each address.
#[derive(Debug)]
pub struct FailureLimit {
    is_active: AtomicBool,
    rates: Mutex<ConnectionRates>,
}

impl Default for FailureLimit {
    /// Returns no limit.
    fn default() -> Self {
        Self::new(0, 0)
    }
}

impl FailureLimit {
    /// Creates the limit without a quota, for at most `keys_max` addresses.
    pub fn new(secret: u128, keys_max: usize) -> Self {
        let rates = Mutex::new(ConnectionRates::new(secret, keys_max));
        Self { is_active: AtomicBool::new(false), rates }
    }

    /// Sets the failures of each address; `None` ends the limit.
    pub fn install(&self, quota: Option<Quota>) {
        self.rates.lock().unwrap_or_else(PoisonError::into_inner).install(quota);
        self.is_active.store(quota.is_some(), Ordering::Release);
    }

    /// Returns whether an address may fail once more.
    ///
    /// # Errors
    ///
    /// The time after which it may.
    pub fn check(&self, client: Option<ClientAddress>, now: Instant) -> Result<(), Duration> {
        match self.limited(client) {
            Some(client) => self
                .rates
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .check(client, now.nanoseconds()),
            None => Ok(()),
        }
    }

    /// Counts a failure of an address.
    pub fn record(&self, client: Option<ClientAddress>, now: Instant) {
        if let Some(client) = self.limited(client) {
            let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
            rates.admit(client, now.nanoseconds()).ok();
        }
    }

    /// Returns the address if it is limited.
    fn limited(&self, client: Option<ClientAddress>) -> Option<ClientAddress> {
        client.filter(|_| self.is_active.load(Ordering::Acquire))
    }
}

impl HandshakeGuard for FailureLimit {
    fn admits(&self, client: Option<ClientAddress>, now: Instant) -> bool {
        self.check(client, now).is_ok()
    }

    fn record_failure(&self, client: Option<ClientAddress>, now: Instant) {
        self.record(client, now);
    }
}
