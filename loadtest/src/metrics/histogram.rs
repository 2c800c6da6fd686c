//! Histograms of nanoseconds with a bounded error.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Highest recorded latency: an hour. Longer ones are recorded as this.
pub const LATENCY_MAX: Duration = Duration::from_hours(1);
/// The same in nanoseconds.
const LATENCY_MAX_NS: u64 = LATENCY_MAX.as_secs() * 1_000_000_000;
/// Significant digits of recorded values: three, an error of at most 0.1 %.
const DIGITS: u8 = 3;

/// Creates an empty histogram of nanoseconds from one to [`LATENCY_MAX`].
#[expect(clippy::missing_panics_doc, reason = "the bounds are constants in order")]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, DIGITS)
        .expect("the bounds are in order and the digits are at most five")
}
