//! A connection whose owner reads slowly: how much it reads, and when it may go on.
//!
//! What it keeps true: over its whole life it reads no faster than it should, whatever the kernel
//! hands over at once; what was too much is made up for by a longer wait.

use std::time::Duration;

use corelane::base::time::Moment;

use crate::dialogue::Books;

/// A connection that reads slowly.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) books: Books,
    pub(super) pacer: Pacer,
    /// The ring does not receive for it.
    pub(super) is_paused: bool,
}

/// When a reader of so many bytes a second may read on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Pacer {
    bytes_per_second: u64,
    next: Moment,
}

impl Pacer {
    /// A pacer that has read nothing. One of no bytes a second never reads.
    pub(super) const fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, next: Moment::ORIGIN }
    }

    /// Notes that so many bytes were read.
    pub(super) fn note(&mut self, bytes: usize, now: Moment) {
        let nanoseconds =
            (bytes as u128 * 1_000_000_000) / u128::from(self.bytes_per_second.max(1));
        let pause = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        self.next = self.next.max(now).after(pause);
    }

    /// Whether it may read.
    pub(super) fn may_read(&self, now: Moment) -> bool {
        self.bytes_per_second > 0 && now >= self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Moment = Moment::from_milliseconds;

    #[test]
    fn what_was_read_is_waited_for_before_more_is() {
        let mut pacer = Pacer::new(1_000);
        assert!(pacer.may_read(AT(5)));
        pacer.note(100, AT(5));
        assert!(!pacer.may_read(AT(104)));
        assert!(pacer.may_read(AT(105)));
    }

    #[test]
    fn more_than_was_allowed_is_made_up_for() {
        let mut pacer = Pacer::new(1_000);
        for _ in 0..4 {
            pacer.note(4_096, AT(0));
        }
        assert!(!pacer.may_read(AT(16_383)));
        assert!(pacer.may_read(AT(16_384)));
        // A pause that was longer than it had to be is no credit.
        pacer.note(1_000, AT(60_000));
        assert!(!pacer.may_read(AT(60_999)));
    }

    #[test]
    fn without_any_bytes_a_second_it_never_reads() {
        assert!(!Pacer::new(0).may_read(AT(u64::from(u32::MAX))));
    }
}
