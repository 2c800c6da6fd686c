//! Single-use numbers that any shard can mark as used: one bit for each number.
//!
//! Numbers are issued in order by one counter. 32 consecutive numbers share a word of a fixed
//! table. A word is an epoch and 32 bits, updated by compare-and-swap; it belongs to the highest
//! epoch of which a number was redeemed, and redeeming a number of a later epoch takes it over.
//!
//! ```text
//!   number  =  epoch (32 bits)  ·  word (of the table)  ·  bit (32)
//!   word    =  epoch (32 bits)  |  a bit for each of its 32 numbers that was redeemed
//! ```
//!
//! Invariants: a number is redeemed at most once, by the first caller, in every interleaving; a
//! number whose word belongs to a later epoch is refused. No call blocks, and the memory is fixed
//! by [`ReplayFilter::new`].
//!
//! The filter does not know time: issuers bound the lifetime of their numbers elsewhere, and the
//! table must hold the numbers of one lifetime. Checked under `loom` by
//! `tests/engine/mesh_loom.rs`.

use super::sync::{AtomicU64, Ordering, zeroed_words};

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
