//! The buckets of keys that have sent requests lately: the table of a shard, and that of all shards
//! for rules with a small burst.
//!
//! Shares of such a rule would be below a few requests each: a caller whose requests reach the
//! wrong shards would be refused early.
//!
//! Invariants: the memory is fixed; a key that is not in the table has a full bucket; a bucket is
//! replaced only once it is full again. A flood of new keys cannot remove the bucket of another
//! one: what finds no place is limited together ([`super::limiter::RateLimiter`]).

use std::fmt;
use std::time::Duration;

use siphasher::sip::SipHasher13;

use super::bucket::{Bucket, Share};

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

/// Makes hashes that clients cannot foresee, so that they cannot choose keys that collide.
#[derive(Clone, Copy)]
pub(super) struct KeyedHash(SipHasher13);

impl KeyedHash {
    pub(super) fn new(secret: u128) -> Self {
        Self(SipHasher13::new_with_key(&secret.to_le_bytes()))
    }

    /// Hashes numbers. Cost: about half of that of a hasher.
    #[inline]
    pub(super) fn of_words<const COUNT: usize>(&self, words: [u64; COUNT]) -> u64 {
        self.0.hash(words.map(u64::to_le_bytes).as_flattened())
    }

    /// Returns a hasher that has hashed nothing.
    #[inline]
    pub(super) const fn hasher(&self) -> SipHasher13 {
        self.0
    }
}

impl fmt::Debug for KeyedHash {
    /// Does not print the secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("KeyedHash(..)")
    }
}

/// Places that a key may take in each of its two sets.
const WAYS: usize = 8;

/// A key with its bucket.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BucketEntry {
    /// Hash of the key under a secret; zero if the place was never taken.
    key: u64,
    pub(super) bucket: Bucket,
    /// When the shares of other shards were last requested; `None` before the first time.
    requested_at: Option<u64>,
    /// Requests since then, and whether there were any since the last gift.
    demand: u32,
    is_used: bool,
    /// Whether the session that has the key knows of it.
    is_recorded: bool,
    /// The shard to which the last gift went.
    last_requester: Option<u16>,
}

impl BucketEntry {
    /// Counts a request. Returns the requests since other shards were last asked if they are to be
    /// asked now: the bucket is low, and that was not done within `interval`.
    #[inline]
    pub(super) fn count_request(&mut self, is_low: bool, interval: u64, now: u64) -> Option<u32> {
        self.is_used = true;
        self.demand = self.demand.saturating_add(1);
        let is_due =
            is_low && self.requested_at.is_none_or(|at| now.saturating_sub(at) >= interval);
        if !is_due {
            return None;
        }
        self.requested_at = Some(now);
        Some(std::mem::take(&mut self.demand))
    }

    /// Returns whether the session that has the key does not know of it yet, but from now on.
    #[inline]
    pub(super) const fn record(&mut self) -> bool {
        !std::mem::replace(&mut self.is_recorded, true)
    }

    /// Counts a gift to a shard. Returns whether all may be given: there was no request here since
    /// the last gift, and that went to the same shard.
    pub(super) fn count_gift(&mut self, requester: u16) -> bool {
        let is_same = self.last_requester.replace(requester).is_none_or(|last| last == requester);
        !std::mem::take(&mut self.is_used) && is_same
    }
}

/// A table of fixed size in which a key has 16 possible places.
#[derive(Debug, Default)]
pub(super) struct BucketTable {
    entries: Box<[BucketEntry]>,
}

impl BucketTable {
    /// Creates a table of at most `keys_max` keys, and at least 16. Cost: 48 bytes each.
    pub(super) fn new(keys_max: usize) -> Self {
        let sets = (keys_max / WAYS).max(2);
        let sets = if sets.is_power_of_two() { sets } else { sets.next_power_of_two() / 2 };
        Self { entries: vec![BucketEntry::default(); sets * WAYS].into() }
    }

    /// Returns whether it has no places.
    pub(super) const fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the entry of a key, a new one if it has none, or `None` if no place is free.
    #[inline]
    pub(super) fn place(&mut self, key: u64, now: u64) -> Option<&mut BucketEntry> {
        let key = key.max(1);
        let first = self.set_of(key);
        let found = self.find_in(first, key);
        let place = match found {
            Some(place) => place,
            None => self.find_or_add(key, now)?,
        };
        Some(&mut self.entries[place])
    }

    /// Returns the entry of a key that is in the table.
    pub(super) fn find(&mut self, key: u64) -> Option<&mut BucketEntry> {
        let key = key.max(1);
        let sets = [self.set_of(key), self.set_of(key.rotate_left(32))];
        let place = sets.into_iter().find_map(|set| self.find_in(set, key))?;
        Some(&mut self.entries[place])
    }

    /// Frees the place of a key, if it has one.
    pub(super) fn remove(&mut self, key: u64) {
        if let Some(entry) = self.find(key) {
            *entry = BucketEntry::default();
        }
    }

