//! Digests that any shard has seen, each until a time: what was used once is not accepted again.
//!
//! A fixed table of words in buckets of [`BUCKET_WORDS`]. A digest belongs to one bucket and takes
//! any word of it, by compare-and-swap; a word whose time has passed is free.
//!
//! ```text
//!   word  =  end (20 bits, seconds modulo 2^20)  |  44 bits of the digest
//! ```
//!
//! Invariants: of several callers with the same digest at most one is the first, in every
//! interleaving; callers at the same moment may all be told that it is present. No call blocks, and
//! the memory is fixed by [`ExpiringSet::new`]. Two digests are taken for the same with a
//! probability of 2^-39, provided that clients cannot choose them: hash with a secret.
//!
//! Checked under `loom` by `tests/engine/mesh_loom.rs`.

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

/// The longest time for which a digest is kept, in seconds.
pub(super) const KEPT_SECONDS_MAX: u64 = 1 << 16;

impl ExpiringSet {
    /// Creates a set of at least `digests_max` digests: about one in a hundred thousand finds its
    /// bucket full at this number. Cost: 32 to 64 bytes a digest, in pages that use no memory
    /// before they are written.
    pub fn new(digests_max: usize) -> Self {
        let words = digests_max.saturating_mul(4).max(BUCKET_WORDS).next_power_of_two();
        Self { words: zeroed_words(words) }
    }

    /// Adds a digest at the time `now` until the time `until`, in seconds since 1970; it is kept
    /// for 18 hours at most.
    pub fn insert(&self, digest: u128, now: u64, until: u64) -> InsertResult {
        let until = until.clamp(now.saturating_add(1), now.saturating_add(KEPT_SECONDS_MAX));
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
    word != 0 && left > 0 && left <= KEPT_SECONDS_MAX
}

const TAG_BITS: u32 = 44;
const TAG: u64 = (1 << TAG_BITS) - 1;
const TIME: u64 = (1 << (u64::BITS - TAG_BITS)) - 1;

/// Words of a bucket: two cache lines.
const BUCKET_WORDS: usize = 16;
