//! What may be redeemed once, whichever shard it is brought to: one bit for each number.
//!
//! Numbers are issued in order by one counter, and 32 of them with one word of a fixed table. A
//! word is an epoch and 32 bits, changed by compare-and-swap; it belongs to the highest epoch that
//! anything was redeemed in, and one that is redeemed in a later epoch takes it over.
//!
//! ```text
//!   number  =  epoch (32 bits)  ·  word (of the table)  ·  bit (32)
//!   word    =  epoch (32 bits)  |  a bit for each of its 32 numbers that was redeemed
//! ```
//!
//! What it keeps true: a number is redeemed at most once, by whoever comes first, in every order of
//! events; one whose word has gone to a later epoch is refused rather than redeemed a second time.
//! No call waits for another thread, and the memory is what [`Spent::new`] took.
//!
//! What it does not do: know time. Those who issue numbers say elsewhere until when one is good; a
//! table is large enough when it holds the numbers of that time.
//!
//! Checked under `loom` by `tests/mesh_loom.rs`.

use super::sync::{AtomicU64, Ordering};

/// Numbers, and which of them were redeemed.
#[derive(Debug)]
pub struct Spent {
    issued: AtomicU64,
    words: Box<[AtomicU64]>,
}

/// What became of an attempt to redeem a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Redeemed {
    /// It was good, and no longer is.
    First,
    /// It was redeemed before.
    Again,
    /// It is so old that its place has gone to a later one: nobody knows any more.
    Forgotten,
}

impl Spent {
    /// A table that remembers at least `numbers_max` numbers, rounded up to 32 times a power of
    /// two. Cost: two bits a number.
    pub fn new(numbers_max: usize) -> Self {
        let words = numbers_max.div_ceil(NUMBERS_PER_WORD).next_power_of_two();
        let words = (0..words).map(|_| AtomicU64::new(0)).collect();
        Self { issued: AtomicU64::new(0), words }
    }

    /// The next number: never the same twice, from whichever thread.
    pub fn issue(&self) -> u64 {
        // Relaxed: the number itself is all that there is to agree on.
        self.issued.fetch_add(1, Ordering::Relaxed)
    }

    /// Redeems `number`, which was issued here.
    pub fn redeem(&self, number: u64) -> Redeemed {
        let (epoch, word, bit) = self.place(number);
        // Relaxed throughout: a word guards nothing but itself, and each of its changes has its
        // place in one order.
        let mut seen = word.load(Ordering::Relaxed);
        loop {
            let bits = match (seen >> EPOCH_SHIFT).cmp(&epoch) {
                std::cmp::Ordering::Less => 0,
                std::cmp::Ordering::Equal => seen & BITS,
                std::cmp::Ordering::Greater => return Redeemed::Forgotten,
            };
            if bits & bit != 0 {
                return Redeemed::Again;
            }
            let changed = epoch << EPOCH_SHIFT | bits | bit;
            match word.compare_exchange(seen, changed, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Redeemed::First,
                // Whoever was faster changed the word: one of the others has come on.
                Err(other) => seen = other,
            }
        }
    }

    /// Where the bit of a number stands. An epoch outgrows its 32 bits after 2^37 numbers for each
    /// word of the table: with a hundred thousand words, after centuries at a million a second.
    fn place(&self, number: u64) -> (u64, &AtomicU64, u64) {
        let block = number / NUMBERS_PER_WORD as u64;
        let words = self.words.len() as u64;
        #[expect(clippy::cast_possible_truncation, reason = "smaller than a length")]
        let word = &self.words[(block % words) as usize];
        debug_assert!(block / words <= BITS, "the counter has outlived the table");
        (block / words, word, 1 << (number % NUMBERS_PER_WORD as u64))
    }
}

/// The low half of a word.
const NUMBERS_PER_WORD: usize = 32;
const BITS: u64 = u32::MAX as u64;
const EPOCH_SHIFT: u32 = 32;