    /// Returns the number of keys whose bucket is not full at `now`. Cost: visits each place.
    pub(super) fn len(&self, now: u64) -> usize {
        self.entries.iter().filter(|entry| entry.key != 0 && !entry.bucket.is_full(now)).count()
    }

    fn find_or_add(&mut self, key: u64, now: u64) -> Option<usize> {
        let [first, second] = [self.set_of(key), self.set_of(key.rotate_left(32))];
        if let Some(place) = self.find_in(second, key) {
            return Some(place);
        }
        let mut places = (first..first + WAYS).chain(second..second + WAYS);
        let is_free = |entry: &BucketEntry| entry.bucket.is_full(now);
        let place = places.find(|place| self.entries.get(*place).is_some_and(is_free))?;
        self.entries[place] = BucketEntry { key, ..BucketEntry::default() };
        Some(place)
    }

    #[inline]
    fn find_in(&self, set: usize, key: u64) -> Option<usize> {
        let entries = self.entries.get(set..set + WAYS)?;
        entries.iter().position(|entry| entry.key == key).map(|way| set + way)
    }

    /// Returns the first place of the set that the low bits of a hash choose.
    #[inline]
    fn set_of(&self, key: u64) -> usize {
        let mask = (self.entries.len() / WAYS).saturating_sub(1);
        #[expect(clippy::cast_possible_truncation, reason = "the low bits choose the set")]
        let set = key as usize & mask;
        set * WAYS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::num::NonZeroU32;

    use corelane_base::random::Random;

    use crate::guard::rate::bucket::Quota;

    fn share() -> Share {
        let ten = NonZeroU32::new(10).unwrap();
        let quota = Quota { limit: ten, seconds: NonZeroU32::MIN, burst: ten };
        quota.share_of(NonZeroU32::MIN)
    }

    fn at(milliseconds: u64) -> u64 {
        milliseconds * 1_000_000
    }

    fn take(table: &mut BucketTable, key: u64, now: u64) -> Option<bool> {
        Some(table.place(key, now)?.bucket.take(share(), now).is_ok())
    }

    #[test]
    fn flood_of_keys_removes_no_other() {
        let mut table = BucketTable::new(1_024);
        let mut random = Random::seeded(7);
        while take(&mut table, 42, at(0)) == Some(true) {}
        let placed = (0..100_000).filter(|_| table.place(random.next_u64(), at(0)).is_some());
        // Each finds a place of a full bucket: none has taken anything.
        assert_eq!(placed.count(), 100_000);
        let mut taken = 0;
        for _ in 0..100_000 {
            taken += usize::from(take(&mut table, random.next_u64(), at(0)).is_some());
        }
        assert!((900..1_024).contains(&taken), "{taken}");
        assert_eq!(table.entries.len(), 1_024);
        assert_eq!(table.len(at(0)), taken + 1);
        assert_eq!(take(&mut table, 42, at(0)), Some(false));
    }

    #[test]
    fn place_of_full_bucket_is_taken_again() {
        let mut table = BucketTable::new(0);
        let taken = |table: &mut BucketTable, keys: std::ops::Range<u64>, now| {
            keys.filter(|key| take(table, key << 32 | key, at(now)).is_some()).count()
        };
        assert_eq!(taken(&mut table, 1..1_000, 0), 16);
        assert_eq!(taken(&mut table, 1_000..2_000, 99), 0);
        assert_eq!(taken(&mut table, 2_000..3_000, 100), 16);
        assert_eq!((table.len(at(100)), table.len(at(200))), (16, 0));
    }

    #[test]
    fn removed_key_leaves_its_place_to_another_one() {
        let mut table = BucketTable::new(0);
        let keys: Vec<u64> = (1..=16).map(|key| key << 32 | key).collect();
        assert!(keys.iter().all(|key| take(&mut table, *key, at(0)).is_some()));
        let other = keys[15] + keys[15];
        assert_eq!(take(&mut table, other, at(0)), None);
        table.remove(keys[3]);
        table.remove(99);
        assert_eq!((table.len(at(0)), table.find(keys[3]).is_some()), (15, false));
        assert_eq!(take(&mut table, other, at(0)), Some(true));
    }

    #[test]
    fn known_key_is_found_in_either_set() {
        let mut table = BucketTable::new(1 << 10);
        let mut random = Random::seeded(1);
        let keys: Vec<u64> = (0..900).map(|_| random.next_u64()).collect();
        let mut placed: Vec<u64> = keys.clone();
        placed.retain(|key| take(&mut table, *key, at(0)) == Some(true));
        assert!(placed.len() > 860, "{}", placed.len());
        assert!(placed.iter().all(|key| table.find(*key).is_some()));
        assert!(table.find(random.next_u64()).is_none());
    }

    #[test]
    fn table_without_places_has_no_entry() {
        let mut table = BucketTable::default();
        assert!(table.place(1, at(0)).is_none() && table.find(1).is_none());
    }
}
