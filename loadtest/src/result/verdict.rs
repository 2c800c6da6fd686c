//! Verdict on a run: whether it is valid, and whether it kept its thresholds.
//!
//! A late or CPU-bound load generator makes a run invalid. The server is considered saturated only
//! if requests could not be sent although the generator was neither.

use serde::{Deserialize, Serialize};

use super::{ConnectionsResult, ListenResult, Percentiles, ProcessCost, Totals};
use crate::plan::{Plan, Thresholds};

/// Share of the due requests that has to be sent for a run to be valid.
const SENT_MIN: f64 = 0.99;
/// CPU usage of the load threads from which the generator counts as CPU-bound.
const CORES_MAX: f64 = 0.95;

/// The verdict on a run.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Verdict {
    /// Reasons why the load generator invalidated the run; empty if it did not.
    pub invalid: Vec<String>,
    /// Reasons why the server is saturated: due requests could not be sent because all connections
    /// were busy. Such a run measures nothing at its rate, but shows that the rate is above
    /// capacity.
    #[serde(default)]
    pub saturated: Vec<String>,
    /// Thresholds that were missed.
    pub missed_thresholds: Vec<String>,
}

/// What made a run invalid.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InvalidCause {
    /// The load generator was late, CPU-bound, or could not open its connections.
    Generator,
    /// The server was saturated.
    Server,
}

impl Verdict {
    /// Returns whether the run is valid: due requests were sent, and in time.
    pub const fn is_valid(&self) -> bool {
        self.invalid_cause().is_none()
    }

    /// Returns what made the run invalid, or `None` if it is valid.
    pub const fn invalid_cause(&self) -> Option<InvalidCause> {
        if !self.invalid.is_empty() {
            Some(InvalidCause::Generator)
        } else if !self.saturated.is_empty() {
            Some(InvalidCause::Server)
        } else {
            None
        }
    }

    /// Returns whether the run is valid and kept all thresholds.
    pub const fn has_passed(&self) -> bool {
        self.is_valid() && self.missed_thresholds.is_empty()
    }

    /// Adds a missed threshold for connections that were not reopened, if errors are limited.
    pub(super) fn check_reopened(&mut self, plan: &Plan, openings: &ConnectionsResult) {
        let ConnectionsResult { not_reopened: unopened, .. } = openings;
        if plan.thresholds.errors.is_some() && *unopened > 0 {
            self.missed_thresholds
                .push(format!("{unopened} replaced connections were not reopened"));
        }
    }

    pub(super) fn evaluate(
        plan: &Plan,
        totals: &Totals,
        (response, lag): (&Percentiles, &Percentiles),
        (generator, workers): (&ProcessCost, u32),
    ) -> Self {
        let mut verdict = Self::default();
        let is_late = lag.p99_us > plan.lag_max.get().as_secs_f64() * 1e6;
        let is_busy = !plan.closed && generator.cores >= CORES_MAX * f64::from(workers);
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let sent = totals.sent as f64 / totals.due.max(1) as f64;
        if totals.due > 0 && sent < SENT_MIN {
            let only = format!("only {:.1} % of the due requests were sent", sent * 100.0);
            if is_late || is_busy {
                verdict.invalid.push(format!("{only}, and the load generator was late or busy"));
            } else {
                verdict.saturated.push(format!(
                    "{only}: the server is saturated. The load generator was in time (p99 lag \
                     {:.0} us, {:.2} of {workers} cores used), but every connection was busy{}: \
                     lower the rate, or allow more connections or depth",
                    lag.p99_us,
                    generator.cores,
                    if totals.lost > 0 {
                        format!(", {} were lost", totals.lost)
                    } else {
                        String::new()
                    }
                ));
            }
        }
        let mut spoil = |is_spoiled: bool, why: String| {
            if is_spoiled {
                verdict.invalid.push(why);
            }
        };
        spoil(
            is_late,
            format!(
                "the load generator was {:.0} us late at the 99th percentile (limit {}): use more \
                 --threads, or dedicated --cores",
                lag.p99_us, plan.lag_max
            ),
        );
        spoil(
            is_busy,
            format!(
                "the load generator used {:.2} of {workers} cores: use more --threads",
                generator.cores
            ),
        );
        spoil(
            totals.due == 0 && (plan.closed || plan.profile().rate_max() > 0.0),
            "no request was due while the run was measured: raise the rate, or measure for longer"
                .into(),
        );
        spoil(
            totals.opened < plan.total_connections() as u64,
            format!(
                "only {} of {} connections opened{}",
                totals.opened,
                plan.total_connections(),
                totals.last_error.as_ref().map(|why| format!(": {why}")).unwrap_or_default()
            ),
        );
        verdict.missed_thresholds = missed_thresholds(plan, totals, response);
        verdict
    }

