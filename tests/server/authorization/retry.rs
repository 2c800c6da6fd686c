//! Attempts that are repeated, for what happens a while after its cause.

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;
use corelane_test_support::TIMEOUT;

/// Repeats `attempt` until it returns a value; fails if none has within [`TIMEOUT`].
#[track_caller]
pub(crate) fn retry<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let clock = Clock::start();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(clock.now().since(Instant::default()) < TIMEOUT, "nothing has happened");
    }
}
