//! How many requests a caller may send, and how many connections an address may open.
//!
//! [`limiter`] decides by rules ([`rules`]); the state of a key is one [`bucket`] in a table of
//! fixed size, found by a hash under a secret. Times are nanoseconds of a monotonic clock.
//!
//! A rule whose burst is below four times the shards is counted in one table of all shards
//! ([`tables::SmallBursts`]), others by shares.
//!
//! Invariants: the shares of all shards add up to the limit; memory does not grow with the number
//! of callers; a flood of new keys neither removes the state of another key nor evades the limits.

pub mod bucket;

pub mod rules;

mod known_keys;

pub mod tables;

pub mod limiter;

#[cfg(test)]
mod tests;

use std::hash::{Hash, Hasher};
use std::num::NonZeroU32;
use std::time::Duration;

use corelane_base::client_address::ClientAddress;

use self::bucket::{Bucket, Quota, Share};
use self::tables::{BucketTable, KeyedHash};

/// The connections that each address has opened lately, or what else it is limited in, over all
/// shards.
#[derive(Debug)]
pub struct ConnectionRates {
    share: Option<Share>,
    table: BucketTable,
    keys_max: usize,
    hash: KeyedHash,
    /// The bucket of addresses that have no place in the table.
    overflow: Bucket,
}

impl ConnectionRates {
    /// Creates the limit without a quota: every connection is admitted. `secret` hides from clients
    /// which addresses take the same places.
    pub fn new(secret: u128, keys_max: usize) -> Self {
        let hash = KeyedHash::new(secret);
        let (table, overflow) = (BucketTable::default(), Bucket::default());
        Self { share: None, table, keys_max, hash, overflow }
    }

    /// Sets the connections of each address.
    pub fn install(&mut self, quota: Option<Quota>) {
        let share = quota.map(|quota| quota.share_of(NonZeroU32::MIN));
        if share == self.share {
            return;
        }
        self.table = match share {
            Some(_) => BucketTable::new(self.keys_max),
            None => BucketTable::default(),
        };
        (self.share, self.overflow) = (share, Bucket::default());
    }

    /// Returns whether a connection would be admitted, and counts nothing.
    ///
    /// # Errors
    ///
    /// The time after which the address may open another one.
    pub fn check(&mut self, address: ClientAddress, now: u64) -> Result<(), Duration> {
        let Some(share) = self.share else { return Ok(()) };
        let key = self.key_of(address);
        match self.table.place(key, now) {
            Some(entry) => entry.bucket.clone().take(share, now),
            None => self.overflow.clone().take(share, now),
        }
    }

    /// Admits a connection.
    ///
    /// # Errors
    ///
    /// The time after which the address may open another one.
    pub fn admit(&mut self, address: ClientAddress, now: u64) -> Result<(), Duration> {
        let Some(share) = self.share else { return Ok(()) };
        let key = self.key_of(address);
        match self.table.place(key, now) {
            Some(entry) => entry.bucket.take(share, now),
            None => self.overflow.take(share, now),
        }
    }

    fn key_of(&self, address: ClientAddress) -> u64 {
        let mut hasher = self.hash.hasher();
        address.hash(&mut hasher);
        hasher.finish()
    }
}