    /// Adds missed thresholds of the fan-out.
    pub(super) fn check_deliveries(&mut self, bounds: &Thresholds, listen: &ListenResult) {
        let ListenResult { missed, unexpected: stray, last, .. } = listen;
        let ratio = listen.missed_ratio();
        if let Some(bound) = bounds.last_delivery {
            let us = last.max_us;
            // If a notification was missed or nothing was published, there is no last delivery.
            if ratio > 0.0 {
                self.missed_thresholds
                    .push(format!("last_delivery: {missed} missed, limit {bound}"));
            } else if us > bound.get().as_secs_f64() * 1e6 {
                self.missed_thresholds.push(format!("last_delivery {us:.0} us, limit {bound}"));
            }
        }
        let Some(bound) = bounds.errors else { return };
        if ratio > bound {
            self.missed_thresholds.push(format!("missed deliveries {ratio:.4}, limit {bound}"));
        }
        if *stray > 0 {
            self.missed_thresholds
                .push(format!("{stray} notifications were duplicate, late or unexpected"));
        }
    }
}

fn missed_thresholds(plan: &Plan, totals: &Totals, response: &Percentiles) -> Vec<String> {
    let bounds = &plan.thresholds;
    let mut missed = Vec::new();
    for (name, bound, us) in [
        ("p50", bounds.p50, response.p50_us),
        ("p99", bounds.p99, response.p99_us),
        ("p99.9", bounds.p999, response.p999_us),
    ] {
        let Some(bound) = bound else { continue };
        // Without a response there is no latency that could keep the limit.
        if us > bound.get().as_secs_f64() * 1e6 || response.count == 0 {
            missed.push(format!("{name} {us:.0} us, limit {bound}"));
        }
    }
    if let Some(bound) = bounds.errors
        && totals.failure_ratio > bound
    {
        missed.push(format!("errors {:.4}, limit {bound}", totals.failure_ratio));
    }
    if let Some(bound) = bounds.rate
        && totals.rate < bound
    {
        missed.push(format!("{:.0} responses a second, at least {bound} required", totals.rate));
    }
    if bounds.errors.is_some() && totals.unsolicited > 0 {
        missed.push(format!("{} responses without a matching request", totals.unsolicited));
    }
    missed
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::HumanDuration;
    use crate::result::listen::MinMedianMax;

    fn verdict(
        change: impl FnOnce(&mut Plan, &mut Totals, &mut Percentiles, &mut Percentiles),
    ) -> Verdict {
        verdict_at(0.5, change)
    }

    /// Returns the verdict on a run whose single load thread used this much of its core.
    fn verdict_at(
        cores: f64,
        change: impl FnOnce(&mut Plan, &mut Totals, &mut Percentiles, &mut Percentiles),
    ) -> Verdict {
        let mut plan = Plan::new("tcp://localhost:1");
        let mut totals =
            Totals { due: 1_000, sent: 1_000, answered: 1_000, opened: 64, ..Totals::default() };
        let mut response = Percentiles { count: 1_000, p99_us: 900.0, ..Percentiles::default() };
        let mut lag = Percentiles::default();
        change(&mut plan, &mut totals, &mut response, &mut lag);
        let generator = ProcessCost { cores, ..ProcessCost::default() };
        Verdict::evaluate(&plan, &totals, (&response, &lag), (&generator, 1))
    }

    #[test]
    fn run_without_lag_has_passed() {
        assert!(verdict(|_, _, _, _| {}).has_passed());
    }

    #[test]
    fn unsent_requests_without_lag_mean_server_saturated() {
        let verdict = verdict(|_, totals, _, _| totals.sent = 980);
        assert!(!verdict.is_valid() && verdict.invalid.is_empty());
        assert_eq!(verdict.invalid_cause(), Some(InvalidCause::Server));
        assert!(verdict.saturated[0].contains("98.0 %") && verdict.saturated[0].contains("server"));
    }

    #[test]
    fn unsent_requests_with_lag_blame_generator() {
        let verdict = verdict(|_, totals, _, lag| {
            totals.sent = 980;
            lag.p99_us = 1_500.0;
        });
        assert_eq!(
            (verdict.invalid_cause(), verdict.invalid.len()),
            (Some(InvalidCause::Generator), 2)
        );
        assert!(verdict.saturated.is_empty() && verdict.invalid[0].contains("98.0 %"));
    }

    #[test]
    fn unsent_requests_with_busy_generator_blame_generator() {
        let verdict = verdict_at(0.95, |_, totals, _, _| totals.sent = 980);
        assert_eq!(
            (verdict.invalid_cause(), verdict.invalid.len()),
            (Some(InvalidCause::Generator), 2)
        );
        assert!(verdict.saturated.is_empty() && verdict.invalid[1].contains("more --threads"));
    }

    #[test]
    fn verdict_without_saturated_key_is_readable() {
        let kept: Verdict =
            serde_json::from_str(r#"{"invalid":["late"],"missed_thresholds":[]}"#).unwrap();
        assert_eq!(kept.invalid_cause(), Some(InvalidCause::Generator));
    }

    #[test]
    fn run_without_due_requests_is_invalid() {
        let verdict = |holds: bool| {
            verdict(|plan, totals, _, _| {
                (totals.due, totals.sent, totals.answered) = (0, 0, 0);
                plan.closed = !holds;
            })
        };
        assert!(verdict(false).invalid[0].contains("no request"));
        assert!(verdict(true).is_valid(), "idle connections send no requests");
    }

    #[test]
    fn lag_limit_comes_from_the_plan() {
        let late = |lag_max| {
            verdict(|plan, _, _, lag| {
                lag.p99_us = 1_500.0;
                plan.lag_max = lag_max;
            })
        };
        assert!(late(HumanDuration::from(Duration::from_millis(2))).is_valid());
        assert!(
            late(HumanDuration::from(Duration::from_millis(1))).invalid[0].contains("limit 1ms")
        );
    }

    #[test]
    fn late_generator_invalidates_the_run() {
        assert!(!verdict(|_, _, _, lag| lag.p99_us = 1_500.0).is_valid());
    }

    #[test]
    fn unopened_connections_invalidate_run_with_reason() {
        let verdict = verdict(|_, totals, _, _| {
            totals.opened = 60;
            totals.last_error = Some("full".into());
        });
        assert!(verdict.invalid[0].contains("60 of 64") && verdict.invalid[0].contains("full"));
    }

    #[test]
    fn each_missed_threshold_is_listed() {
        let verdict = verdict(|plan, totals, _, _| {
            plan.thresholds.p99 = Some(HumanDuration::from(Duration::from_micros(500)));
            plan.thresholds.p50 = Some(HumanDuration::from(Duration::from_micros(500)));
            plan.thresholds.errors = Some(0.001);
            totals.failure_ratio = 0.01;
        });
        assert!(verdict.is_valid() && !verdict.has_passed());
        assert_eq!(verdict.missed_thresholds.len(), 2, "{:?}", verdict.missed_thresholds);
    }

    #[test]
    fn connections_not_reopened_miss_errors_threshold() {
        let openings = ConnectionsResult { not_reopened: 3, ..ConnectionsResult::default() };
        let mut plan = Plan::new("tcp://127.0.0.1:1");
        let mut verdict = Verdict::default();
        verdict.check_reopened(&plan, &openings);
        assert!(verdict.has_passed(), "no threshold of errors is set");
        plan.thresholds.errors = Some(0.5);
        verdict.check_reopened(&plan, &openings);
        assert!(
            verdict.missed_thresholds[0].contains("3 replaced connections"),
            "{:?}",
            verdict.missed_thresholds
        );
    }

    #[test]
    fn missed_delivery_violates_thresholds() {
        let verdict = |missed, stray, last_us| {
            let bounds = Thresholds {
                last_delivery: Some(HumanDuration::from_secs(1)),
                errors: Some(0.1),
                ..Thresholds::default()
            };
            let last = MinMedianMax { max_us: last_us, ..MinMedianMax::default() };
            let listen = ListenResult {
                delivered: 8,
                missed,
                unexpected: stray,
                last,
                ..ListenResult::default()
            };
            let mut verdict = Verdict::default();
            verdict.check_deliveries(&bounds, &listen);
            verdict.missed_thresholds
        };
        assert_eq!(verdict(0, 0, 1e6), [""; 0]);
        assert_eq!(verdict(0, 0, 1_000_001.0), ["last_delivery 1000001 us, limit 1s"]);
        let missed = ["last_delivery: 2 missed, limit 1s", "missed deliveries 0.2000, limit 0.1"];
        assert_eq!(verdict(2, 0, 5.0), missed);
        assert_eq!(verdict(0, 1, 5.0).len(), 1);
    }

    #[test]
    fn run_without_response_misses_latency_threshold() {
        let verdict = verdict(|plan, _, response, _| {
            plan.thresholds.p99 = Some(HumanDuration::from_secs(1));
            *response = Percentiles::default();
        });
        assert_eq!(verdict.missed_thresholds.len(), 1);
    }
}
