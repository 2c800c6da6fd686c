//! The buckets of rules with a small burst: one table for all shards, so that the limit holds
//! exactly, whichever shards the requests reach.
//!
//! Shares of such a rule would be below a few requests each: a caller whose requests reach the
//! wrong shards would be refused early.

use std::fmt;
use std::time::Duration;

use super::bucket::Share;
use super::table::BucketTable;

/// The table of all shards.
#[derive(Debug, Default)]
pub struct SmallBursts {
    table: BucketTable,
    /// The latest time of a request. The turns of shards begin at different times.
    now: u64,
}

/// Gives one shard at a time the table.
pub trait SmallBurstAccess: fmt::Debug {
    /// Calls `run` with the table, once.
    fn access(&self, run: &mut dyn FnMut(&mut SmallBursts));
}

impl SmallBursts {
    /// Makes room for `keys_max` keys, unless there is some. Cost: 48 bytes each.
    pub(super) fn reserve(&mut self, keys_max: usize) {
        if self.table.is_empty() {
            self.table = BucketTable::new(keys_max);
        }
    }

    /// Takes a request of a key; `None` if no place is free for it.
    pub(super) fn take(
        &mut self,
        key: u64,
        share: Share,
        now: u64,
    ) -> Option<Result<(), Duration>> {
        self.now = self.now.max(now);
        let entry = self.table.place(key, self.now)?;
        Some(entry.bucket.take(share, self.now))
    }

    /// Gives back what was taken for a key. Returns whether it has a bucket.
    pub(super) fn put_back(&mut self, key: u64, share: Share) -> bool {
        match self.table.find(key) {
            Some(entry) => entry.bucket.put_back(share),
            None => return false,
        }
        true
    }

    /// Returns the number of keys that have sent requests lately. Cost: visits the whole table.
    pub fn keys(&self, now: u64) -> usize {
        self.table.len(now)
    }
}
