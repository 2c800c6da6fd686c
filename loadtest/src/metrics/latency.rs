//! Response time and service time of requests.
//!
//! **Response time** counts from the intended send time, **service time** from the actual send. A
//! server that stalls for a second delays all requests behind the one it holds; only the response
//! time shows what users experience. Measuring from the actual send omits those requests, which is
//! called coordinated omission (Gil Tene).

use std::time::Duration;

use corelane_base::time::Instant;
use hdrhistogram::Histogram;

use super::calls::CallsMetrics;
use super::histogram::histogram;

/// Latencies of a run or of a part of it. Takes about 600 KiB, independent of the number of values,
/// and 300 KiB for each of the others once it has a value.
#[derive(Clone, Debug)]
pub struct Latencies {
    response: Histogram<u64>,
    service: Histogram<u64>,
    failed: RareTimes,
    first_event: RareTimes,
    first_progress: RareTimes,
    calls: CallsMetrics,
}

/// Times of one request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RequestTimes {
    /// Intended send time.
    pub intended: Instant,
    /// Actual send time.
    pub sent: Instant,
    /// When its response was complete.
    pub answered: Instant,
}

impl Latencies {
    /// Creates empty histograms.
    pub fn new() -> Self {
        let (response, service) = (histogram(), histogram());
        Self {
            response,
            service,
            failed: RareTimes::default(),
            first_event: RareTimes::default(),
            first_progress: RareTimes::default(),
            calls: CallsMetrics::default(),
        }
    }

    /// Records a successful response.
    #[inline]
    pub fn record(&mut self, times: RequestTimes) {
        self.response.saturating_record(nanoseconds(times.answered.since(times.intended)));
        self.service.saturating_record(nanoseconds(times.answered.since(times.sent)));
    }

    /// Records how long a request took that failed.
    #[cold]
    pub fn record_failed(&mut self, took: Duration) {
        self.failed.record(took);
    }

    /// Records the time to the first event of the stream of a request.
    pub fn record_first_event(&mut self, took: Duration) {
        self.first_event.record(took);
    }

    /// Records the time to the first progress of a request.
    pub fn record_first_progress(&mut self, took: Duration) {
        self.first_progress.record(took);
    }

    /// Records a request of a mix, with its response time unless it failed.
    pub fn record_call(&mut self, call: u16, response: Option<Duration>) {
        self.calls.record(call, response);
    }

    /// Records the response to a request of the warm-up of a mix.
    pub fn record_earlier_call(&mut self, call: u16) {
        self.calls.record_earlier(call);
    }

    /// Returns the measurements of each kind of request in a mix.
    pub const fn calls(&self) -> &CallsMetrics {
        &self.calls
    }

    /// Adds the latencies of another load thread or second.
    pub fn add(&mut self, other: &Self) {
        self.calls.add(&other.calls);
        // Both are created by `histogram` with equal bounds.
        for (all, some) in
            [(&mut self.response, &other.response), (&mut self.service, &other.service)]
        {
            if all.add(some).is_err() {
                debug_assert!(false, "two histograms of the same bounds");
            }
        }
        self.failed.add(&other.failed);
        self.first_event.add(&other.first_event);
        self.first_progress.add(&other.first_progress);
    }

    /// Resets all values without freeing memory.
    pub fn clear(&mut self) {
        self.response.reset();
        self.service.reset();
        self.failed.clear();
        self.first_event.clear();
        self.first_progress.clear();
        self.calls.clear();
    }

    /// Returns the response times (from the intended send), in nanoseconds.
    pub const fn response(&self) -> &Histogram<u64> {
        &self.response
    }

    /// Returns the service times (from the actual send), in nanoseconds.
    pub const fn service(&self) -> &Histogram<u64> {
        &self.service
    }

    /// Returns the times of requests that failed (from the intended send to the failure), in
    /// nanoseconds, or `None` if none did.
    pub fn failed(&self) -> Option<&Histogram<u64>> {
        self.failed.values()
    }

    /// Returns the times to the first event of the stream of a request (from the intended send), in
    /// nanoseconds, or `None` without any.
    pub fn first_event(&self) -> Option<&Histogram<u64>> {
        self.first_event.values()
    }

    /// Returns the times to the first progress of a request (from the intended send), in
    /// nanoseconds, or `None` without any.
    pub fn first_progress(&self) -> Option<&Histogram<u64>> {
        self.first_progress.values()
    }
}

/// A histogram that is allocated by its first value.
#[derive(Clone, Debug, Default)]
struct RareTimes(Option<Box<Histogram<u64>>>);

impl RareTimes {
    fn record(&mut self, took: Duration) {
        self.allocated().saturating_record(nanoseconds(took));
    }

    fn add(&mut self, other: &Self) {
        if let Some(some) = other.values()
            && self.allocated().add(some).is_err()
        {
            debug_assert!(false, "two histograms of the same bounds");
        }
    }

    fn clear(&mut self) {
        if let Some(values) = &mut self.0 {
            values.reset();
        }
    }

    fn values(&self) -> Option<&Histogram<u64>> {
        self.0.as_deref().filter(|values| !values.is_empty())
    }

    fn allocated(&mut self) -> &mut Histogram<u64> {
        self.0.get_or_insert_with(|| Box::new(histogram()))
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self::new()
    }
}

#[inline]
fn nanoseconds(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::histogram::LATENCY_MAX;

    fn times(intended: u64, sent: u64, answered: u64) -> RequestTimes {
        let at = Instant::from_milliseconds;
        RequestTimes { intended: at(intended), sent: at(sent), answered: at(answered) }
    }

    /// Returns the value at a percentile, in whole milliseconds.
    fn at(histogram: &Histogram<u64>, percentile: f64) -> u64 {
        (histogram.value_at_percentile(percentile) + 500_000) / 1_000_000
    }

    #[test]
    fn server_stall_shows_in_response_time_only() {
        let mut latencies = Latencies::new();
        // A request each 10 ms on one connection. The server responds at once, except for a stall
        // of one second. Requests due meanwhile are sent when the first response arrives.
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
    fn latencies_of_threads_add_up() {
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
    fn failed_requests_have_latencies_apart() {
        let (mut one, mut other) = (Latencies::new(), Latencies::new());
        one.record(times(0, 0, 5));
        assert!(one.failed().is_none() && one.failed.0.is_none(), "allocated by the first");
        other.record_failed(Duration::from_millis(70));
        one.add(&other);
        assert_eq!(one.failed().map(|failed| (failed.len(), at(failed, 50.0))), Some((1, 70)));
        assert_eq!(one.response().len(), 1);
        one.clear();
        assert!(one.failed().is_none());
    }

    #[test]
    fn latency_above_maximum_counts_as_maximum() {
        let mut latencies = Latencies::new();
        latencies.record(times(0, 0, 7_200_000));
        assert_eq!(latencies.response().len(), 1);
        assert!(latencies.response().max() >= nanoseconds(LATENCY_MAX));
    }
}
