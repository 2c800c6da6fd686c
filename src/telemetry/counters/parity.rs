//! Counters of the parity dialect.

use std::time::Duration;

use super::CounterValue;

group! {
    /// Events of the sessions of the parity dialect.
    SessionEventCounters {
        /// Sessions of the parity dialect whose handshake was accepted.
        handshakes,
        /// Sessions of the parity dialect continued with a resume token.
        resumed,
        /// Resume tokens of the parity dialect answered with the advice to start anew.
        restarts_advised,
    }
}

group! {
    /// Requests of the parity dialect by method.
    ParityRequestCounters {
        /// `tools/list`.
        tools_list,
        /// `tools/call`.
        tools_call,
        /// `resources/list`.
        resources_list,
        /// `resources/read`.
        resources_read,
        /// `prompts/list`.
        prompts_list,
        /// `prompts/get`.
        prompts_get,
        /// Every other method, known or not.
        other,
    }
}

group! {
    /// Chunks of the parity dialect by type.
    ChunkCounters {
        /// Progress of a handler.
        progress,
        /// Log messages.
        log,
        /// Parts of results.
        partial,
        /// Results.
        result,
        /// Errors.
        error,
        /// Ends of streams.
        eos,
    }
}

group! {
    /// Requests of the parity dialect that were repeated or cancelled.
    ParityRepeatCounters {
        /// Requests repeated with an idempotency key that was in use.
        retries,
        /// Requests and streams cancelled by their client.
        cancellations,
    }
}

group! {
    /// Messages of the parity dialect that were rejected before they had an effect, by error code.
    ParityRejectionCounters {
        /// `error.version_unsupported`.
        version_unsupported,
        /// `error.feature_not_available`.
        feature_not_available,
        /// `error.auth.unauthorized`.
        unauthorized,
        /// `error.auth.forbidden`.
        forbidden,
        /// `error.rate_limited`.
        rate_limited,
        /// `error.payload_too_large`.
        payload_too_large,
        /// `error.already_processed`.
        already_processed,
        /// `error.internal`: malformed.
        internal,
    }
}

impl ParityRejectionCounters {
    /// Returns the messages of each code.
    pub(in crate::telemetry) const fn by_code(&self) -> [(&'static str, u64); 8] {
        [
            ("error.version_unsupported", self.version_unsupported),
            ("error.feature_not_available", self.feature_not_available),
            ("error.auth.unauthorized", self.unauthorized),
            ("error.auth.forbidden", self.forbidden),
            ("error.rate_limited", self.rate_limited),
            ("error.payload_too_large", self.payload_too_large),
            ("error.already_processed", self.already_processed),
            ("error.internal", self.internal),
        ]
    }
}

impl ParityRequestCounters {
    /// Returns the requests of each method.
    pub(in crate::telemetry) const fn by_method(&self) -> [(&'static str, u64); 7] {
        [
            ("tools/list", self.tools_list),
            ("tools/call", self.tools_call),
            ("resources/list", self.resources_list),
            ("resources/read", self.resources_read),
            ("prompts/list", self.prompts_list),
            ("prompts/get", self.prompts_get),
            ("other", self.other),
        ]
    }
}

impl ChunkCounters {
    /// Returns the chunks of each type.
    pub(in crate::telemetry) const fn by_type(&self) -> [(&'static str, u64); 6] {
        [
            ("progress", self.progress),
            ("log", self.log),
            ("partial", self.partial),
            ("result", self.result),
            ("error", self.error),
            ("eos", self.eos),
        ]
    }
}

/// Counters of the parity dialect.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[non_exhaustive]
pub struct ParityCounters {
    /// Sessions.
    pub sessions: SessionEventCounters,
    /// Requests by method.
    pub requests: ParityRequestCounters,
    /// Chunks by type.
    pub chunks: ChunkCounters,
    /// Requests repeated or cancelled.
    pub repeats: ParityRepeatCounters,
    /// Messages rejected, by error code.
    pub rejections: ParityRejectionCounters,
    /// From the receipt of a request to its response, or to the end of its stream.
    pub latency: LatencyHistogram,
}

impl ParityCounters {
    pub(super) fn add(&mut self, other: &Self) {
        self.sessions.add(&other.sessions);
        self.requests.add(&other.requests);
        self.chunks.add(&other.chunks);
        self.repeats.add(&other.repeats);
        self.rejections.add(&other.rejections);
        self.latency.add(&other.latency);
    }

    pub(super) fn each(&self, visit: &mut impl FnMut(CounterValue)) {
        self.sessions.each("parity_sessions", visit);
        self.requests.each("parity_requests", visit);
        self.chunks.each("parity_chunks", visit);
        self.repeats.each("parity_repeats", visit);
        self.rejections.each("parity_rejections", visit);
    }
}

/// How many requests took how long.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct LatencyHistogram {
    counts: [u64; Self::BOUNDS_MS.len() + 1],
    sum_microseconds: u64,
}

impl LatencyHistogram {
    /// Upper bounds of the buckets in milliseconds; a last bucket has no bound.
    pub const BOUNDS_MS: [u64; 12] = [1, 2, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 10_000];

    /// Counts a request that took `latency`.
    #[inline]
    pub fn record(&mut self, latency: Duration) {
        if latency.is_zero() {
            self.counts[0] += 1;
            return;
        }
        let is_within = |bound: &u64| latency <= Duration::from_millis(*bound);
        let bucket = Self::BOUNDS_MS.iter().position(is_within).unwrap_or(Self::BOUNDS_MS.len());
        self.counts[bucket] += 1;
        let microseconds = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.sum_microseconds = self.sum_microseconds.saturating_add(microseconds);
    }

    /// Returns for each bound the requests that took no longer.
    pub fn cumulative(&self) -> [(u64, u64); Self::BOUNDS_MS.len()] {
        let mut total = 0;
        let mut counts = self.counts.iter();
        Self::BOUNDS_MS.map(|bound| {
            total += counts.next().copied().unwrap_or_default();
            (bound, total)
        })
    }

    /// Returns the number of requests.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all latencies in milliseconds.
    pub fn sum_ms(&self) -> f64 {
        Duration::from_micros(self.sum_microseconds).as_secs_f64() * 1_000.0
    }

    fn add(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
        self.sum_microseconds = self.sum_microseconds.saturating_add(other.sum_microseconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_is_counted_up_to_its_bound() {
        let mut latency = LatencyHistogram::default();
        for ms in [0, 1, 2, 3, 11_000] {
            latency.record(Duration::from_millis(ms));
        }
        let cumulative = latency.cumulative();
        assert_eq!(cumulative[..3], [(1, 2), (2, 3), (5, 4)]);
        assert_eq!((cumulative.last(), latency.count()), (Some(&(10_000, 4)), 5));
        assert!((latency.sum_ms() - 11_006.0).abs() < 1e-6, "{}", latency.sum_ms());
    }

    #[test]
    fn latencies_of_shards_add_up() {
        let mut one = LatencyHistogram::default();
        one.record(Duration::from_millis(1));
        let mut two = one;
        two.add(&one);
        assert_eq!((two.count(), two.cumulative()[0]), (2, (1, 2)));
        assert!((two.sum_ms() - 2.0).abs() < 1e-9);
    }
}
