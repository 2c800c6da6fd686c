//! Summary of one second of a run.
//!
//! Invariants: CPU costs are differences between samples and exclude the time the generator spun.
//! The shorter seconds at the end of the warm-up and of the run keep their real length.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::period::Period;
use crate::metrics::outcome::Failure;
use crate::metrics::process::Sample;
use crate::metrics::second::SecondResult;

/// Summarizer of seconds; holds the previous samples.
#[derive(Clone, Debug)]
pub(super) struct SecondSummarizer {
    warm_up: Duration,
    until: Duration,
    server: Option<Sample>,
    generator: Option<Sample>,
}

impl SecondSummarizer {
    /// Creates a summarizer for a run with this warm-up.
    pub(super) const fn new(warm_up: Duration) -> Self {
        Self { warm_up, until: Duration::ZERO, server: None, generator: None }
    }

    /// Summarizes the next second with samples of the server and the generator at its end.
    pub(super) fn summarize(
        &mut self,
        period: &Period,
        [server, generator]: [Option<Sample>; 2],
    ) -> SecondResult {
        let (from, until) = (self.until, period.until);
        let cores = |now: Option<Sample>, last: Option<Sample>, spun: Duration| {
            let spent = now?.cpu.saturating_sub(last?.cpu).saturating_sub(spun);
            let span = until.saturating_sub(from).max(Duration::from_millis(1));
            Some(spent.as_secs_f64() / span.as_secs_f64())
        };
        let response = period.latencies.response();
        let failures = Failure::ALL.map(|kind| (kind.name().into(), period.outcomes.failed(kind)));
        let result = SecondResult {
            at_s: until.as_secs_f64(),
            span_s: until.saturating_sub(from.max(self.warm_up)).as_secs_f64(),
            due: period.due,
            sent: period.sent,
            answered: period.outcomes.answered,
            failed: period.outcomes.failures(),
            failures: failures.into_iter().filter(|(_, count)| *count > 0).collect(),
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
            opened: period.connects.opened,
            lost: period.connects.lost,
            server_cores: cores(server, self.server, Duration::ZERO),
            server_resident_bytes: server.map(|sample| sample.resident_bytes),
            generator_cores: cores(generator, self.generator, period.spun),
            generator_resident_bytes: generator.map(|sample| sample.resident_bytes),
        };
        self.until = until;
        (self.server, self.generator) = (server, generator);
        result
    }
}

/// Returns a percentile of a histogram of nanoseconds in microseconds, 0 if it is empty.
#[expect(clippy::cast_precision_loss, reason = "displayed figure")]
fn microseconds(histogram: &Histogram<u64>, percentile: f64) -> f64 {
    if histogram.is_empty() { 0.0 } else { histogram.value_at_percentile(percentile) as f64 / 1e3 }
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

    fn spent(cpu_ms: u64) -> Sample {
        Sample { cpu: Duration::from_millis(cpu_ms), ..Sample::default() }
    }

    #[test]
    fn second_rate_excludes_warm_up() {
        let mut sight = SecondSummarizer::new(Duration::from_millis(1_500));
        let mut rate = |until_ms| sight.summarize(&period(until_ms), [None, None]).rate(8);
        assert_eq!([rate(1_000), rate(2_000)], [None, Some(16.0)]);
        assert_eq!([rate(3_000), rate(3_100)], [Some(8.0), None]);
    }

    #[test]
    fn second_cpu_cost_is_difference_of_samples() {
        let mut sight = SecondSummarizer::new(Duration::ZERO);
        assert_eq!(sight.summarize(&period(1_000), [Some(spent(700)), None]).server_cores, None);
        let next = sight.summarize(&period(3_000), [Some(spent(1_700)), None]);
        assert!(next.server_cores.is_some_and(|cores| (cores - 0.5).abs() < 1e-9));
        assert_eq!(next.generator_cores, None);
    }

    #[test]
    fn second_cpu_cost_excludes_spinning() {
        let mut sight = SecondSummarizer::new(Duration::ZERO);
        sight.summarize(&period(1_000), [None, Some(spent(0))]);
        let next = Period { spun: Duration::from_millis(800), ..period(2_000) };
        let cores = sight.summarize(&next, [None, Some(spent(900))]).generator_cores;
        assert!(cores.is_some_and(|cores| (cores - 0.1).abs() < 1e-9), "{cores:?}");
    }

    #[test]
    fn second_failures_are_counted_by_kind() {
        let result = SecondSummarizer::new(Duration::ZERO).summarize(&period(1_000), [None, None]);
        assert_eq!(result.failures, BTreeMap::from([("rpc_error".into(), 1)]));
    }
}
