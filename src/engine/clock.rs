//! The clock: the only place that reads the system's monotonic and wall clocks.

use std::time::SystemTime;

use corelane_base::time::Instant;

/// Reads monotonic time as [`Instant`]s since the clock was created.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: std::time::Instant,
}

impl Clock {
    /// Creates a clock whose origin is now.
    #[expect(clippy::disallowed_methods, reason = "the engine's clock")]
    pub fn start() -> Self {
        Self { origin: std::time::Instant::now() }
    }

    /// Returns the time since the clock was created. Cost: one vDSO call.
    #[expect(clippy::cast_possible_truncation, reason = "584 years of nanoseconds fit")]
    pub fn now(&self) -> Instant {
        Instant::from_nanoseconds(self.origin.elapsed().as_nanos() as u64)
    }
}

/// Returns the system's wall clock in milliseconds since 1970-01-01 UTC, or zero if it is earlier.
/// Read once at start, and for each line of the log.
#[expect(clippy::disallowed_methods, reason = "the engine's clock")]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the system's wall clock in nanoseconds since 1970-01-01 UTC, or zero if it is earlier.
/// Read at the begin and the end of each span that is exported.
#[expect(clippy::disallowed_methods, reason = "the engine's clock")]
pub fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
