//! How long answers took: response time and service time, apart.
//!
//! **Response time** counts from the moment at which a request was meant to be sent, **service
//! time** from the moment at which it left. A server that stalls for a second delays the requests
//! behind the one that it holds; only the response time shows what their users saw. A tool that
//! counts from the real send omits them, which Gil Tene named coordinated omission.

use std::time::Duration;

use corelane::base::time::Moment;
use hdrhistogram::Histogram;

/// The longest latency that is told from longer ones: an hour.
pub const LATENCY_MAX: Duration = Duration::from_hours(1);
/// Significant digits of every value: three, an error of at most a thousandth.
const DIGITS: u8 = 3;

/// The latencies of a run or of a part of it. Takes about 600 KiB, whatever is recorded.
#[derive(Clone, Debug)]
pub struct Latencies {
    response: Histogram<u64>,
    service: Histogram<u64>,
}

/// The moments of one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Times {
    /// When it was meant to be sent.
    pub intended: Moment,
    /// When it was sent.
    pub sent: Moment,
    /// When its answer was complete.
    pub answered: Moment,
}

impl Latencies {
    /// None yet.
    pub fn new() -> Self {
        Self { response: histogram(), service: histogram() }
    }

    /// Takes an answer in.
    #[inline]
    pub fn record(&mut self, times: Times) {
        self.response.saturating_record(nanoseconds(times.answered.since(times.intended)));
        self.service.saturating_record(nanoseconds(times.answered.since(times.sent)));
    }

    /// Takes in what another worker, or another second, has seen.
    pub fn add(&mut self, other: &Self) {
        // Both were made by `histogram`: what one holds the other can.
        for (all, some) in
            [(&mut self.response, &other.response), (&mut self.service, &other.service)]
        {
            if all.add(some).is_err() {
                debug_assert!(false, "two histograms of the same bounds");
            }
        }
    }

    /// Forgets all, and keeps the memory.
    pub fn clear(&mut self) {
        self.response.reset();
        self.service.reset();
    }

    /// From the intended send, in nanoseconds.
    pub const fn response(&self) -> &Histogram<u64> {
        &self.response
    }

    /// From the real send, in nanoseconds.
    pub const fn service(&self) -> &Histogram<u64> {
        &self.service
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

/// An empty histogram of latencies, in nanoseconds from one to [`LATENCY_MAX`].
#[expect(clippy::missing_panics_doc, reason = "the bounds are ours and in order")]
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, nanoseconds(LATENCY_MAX), DIGITS)
        .expect("the bounds are in order and the digits are at most five")
}

/// A span as whole nanoseconds.
#[inline]
fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(intended: u64, sent: u64, answered: u64) -> Times {
        let at = Moment::from_milliseconds;
        Times { intended: at(intended), sent: at(sent), answered: at(answered) }
    }

    /// The value at a percentile, in whole milliseconds.
    fn at(histogram: &Histogram<u64>, percentile: f64) -> u64 {
        (histogram.value_at_percentile(percentile) + 500_000) / 1_000_000
    }

    #[test]
    fn a_stall_shows_in_the_response_time_and_hides_from_the_service_time() {
        let mut latencies = Latencies::new();
        // A request each 10 ms on one connection; the server answers at once, but for one second
        // not at all. What was due meanwhile leaves when the first answer has come.
        for number in 0..300 {
            let due = number * 10;
            let (sent, answered) = match due {
                1_000 => (1_000, 2_000),
                1_001..2_000 => (2_000, 2_001),
                _ => (due, due + 1),
            };
            latencies.record(times(due, sent, answered));
        }
        assert_eq!(at(latencies.service(), 99.0), 1);
        assert!(at(latencies.response(), 99.0) > 950);
        assert!(at(latencies.response(), 75.0) > 200);
    }

    #[test]
    fn what_workers_have_seen_adds_up() {
        let (mut one, mut other) = (Latencies::new(), Latencies::new());
        one.record(times(0, 0, 5));
        other.record(times(0, 1, 50));
        one.add(&other);
        assert_eq!(one.response().len(), 2);
        assert_eq!((at(one.response(), 100.0), at(one.service(), 100.0)), (50, 49));
        one.clear();
        assert!(one.response().is_empty() && one.service().is_empty());
    }

    #[test]
    fn a_latency_beyond_the_longest_counts_as_the_longest() {
        let mut latencies = Latencies::new();
        latencies.record(times(0, 0, 7_200_000));
        assert_eq!(latencies.response().len(), 1);
        assert!(latencies.response().max() >= nanoseconds(LATENCY_MAX));
    }
}
