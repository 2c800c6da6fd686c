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
    /// Users that arrived at a rate.
    pub arrived: u64,
    /// Users among them that found no free place, and waited for one.
    pub waited: u64,
    /// Event streams of sessions.
    pub streams: EventStreamCounts,
    /// How often each value of the plan was found in a result, and how often not.
    pub takes: Vec<TakeCounts>,
}

/// Counts of event streams of sessions.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct EventStreamCounts {
    /// Streams that opened, those of the warm-up and before included.
    pub opened: u64,
    /// Notifications on them.
    pub notifications: u64,
    /// Requests of the server on them.
    pub requests: u64,
    /// Streams that the server or the network ended.
    pub lost: u64,
    /// Requests of streams that the server refused.
    pub refused: u64,
    /// Status of the first of these, if it had one.
    pub status: u16,
    /// Requests of streams that the server answered with 405, those of the warm-up and before
    /// included: it has none.
    pub unsupported: u64,
}

impl EventStreamCounts {
    fn add(&mut self, other: Self) {
        self.opened += other.opened;
        self.notifications += other.notifications;
        self.requests += other.requests;
        self.lost += other.lost;
        self.refused += other.refused;
        self.status = if self.status == 0 { other.status } else { self.status };
        self.unsupported += other.unsupported;
    }
}

/// How often a value was found in results.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TakeCounts {
    /// Results with the value.
    pub found: u64,
    /// Results without it.
    pub missing: u64,
}

impl UserMetrics {
    /// Records a complete iteration.
    pub fn record_iteration(&mut self, time: Duration) {
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let iterations = self.iterations.get_or_insert_with(|| Box::new(histogram()));
        iterations.saturating_record(nanoseconds);
    }

    /// Records whether a result has the value with this number.
    pub fn record_take(&mut self, number: usize, is_found: bool) {
        let counts = self.take_mut(number);
        counts.found += u64::from(is_found);
        counts.missing += u64::from(!is_found);
    }

    fn take_mut(&mut self, number: usize) -> &mut TakeCounts {
        if self.takes.len() <= number {
            self.takes.resize(number + 1, TakeCounts::default());
        }
        &mut self.takes[number]
    }

    /// Adds the measurements of another load thread or second.
    pub fn add(&mut self, other: &Self) {
        let Self { iterations, failed, left, retried, cancelled, inputs, takes, .. } = other;
        self.arrived += other.arrived;
        self.streams.add(other.streams);
        self.waited += other.waited;
        self.failed += failed;
        self.left += left;
        self.retried += retried;
        self.cancelled += cancelled;
        self.inputs += inputs;
        for (number, some) in takes.iter().enumerate() {
            let all = self.take_mut(number);
            all.found += some.found;
            all.missing += some.missing;
        }
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
