//! The one place that reads a clock.

use std::time::Instant;

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
