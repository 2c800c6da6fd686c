//! Measurements of users over a part of a run.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::metrics::histogram::histogram;

/// Iterations of users. Takes 300 KiB once an iteration is recorded.
#[derive(Clone, Debug, Default)]
pub struct UserMetrics {
    /// Durations of complete iterations, in nanoseconds, pauses included.
    pub iterations: Option<Box<Histogram<u64>>>,
    /// Iterations that a failed step ended.
    pub failed: u64,
    /// Users that left and were replaced by new ones.
    pub left: u64,
    /// Requests that were sent again, because the server asked for it.
    pub retried: u64,
    /// Results that required input, which users gave.
    pub inputs: u64,
    /// Requests that users cancelled.
    pub cancelled: u64,
}

impl UserMetrics {
    /// Records a complete iteration.
    pub fn record_iteration(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let iterations = self.iterations.get_or_insert_with(|| Box::new(histogram()));
        iterations.saturating_record(nanoseconds);
    }

    /// Adds the measurements of another load thread or second.
    pub fn add(&mut self, other: &Self) {
        let Self { iterations, failed, left, retried, cancelled, inputs } = other;
        self.failed += failed;
        self.left += left;
        self.retried += retried;
        self.cancelled += cancelled;
        self.inputs += inputs;
        if let Some(some) = iterations {
            let all = self.iterations.get_or_insert_with(|| Box::new(histogram()));
            if all.add(&**some).is_err() {
                debug_assert!(false, "two histograms of the same bounds");
            }
        }
    }

    /// Resets all measurements without freeing memory.
    pub fn clear(&mut self) {
        let iterations = self.iterations.take().map(|mut iterations| {
            iterations.reset();
            iterations
        });
        *self = Self { iterations, ..Self::default() };
    }
}
