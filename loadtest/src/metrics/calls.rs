//! Response times and counts of each kind of request in a mix.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::histogram::histogram;

/// Measurements of one kind of request. Takes about 300 KiB, independent of the number of requests.
#[derive(Clone, Debug)]
pub struct CallMetrics {
    /// Response times of successful requests, in nanoseconds.
    pub response: Histogram<u64>,
    /// Successful requests.
    pub answered: u64,
    /// Failed requests.
    pub failed: u64,
    /// Successful requests of the warm-up whose responses arrived after it.
    pub earlier_answered: u64,
}

/// Measurements of all kinds of requests, by the index of their template. Empty until one is
/// recorded.
#[derive(Clone, Debug, Default)]
pub struct CallsMetrics(Vec<CallMetrics>);

impl CallsMetrics {
    /// Records a request of the kind `call`, with its response time unless it failed.
    pub fn record(&mut self, call: u16, response: Option<Duration>) {
        let metrics = self.metrics_mut(usize::from(call));
        match response {
            Some(time) => {
                metrics.answered += 1;
                let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
                metrics.response.saturating_record(nanoseconds);
            }
            None => metrics.failed += 1,
        }
    }

    /// Records the response to a request of the warm-up that arrived after it.
    pub fn record_earlier(&mut self, call: u16) {
        self.metrics_mut(usize::from(call)).earlier_answered += 1;
    }

    /// Adds the measurements of another load thread or second.
    pub fn add(&mut self, other: &Self) {
        for (index, some) in other.0.iter().enumerate() {
            let all = self.metrics_mut(index);
            all.answered += some.answered;
            all.failed += some.failed;
            all.earlier_answered += some.earlier_answered;
            if all.response.add(&some.response).is_err() {
                debug_assert!(false, "two histograms of the same bounds");
            }
        }
    }

    /// Resets all measurements without freeing memory.
    pub fn clear(&mut self) {
        for metrics in &mut self.0 {
            metrics.response.reset();
            (metrics.answered, metrics.failed, metrics.earlier_answered) = (0, 0, 0);
        }
    }

    /// Returns the measurements of each kind that has any, with its index.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &CallMetrics)> {
        self.0.iter().enumerate().filter(|(_, metrics)| metrics.answered + metrics.failed > 0)
    }

    /// Returns the successful responses of each kind, also to requests of the warm-up.
    pub fn answered(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|metrics| metrics.answered + metrics.earlier_answered)
    }

    fn metrics_mut(&mut self, index: usize) -> &mut CallMetrics {
        while self.0.len() <= index {
            self.0.push(CallMetrics {
                response: histogram(),
                answered: 0,
                failed: 0,
                earlier_answered: 0,
            });
        }
        &mut self.0[index]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_threads_add_up_by_kind() {
        let (mut one, mut other) = (CallsMetrics::default(), CallsMetrics::default());
        one.record(0, Some(Duration::from_millis(2)));
        other.record(2, Some(Duration::from_millis(5)));
        other.record(2, None);
        one.add(&other);
        let counts: Vec<_> =
            one.iter().map(|(index, call)| (index, call.answered, call.failed)).collect();
        assert_eq!(counts, [(0, 1, 0), (2, 1, 1)]);
        one.record_earlier(2);
        assert_eq!(one.answered().collect::<Vec<_>>(), [1, 0, 2]);
        one.clear();
        assert_eq!(one.iter().count(), 0);
    }
}
