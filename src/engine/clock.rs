//! The one place that reads a clock, or the calendar.

use std::time::{Instant, SystemTime};

use crate::base::time::Moment;

/// Monotonic time as [`Moment`]s since the clock was made.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose origin is now.
    #[expect(clippy::disallowed_methods, reason = "this is the place that may")]
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Reads it.
    #[expect(clippy::cast_possible_truncation, reason = "584 years of nanoseconds fit")]
    pub fn now(&self) -> Moment {
        Moment::from_nanoseconds(self.origin.elapsed().as_nanos() as u64)
    }
}

/// Milliseconds since the beginning of 1970 (UTC), as the machine has them; zero before. Read once
/// when a server starts.
#[expect(clippy::disallowed_methods, reason = "this is the place that may")]
pub fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
