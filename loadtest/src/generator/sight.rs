//! What a second of a run comes to, seen beside the one before it.
//!
//! What it keeps true: costs are differences of what processes have spent; what the generator was
//! awake for nothing is none of them; the short rests of the warm-up and of the run keep their
//! lengths.

use std::time::Duration;

use hdrhistogram::Histogram;

use super::crew::Second;
use crate::measure::outcome::Failure;
use crate::measure::process::Sample;
use crate::measure::second::SecondResult;

/// What is known of the seconds so far, for the next one: costs are differences.
#[derive(Clone, Debug)]
pub struct Sight {
    warm_up: Duration,
    until: Duration,
    server: Option<Sample>,
    generator: Option<Sample>,
}

impl Sight {
    /// Nothing of a run yet that begins with so much warm-up.
    pub const fn new(warm_up: Duration) -> Self {
        Self { warm_up, until: Duration::ZERO, server: None, generator: None }
    }

    /// What the next second comes to.
    pub fn see(&mut self, second: &Second) -> SecondResult {
        let period = &second.period;
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
            lost: period.lost,
            server_cores: cores(second.server, self.server, Duration::ZERO),
            server_resident_bytes: second.server.map(|sample| sample.resident_bytes),
            generator_cores: cores(second.generator, self.generator, period.spun),
            generator_resident_bytes: second.generator.map(|sample| sample.resident_bytes),
        };
        self.until = until;
        (self.server, self.generator) = (second.server, second.generator);
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
    use crate::generator::Period;

    fn second(until_ms: u64, cpu_ms: u64) -> Second {
        let sample = Sample { cpu: Duration::from_millis(cpu_ms), ..Sample::default() };
        let mut period =
            Period { due: 10, until: Duration::from_millis(until_ms), ..Period::new() };
        period.outcomes.answered = 8;
        period.outcomes.fail(Failure::Rpc);
        Second { period, server: Some(sample), generator: None }
    }

    #[test]
    fn rates_are_of_the_part_that_was_measured() {
        let mut sight = Sight::new(Duration::from_millis(1_500));
        assert_eq!(sight.see(&second(1_000, 0)).rate(8), None);
        assert_eq!(sight.see(&second(2_000, 0)).rate(8), Some(16.0));
        assert_eq!(sight.see(&second(3_000, 0)).rate(8), Some(8.0));
        assert_eq!(sight.see(&second(3_100, 0)).rate(8), None);
    }

    #[test]
    fn costs_are_differences_and_the_first_second_has_none() {
        let mut sight = Sight::new(Duration::ZERO);
        assert_eq!(sight.see(&second(1_000, 700)).server_cores, None);
        let next = sight.see(&second(3_000, 1_700));
        assert!(next.server_cores.is_some_and(|cores| (cores - 0.5).abs() < 1e-9));
        assert_eq!(next.generator_cores, None);
    }

    #[test]
    fn what_the_generator_was_awake_for_nothing_is_no_cost() {
        let mut sight = Sight::new(Duration::ZERO);
        let own = |until_ms, cpu_ms| {
            let second = second(until_ms, cpu_ms);
            Second { generator: second.server, ..second }
        };
        sight.see(&own(1_000, 0));
        let mut next = own(2_000, 900);
        next.period.spun = Duration::from_millis(800);
        let cores = sight.see(&next).generator_cores;
        assert!(cores.is_some_and(|cores| (cores - 0.1).abs() < 1e-9), "{cores:?}");
    }

    #[test]
    fn failures_are_kept_by_kind() {
        let result = Sight::new(Duration::ZERO).see(&second(1_000, 0));
        assert_eq!(result.failures, BTreeMap::from([("rpc_error".into(), 1)]));
    }
}
