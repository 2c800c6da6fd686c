//! What may be used once, whichever shard it comes to: numbers of this process ([`ReplayFilter`]),
//! and digests of what others have issued, each until a time ([`ExpiringSet`]).
//!
//! No call blocks, and the memory of both is fixed by their `new`. Checked under `loom` by
//! `tests/engine/mesh_loom.rs`.
//!
//! # Numbers
//!
//! Numbers are issued in order by one counter, and need one bit each. 32 consecutive numbers share
//! a word of a fixed table. A word is an epoch and 32 bits, updated by compare-and-swap; it belongs
//! to the highest epoch of which a number was redeemed, and redeeming a number of a later epoch
//! takes it over.
//!
//! ```text
//!   number  =  epoch (32 bits)  ·  word (of the table)  ·  bit (32)
//!   word    =  epoch (32 bits)  |  a bit for each of its 32 numbers that was redeemed
//! ```
//!
//! Invariants: a number is redeemed at most once, by the first caller, in every interleaving; a
//! number whose word belongs to a later epoch is refused. The filter does not know time: issuers
//! bound the lifetime of their numbers elsewhere, and the table must hold the numbers of one
//! lifetime.
//!
//! # Digests
//!
//! A fixed table of words in buckets of [`BUCKET_WORDS`]. A digest belongs to one bucket and takes
//! any word of it, by compare-and-swap; a word whose time has passed is free.
//!
//! ```text
//!   word  =  end (20 bits, units of time modulo 2^20)  |  44 bits of the digest
//! ```
//!
//! Invariants: of several callers with the same digest at most one is the first, in every
//! interleaving; callers at the same moment may all be told that it is present. Two digests are
//! taken for the same with a probability of 2^-39, provided that clients cannot choose them: hash
//! with a secret.

use super::sync::{AtomicU64, Ordering, fence, zeroed_words};

/// A set of digests of all shards.
#[derive(Debug)]
pub struct ExpiringSet {
    words: Box<[AtomicU64]>,
}

/// The result of adding a digest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InsertResult {
    /// It was not in the set, and is now.
    First,
    /// It is in the set already.
    Present,
    /// Its bucket is full: nothing is known of it.
    Full,
}

/// The longest time for which a digest is kept, in units.
pub(super) const KEPT_UNITS_MAX: u64 = 1 << 16;

impl ExpiringSet {
    /// Creates a set of at least `digests_max` digests: about one in a hundred thousand finds its
    /// bucket full at this number. Cost: 32 to 64 bytes a digest, in pages that use no memory
    /// before they are written.
    pub fn new(digests_max: usize) -> Self {
        let words = digests_max.saturating_mul(4).max(BUCKET_WORDS).next_power_of_two();
        Self { words: zeroed_words(words) }
    }

    /// Adds a digest at the time `now` until the time `until`, in units since 1970: seconds, or
    /// longer ones, always the same. It is kept for 65,536 of them at most: 18 hours of seconds.
    pub fn insert(&self, digest: u128, now: u64, until: u64) -> InsertResult {
        let until = until.clamp(now.saturating_add(1), now.saturating_add(KEPT_UNITS_MAX));
        let (bucket, tag) = self.place(digest);
        let is_tag = |word: u64| word & TAG == tag;
        loop {
            let mut free = None;
            for word in bucket {
                let seen = word.load(Ordering::Relaxed);
                match (is_live(seen, now), is_tag(seen)) {
                    (true, true) => return InsertResult::Present,
                    (true, false) => {}
                    (false, _) => free = free.or(Some((word, seen))),
                }
            }
            let Some((word, seen)) = free else { return InsertResult::Full };
            let added = until << TAG_BITS | tag;
            if word.compare_exchange(seen, added, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                // A caller with the same digest may have found another word free. Of two that have
                // both written before this fence, at least one sees the word of the other.
                fence(Ordering::SeqCst);
                let copies = bucket.iter().map(|word| word.load(Ordering::Relaxed));
                let copies = copies.filter(|word| is_live(*word, now) && is_tag(*word)).count();
                return if copies > 1 { InsertResult::Present } else { InsertResult::First };
            }
            // Another digest has taken the word concurrently.
        }
    }

