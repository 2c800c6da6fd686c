//! Summary of one second of a run.
//!
//! Invariants: CPU costs are differences between samples and exclude the time the generator spun.
//! The shorter seconds at the end of the warm-up and of the run keep their real length. The drain
//! has no measured length.

use std::time::Duration;

use corelane_base::time::Instant;
use hdrhistogram::Histogram;

use super::period::Period;
use crate::metrics::outcome::Failure;
use crate::metrics::process::Sample;
use crate::metrics::second::SecondResult;

/// Samples of processes at the end of a second.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct ProcessSamples {
    /// When they were taken.
    pub(super) at: Instant,
    /// The server, if it is observed.
    pub(super) server: Option<Sample>,
    /// The generator, if the system provides it.
    pub(super) generator: Option<Sample>,
}

/// Summarizer of seconds; holds the previous samples.
#[derive(Clone, Debug)]
pub(super) struct SecondSummarizer {
    warm_up: Duration,
    until: Duration,
    samples: ProcessSamples,
}

impl SecondSummarizer {
    /// Creates a summarizer for a run with this warm-up.
    pub(super) fn new(warm_up: Duration) -> Self {
        Self { warm_up, until: Duration::ZERO, samples: ProcessSamples::default() }
    }

    /// Summarizes the next second with samples of the server and the generator at its end.
    pub(super) fn summarize(&mut self, period: &Period, samples: ProcessSamples) -> SecondResult {
        let (from, until) = (self.until, period.until);
        let ProcessSamples { at, server, generator } = samples;
        let span = at.since(self.samples.at).max(Duration::from_millis(1));
        let cores = |now: Option<Sample>, last: Option<Sample>, spun: Duration| {
            let spent = now?.cpu.saturating_sub(last?.cpu).saturating_sub(spun);
            Some(spent.as_secs_f64() / span.as_secs_f64())
        };
        let measured = until.saturating_sub(from.max(self.warm_up));
        let response = period.latencies.response();
        let failures = Failure::ALL.map(|kind| (kind.name().into(), period.outcomes.failed(kind)));
        let result = SecondResult {
            at_s: until.as_secs_f64(),
            span_s: if period.is_drain { 0.0 } else { measured.as_secs_f64() },
            due: period.due,
            sent: period.sent,
            answered: period.outcomes.answered,
            failed: period.outcomes.failures(),
            failures: failures.into_iter().filter(|(_, count)| *count > 0).collect(),
            late: period.outcomes.late,
            p50_us: microseconds(response, 50.0),
            p90_us: microseconds(response, 90.0),
            p95_us: microseconds(response, 95.0),
            p99_us: microseconds(response, 99.0),
            p999_us: microseconds(response, 99.9),
            p9999_us: microseconds(response, 99.99),
            max_us: microseconds(response, 100.0),
            service_p99_us: microseconds(period.latencies.service(), 99.0),
            lag_p99_us: microseconds(&period.lag, 99.0),
            open: period.open,
            users: period.active_users,
            opened: period.connects.opened,
            lost: period.connects.lost,
            server_cores: cores(server, self.samples.server, Duration::ZERO),
            server_resident_bytes: server.map(|sample| sample.resident_bytes),
            generator_cores: cores(generator, self.samples.generator, period.spun),
            generator_resident_bytes: generator.map(|sample| sample.resident_bytes),
        };
        self.until = until;
        self.samples = samples;
        result
    }
}

/// Returns a percentile of a histogram of nanoseconds in microseconds, or `None` if it is empty.
#[expect(clippy::cast_precision_loss, reason = "displayed figure")]
fn microseconds(histogram: &Histogram<u64>, percentile: f64) -> Option<f64> {
    (!histogram.is_empty()).then(|| histogram.value_at_percentile(percentile) as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn period(until_ms: u64) -> Period {
        let mut period =
            Period { due: 10, until: Duration::from_millis(until_ms), ..Period::new() };
        period.outcomes.answered = 8;
        period.outcomes.record_failure(Failure::Rpc);
        period
    }

    fn samples(at_ms: u64, cpu_ms: u64) -> ProcessSamples {
        let sample = Sample { cpu: Duration::from_millis(cpu_ms), ..Sample::default() };
        ProcessSamples {
            at: Instant::from_milliseconds(at_ms),
            server: Some(sample),
            generator: Some(sample),
        }
    }

    #[test]
    fn second_rate_excludes_warm_up_and_drain() {
        let mut sight = SecondSummarizer::new(Duration::from_millis(1_500));
        let mut rate = |until_ms, is_drain| {
            let period = Period { is_drain, ..period(until_ms) };
            sight.summarize(&period, ProcessSamples::default()).rate(8)
        };
        assert_eq!([rate(1_000, false), rate(2_000, false)], [None, Some(16.0)]);
        assert_eq!([rate(3_000, false), rate(3_100, false)], [Some(8.0), None]);
        assert_eq!(rate(4_100, true), None);
    }

    #[test]
    fn second_cpu_cost_is_difference_of_samples() {
        let mut sight = SecondSummarizer::new(Duration::ZERO);
        let first = sight.summarize(&period(1_000), ProcessSamples::default());
        assert_eq!(first.server_cores, None);
        sight.summarize(&period(2_000), samples(2_000, 700));
        // The sample was late.
        let next = sight.summarize(&period(3_000), samples(4_000, 1_700));
        assert!(next.server_cores.is_some_and(|cores| (cores - 0.5).abs() < 1e-9));
    }

    #[test]
    fn second_cpu_cost_excludes_spinning() {
        let mut sight = SecondSummarizer::new(Duration::ZERO);
        sight.summarize(&period(1_000), samples(1_000, 0));
        let next = Period { spun: Duration::from_millis(800), ..period(2_000) };
        let cores = sight.summarize(&next, samples(2_000, 900)).generator_cores;
        assert!(cores.is_some_and(|cores| (cores - 0.1).abs() < 1e-9), "{cores:?}");
    }

    #[test]
    fn second_failures_are_counted_by_kind() {
        let mut sight = SecondSummarizer::new(Duration::ZERO);
        let result = sight.summarize(&period(1_000), ProcessSamples::default());
        assert_eq!(result.failures, BTreeMap::from([("rpc_error".into(), 1)]));
    }
}
