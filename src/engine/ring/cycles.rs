//! A counter of CPU cycles: measures short intervals for a few instructions, where a clock costs a
//! hundred. It is here because reading it is `unsafe`, which `engine` confines to three folders.

use std::time::Duration;

use crate::clock::Clock;
use corelane_base::time::Instant;

/// Least rate of the counter: it counts at the base frequency of the CPU, which is above 1 GHz.
const CYCLES_PER_MICROSECOND_MIN: u64 = 1000;

/// A value of the counter. It increases at a constant rate, on every CPU in step (x86-64: invariant
/// TSC); elsewhere it is a clock in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CycleCount(u64);

impl CycleCount {
    /// Reads the counter.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub fn now() -> Self {
        // SAFETY: every x86-64 CPU has the instruction, which reads no memory. Where the kernel
        // forbids it to programs (prctl(2), PR_SET_TSC), no clock of libc works either.
        Self(unsafe { core::arch::x86_64::_rdtsc() })
    }

    /// Reads the counter.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn now() -> Self {
        static CLOCK: std::sync::OnceLock<Clock> = std::sync::OnceLock::new();
        Self(CLOCK.get_or_init(Clock::start).now().as_nanoseconds())
    }

    /// Returns the cycles since `earlier`; 0 if it is later.
    #[inline]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// The rate of the counter, measured since the value was created.
#[derive(Clone, Debug)]
pub struct CycleRate {
    clock: Clock,
    origin: (CycleCount, Instant),
}

impl CycleRate {
    /// Begins to measure.
    pub fn start() -> Self {
        let clock = Clock::start();
        Self { clock, origin: (CycleCount::now(), clock.now()) }
    }

    /// Returns a number of cycles in which no interval of `duration` fits.
    #[expect(clippy::cast_possible_truncation, reason = "no interval is that long")]
    pub const fn cycles_min(duration: Duration) -> u64 {
        (duration.as_micros() as u64).saturating_mul(CYCLES_PER_MICROSECOND_MIN)
    }

    /// Returns the duration of `cycles` that have just passed. The longer ago the value was
    /// created, the more exact.
    pub fn duration(&self, cycles: u64) -> Duration {
        let total = CycleCount::now().since(self.origin.0).max(1);
        let elapsed = self.clock.now().since(self.origin.1);
        let nanoseconds = elapsed.as_nanos().saturating_mul(cycles.into()) / u128::from(total);
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_measure_what_the_clock_measures() {
        let (rate, clock) = (CycleRate::start(), Clock::start());
        let begun = CycleCount::now();
        while clock.now() < Instant::from_milliseconds(2) {}
        let cycles = CycleCount::now().since(begun);
        let (duration, elapsed) = (rate.duration(cycles), clock.now().since(Instant::ORIGIN));
        assert!(duration > Duration::from_millis(1), "{duration:?}");
        assert!(duration <= elapsed + Duration::from_millis(1), "{duration:?} of {elapsed:?}");
        assert!(cycles >= CycleRate::cycles_min(duration));
    }
}