    /// Returns the bucket of a digest, and its part of a word.
    fn place(&self, digest: u128) -> (&[AtomicU64], u64) {
        #[expect(clippy::cast_possible_truncation, reason = "each half is used by itself")]
        let (low, high) = (digest as u64, (digest >> 64) as u64);
        let buckets = self.words.len() / BUCKET_WORDS;
        #[expect(clippy::cast_possible_truncation, reason = "smaller than a length")]
        let start = (low % buckets as u64) as usize * BUCKET_WORDS;
        // Never zero, which is a word that was not written.
        (&self.words[start..start + BUCKET_WORDS], high & TAG | 1)
    }
}

/// Returns whether the time of a word has not passed.
const fn is_live(word: u64, now: u64) -> bool {
    let left = (word >> TAG_BITS).wrapping_sub(now) & TIME;
    word != 0 && left > 0 && left <= KEPT_UNITS_MAX
}

const TAG_BITS: u32 = 44;
const TAG: u64 = (1 << TAG_BITS) - 1;
const TIME: u64 = (1 << (u64::BITS - TAG_BITS)) - 1;

/// Words of a bucket: two cache lines.
const BUCKET_WORDS: usize = 16;

/// Issues numbers and records which of them were redeemed.
#[derive(Debug)]
pub struct ReplayFilter {
    issued: AtomicU64,
    words: Box<[AtomicU64]>,
}

/// The result of marking a number as used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum UseResult {
    /// The number was valid and is now used.
    First,
    /// The number was used before.
    Replayed,
    /// The number is so old that its record has been overwritten.
    Expired,
}

impl ReplayFilter {
    /// Creates a table that remembers at least `numbers_max` numbers, rounded up to 32 times a
    /// power of two. Cost: two bits a number.
    pub fn new(numbers_max: usize) -> Self {
        let words = numbers_max.div_ceil(NUMBERS_PER_WORD).next_power_of_two();
        Self { issued: AtomicU64::new(0), words: zeroed_words(words) }
    }

    /// Issues the next number; unique across threads.
    pub fn issue(&self) -> u64 {
        // Relaxed: only uniqueness matters.
        self.issued.fetch_add(1, Ordering::Relaxed)
    }

    /// Marks `number` as used, which [`ReplayFilter::issue`] returned.
    pub fn mark_used(&self, number: u64) -> UseResult {
        let (epoch, word, bit) = self.place(number);
        // Relaxed throughout: a word guards no other memory, and its changes have one modification
        // order.
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let bits = match (seen >> EPOCH_SHIFT).cmp(&epoch) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => seen & BITS,
                std::cmp::Ordering::Greater => return UseResult::Expired,
            };
            if bits & bit != 0 {
                return UseResult::Replayed;
            }
            let changed = epoch << EPOCH_SHIFT | bits | bit;
            match word.compare_exchange(seen, changed, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return UseResult::First,
                // Another number of this word was redeemed concurrently.
                Err(other) => seen = other,
            }
        }
    }

    /// Returns epoch, word and bit of a number. An epoch exceeds its 32 bits after 2^37 numbers for
    /// each word of the table: with a hundred thousand words, after centuries at a million a
    /// second.
    fn place(&self, number: u64) -> (u64, &AtomicU64, u64) {
        let block = number / NUMBERS_PER_WORD as u64;
        let words = self.words.len() as u64;
        #[expect(clippy::cast_possible_truncation, reason = "smaller than a length")]
        let word = &self.words[(block % words) as usize];
        debug_assert!(block / words <= BITS, "the issued numbers exceed the epoch's 32 bits");
        (block / words, word, 1 << (number % NUMBERS_PER_WORD as u64))
    }
}

const NUMBERS_PER_WORD: usize = 32;
const BITS: u64 = u32::MAX as u64;
const EPOCH_SHIFT: u32 = 32;
