//! When a program that all callers share is replaced: after a number of calls, or at an age.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;

/// Limits of a program, or of a session of an address.
#[derive(Clone, Copy, Debug, Default)]
pub struct RecycleLimits {
    /// Calls of one.
    pub max_calls: Option<u64>,
    /// Time from its handshake until it gets no more calls.
    pub max_age: Option<Duration>,
}

/// Time until a replacement that could not be started is tried again.
const RETRY: Duration = Duration::from_secs(30);
/// The time of what has not happened.
const NEVER: u64 = u64::MAX;

/// The calls and the age of a program, which may run several times, one run after the other.
#[derive(Debug)]
pub struct Usage {
    limits: RecycleLimits,
    clock: Clock,
    /// Calls of the run.
    calls: AtomicU64,
    /// When the run began, in nanoseconds; [`NEVER`] between two.
    began: AtomicU64,
    /// Until when the limits do not count, in nanoseconds.
    put_off_until: AtomicU64,
}

impl Usage {
    /// The usage of a program that does not run yet.
    pub const fn new(limits: RecycleLimits, clock: Clock) -> Self {
        let (calls, put_off_until) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { limits, clock, calls, began: AtomicU64::new(NEVER), put_off_until }
    }

    /// Notes that a run has begun.
    pub fn begin(&self) {
        self.began.store(self.clock.now().nanoseconds(), Ordering::Relaxed);
    }

    /// Notes that the run has ended.
    pub fn end(&self) {
        self.calls.store(0, Ordering::Relaxed);
        self.began.store(NEVER, Ordering::Relaxed);
    }

    /// Counts one more call. Returns whether the program gets it.
    pub fn admit(&self) -> bool {
        let RecycleLimits { max_calls, max_age } = self.limits;
        let calls = max_calls.map(|max| (self.calls.fetch_add(1, Ordering::Relaxed), max));
        let is_used_up = calls.is_some_and(|(calls, max)| calls >= max);
        let is_over =
            is_used_up || max_age.is_some_and(|max| self.age().is_some_and(|age| age >= max));
        !is_over || self.is_put_off()
    }

    /// Lets the program have calls beyond its limits for a while.
    pub fn put_off(&self) {
        let until = self.clock.now().after(RETRY);
        self.put_off_until.store(until.nanoseconds(), Ordering::Relaxed);
    }

    /// The time since the run began; `None` between two.
    fn age(&self) -> Option<Duration> {
        match self.began.load(Ordering::Relaxed) {
            NEVER => None,
            began => Some(self.clock.now().since(Instant::from_nanoseconds(began))),
        }
    }

    fn is_put_off(&self) -> bool {
        self.clock.now().nanoseconds() < self.put_off_until.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(max_calls: Option<u64>, max_age: Option<Duration>) -> Usage {
        Usage::new(RecycleLimits { max_calls, max_age }, Clock::start())
    }

    #[test]
    fn each_run_gets_its_calls() {
        let usage = usage(Some(2), None);
        for _ in 0..2 {
            usage.begin();
            assert_eq!([(); 3].map(|()| usage.admit()), [true, true, false]);
            usage.end();
        }
        usage.begin();
        assert_eq!([(); 3].map(|()| usage.admit()), [true, true, false]);
        usage.put_off();
        assert!(usage.admit());
    }

    #[test]
    fn old_run_gets_no_call() {
        let usage = usage(None, Some(Duration::ZERO));
        assert!(usage.admit(), "it does not run");
        usage.begin();
        assert!(!usage.admit());
        usage.end();
        assert!(usage.admit());
        let usage = self::usage(None, None);
        usage.begin();
        assert!((0..1_000).all(|_| usage.admit()));
    }
}
