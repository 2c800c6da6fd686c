//! What a second of a run comes to, seen beside the one before it.
//!
//! What it keeps true: costs are differences of what processes have spent; what the generator was
//! awake for nothing is none of them; the short rests of the warm-up and of the run keep their
//! lengths.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::period::Period;
use crate::measure::outcome::Failure;
use crate::measure::process::Sample;
use crate::measure::second::SecondResult;

/// What is known of the seconds so far, for the next one: costs are differences.
#[derive(Clone, Debug)]
pub(super) struct Sight {
    warm_up: Duration,
    until: Duration,
    server: Option<Sample>,
    generator: Option<Sample>,
}

impl Sight {
    /// Nothing of a run yet that begins with so much warm-up.
    pub(super) const fn new(warm_up: Duration) -> Self {
        Self { warm_up, until: Duration::ZERO, server: None, generator: None }
    }

    /// What the next second comes to, with the server and the generator as they were at its end.
    pub(super) fn see(
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
            p99_us: microseconds(response, 99.0),
            p999_us: microseconds(response, 99.9),
            max_us: microseconds(response, 100.0),
            service_p99_us: microseconds(period.latencies.service(), 99.0),
            lag_p99_us: microseconds(&period.lag, 99.0),
            open: period.open,
            opened: period.openings.opened,
            lost: period.lost,
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

/// A percentile of a histogram of nanoseconds, zero where it is empty.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
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
        period.outcomes.fail(Failure::Rpc);
        period
    }

    fn spent(cpu_ms: u64) -> Sample {
        Sample { cpu: Duration::from_millis(cpu_ms), ..Sample::default() }
    }

    #[test]
    fn rates_are_of_the_part_that_was_measured() {
        let mut sight = Sight::new(Duration::from_millis(1_500));
        let mut rate = |until_ms| sight.see(&period(until_ms), [None, None]).rate(8);
        assert_eq!([rate(1_000), rate(2_000)], [None, Some(16.0)]);
        assert_eq!([rate(3_000), rate(3_100)], [Some(8.0), None]);
    }

    #[test]
    fn costs_are_differences_and_the_first_second_has_none() {
        let mut sight = Sight::new(Duration::ZERO);
        assert_eq!(sight.see(&period(1_000), [Some(spent(700)), None]).server_cores, None);
        let next = sight.see(&period(3_000), [Some(spent(1_700)), None]);
        assert!(next.server_cores.is_some_and(|cores| (cores - 0.5).abs() < 1e-9));
        assert_eq!(next.generator_cores, None);
    }

    #[test]
    fn what_the_generator_was_awake_for_nothing_is_no_cost() {
        let mut sight = Sight::new(Duration::ZERO);
        sight.see(&period(1_000), [None, Some(spent(0))]);
        let next = Period { spun: Duration::from_millis(800), ..period(2_000) };
        let cores = sight.see(&next, [None, Some(spent(900))]).generator_cores;
        assert!(cores.is_some_and(|cores| (cores - 0.1).abs() < 1e-9), "{cores:?}");
    }

    #[test]
    fn failures_are_kept_by_kind() {
        let result = Sight::new(Duration::ZERO).see(&period(1_000), [None, None]);
        assert_eq!(result.failures, BTreeMap::from([("rpc_error".into(), 1)]));
    }
}
