//! Slow reader: a connection that reads at a limited rate.
//!
//! Invariants: over its whole life it reads no faster than its rate. Data that the kernel delivers
//! beyond the rate is compensated by a longer pause.

use std::time::Duration;

use corelane::base::time::Instant;

use crate::mcp::RequestLog;

#[derive(Debug)]
pub(super) struct SlowReader {
    pub(super) log: RequestLog,
    pub(super) pacer: ReadPacer,
    /// Whether the ring has stopped receiving for it.
    pub(super) is_paused: bool,
}

/// Rate limit of a slow reader.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct ReadPacer {
    bytes_per_second: u64,
    next_read_at: Instant,
}

impl ReadPacer {
    /// Creates a pacer; a rate of 0 never reads.
    pub(super) const fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, next_read_at: Instant::ORIGIN }
    }

    /// Records that `bytes` were read at `now`.
    pub(super) fn record_read(&mut self, bytes: usize, now: Instant) {
        let nanoseconds =
            (bytes as u128 * 1_000_000_000) / u128::from(self.bytes_per_second.max(1));
        let pause = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        self.next_read_at = self.next_read_at.max(now).after(pause);
    }

    /// Returns whether it may read now.
    pub(super) fn may_read(&self, now: Instant) -> bool {
        self.bytes_per_second > 0 && now >= self.next_read_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: fn(u64) -> Instant = Instant::from_milliseconds;

    #[test]
    fn slow_reader_pauses_after_read() {
        let mut pacer = ReadPacer::new(1_000);
        assert!(pacer.may_read(AT(5)));
        pacer.record_read(100, AT(5));
        assert!(!pacer.may_read(AT(104)));
        assert!(pacer.may_read(AT(105)));
    }

    #[test]
    fn slow_reader_makes_up_for_excess() {
        let mut pacer = ReadPacer::new(1_000);
        for _ in 0..4 {
            pacer.record_read(4_096, AT(0));
        }
        assert!(!pacer.may_read(AT(16_383)));
        assert!(pacer.may_read(AT(16_384)));
        // A longer pause than required is no credit.
        pacer.record_read(1_000, AT(60_000));
        assert!(!pacer.may_read(AT(60_999)));
    }

    #[test]
    fn slow_reader_with_zero_rate_never_reads() {
        assert!(!ReadPacer::new(0).may_read(AT(u64::from(u32::MAX))));
    }
}
