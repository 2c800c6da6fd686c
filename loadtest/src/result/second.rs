//! One second of a run, as it is kept.
//!
//! What it keeps true: a second that the warm-up fills has connections and costs, and no requests;
//! counts are of the part that was measured, which [`SecondResult::span_s`] says.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Percentiles;
use crate::generator::Second;
use crate::measure::outcome::Failure;
use crate::measure::process::Sample;

/// The shortest time that has a rate worth showing, in seconds. A second ends when its worker next
/// looks at the clock, so that a few milliseconds of the warm-up's end or of the run's are left.
pub const RATE_SPAN_S_MIN: f64 = 0.25;

/// One second of a run. The last one is shorter: what was still to come after the last request.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default)]
pub struct SecondResult {
    /// When it ended, in seconds from the beginning of the run, warm-up included.
    pub at_s: f64,
    /// How much of it was measured, in seconds: none of it within the warm-up.
    pub span_s: f64,
    /// Requests that were due.
    pub due: u64,
    /// Requests that were sent.
    pub sent: u64,
    /// Good answers.
    pub answered: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests that failed, by how.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub failures: BTreeMap<String, u64>,
    /// The median response time, in microseconds.
    pub p50_us: f64,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The longest.
    pub max_us: f64,
    /// The 99th percentile of the service time, in microseconds.
    pub service_p99_us: f64,
    /// How late the generator was, at the 99th percentile, in microseconds.
    pub lag_p99_us: f64,
    /// Connections open at its end.
    pub open: u64,
    /// Connections that ended without our doing.
    pub lost: u64,
    /// CPU time of the server as a part of one core, where it was watched.
    pub server_cores: Option<f64>,
    /// Resident memory of the server, in bytes.
    pub server_resident_bytes: Option<u64>,
    /// CPU time of the generator as a part of one core, without what it was awake for nothing, where
    /// the system tells.
    pub generator_cores: Option<f64>,
    /// Resident memory of the generator, in bytes.
    pub generator_resident_bytes: Option<u64>,
}

impl SecondResult {
    /// So many a second, of the part that was measured; none where that was too short.
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    pub fn rate(&self, count: u64) -> Option<f64> {
        (self.span_s >= RATE_SPAN_S_MIN).then(|| count as f64 / self.span_s)
    }
}

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
        let response = Percentiles::of(period.latencies.response());
        let failures = Failure::ALL.map(|kind| (kind.name().into(), period.outcomes.failed(kind)));
        let result = SecondResult {
            at_s: until.as_secs_f64(),
            span_s: until.saturating_sub(from.max(self.warm_up)).as_secs_f64(),
            due: period.due,
            sent: period.sent,
            answered: period.outcomes.answered,
            failed: period.outcomes.failures(),
            failures: failures.into_iter().filter(|(_, count)| *count > 0).collect(),
            p50_us: response.p50_us,
            p90_us: response.p90_us,
            p99_us: response.p99_us,
            p999_us: response.p999_us,
            max_us: response.max_us,
            service_p99_us: Percentiles::of(period.latencies.service()).p99_us,
            lag_p99_us: Percentiles::of(&period.lag).p99_us,
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

#[cfg(test)]
mod tests {
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
