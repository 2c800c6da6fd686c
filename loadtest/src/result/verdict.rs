//! Whether a run counts, and whether it passed.

use serde::{Deserialize, Serialize};

use super::{Cost, OpeningsResult, Percentiles, Totals};
use crate::plan::Plan;

/// The part of what was due that has to be sent for a run to count.
const SENT_MIN: f64 = 0.99;
/// How late the generator may be with one request in a hundred, in microseconds.
const LAG_P99_US_MAX: f64 = 1_000.0;
/// The part of its cores that the generator may use before what it measures is itself.
const CORES_MAX: f64 = 0.95;

/// What a run is worth.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Verdict {
    /// Why the generator itself has spoiled the run; empty where it has not.
    pub invalid: Vec<String>,
    /// Which thresholds it missed.
    pub missed: Vec<String>,
}

impl Verdict {
    /// Whether the run counts: the generator kept its plan.
    pub const fn is_valid(&self) -> bool {
        self.invalid.is_empty()
    }

    /// Whether it counts and every threshold held.
    pub const fn has_passed(&self) -> bool {
        self.is_valid() && self.missed.is_empty()
    }

    /// Connections that did not come back are failures, though no request failed by them.
    pub(super) fn miss(&mut self, plan: &Plan, openings: &OpeningsResult) {
        let OpeningsResult { unopened, .. } = openings;
        if plan.thresholds.errors.is_some() && *unopened > 0 {
            self.missed
                .push(format!("{unopened} connections that were replaced did not come back"));
        }
    }

    pub(super) fn of(
        plan: &Plan,
        totals: &Totals,
        (response, lag): (&Percentiles, &Percentiles),
        (generator, workers): (&Cost, u32),
    ) -> Self {
        let mut verdict = Self::default();
        let mut spoil = |is_spoiled: bool, why: String| {
            if is_spoiled {
                verdict.invalid.push(why);
            }
        };
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let sent = totals.sent as f64 / totals.due.max(1) as f64;
        spoil(
            totals.due > 0 && sent < SENT_MIN,
            format!(
                "only {:.1} % of the requests that were due could be sent; the server was too slow \
                 for this rate on these connections: lower the rate, or allow more connections or \
                 depth",
                sent * 100.0
            ),
        );
        spoil(
            lag.p99_us > LAG_P99_US_MAX,
            format!(
                "the generator was {:.0} us late at the 99th percentile ({LAG_P99_US_MAX:.0} \
                 allowed): give it more workers, or cores that nobody else uses",
                lag.p99_us
            ),
        );
        spoil(
            !plan.closed && generator.cores > CORES_MAX * f64::from(workers),
            format!(
                "the generator used {:.2} cores of its {workers}: give it more workers",
                generator.cores
            ),
        );
        spoil(
            totals.opened < plan.connections as u64,
            format!(
                "only {} of {} connections opened{}",
                totals.opened,
                plan.connections,
                totals.refused.as_ref().map(|why| format!(": {why}")).unwrap_or_default()
            ),
        );
        verdict.missed = misses(plan, totals, response);
        verdict
    }
}

fn misses(plan: &Plan, totals: &Totals, response: &Percentiles) -> Vec<String> {
    let bounds = &plan.thresholds;
    let mut missed = Vec::new();
    for (name, bound, us) in [
        ("p50", bounds.p50, response.p50_us),
        ("p99", bounds.p99, response.p99_us),
        ("p99.9", bounds.p999, response.p999_us),
    ] {
        let Some(bound) = bound else { continue };
        // Without a single answer no latency is short.
        if us > bound.duration().as_secs_f64() * 1e6 || response.count == 0 {
            missed.push(format!("{name} {us:.0} us, {bound} allowed"));
        }
    }
    if let Some(bound) = bounds.errors
        && totals.failure_ratio > bound
    {
        missed.push(format!("errors {:.4}, {bound} allowed", totals.failure_ratio));
    }
    if let Some(bound) = bounds.rate
        && totals.rate < bound
    {
        missed.push(format!("{:.0} answers a second, {bound} wanted", totals.rate));
    }
    if bounds.errors.is_some() && totals.unasked > 0 {
        missed.push(format!("{} answers that nobody had asked for", totals.unasked));
    }
    missed
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::plan::Span;

    fn verdict(
        change: impl FnOnce(&mut Plan, &mut Totals, &mut Percentiles, &mut Percentiles),
    ) -> Verdict {
        let mut plan = Plan::new("tcp://localhost:1");
        let mut totals =
            Totals { due: 1_000, sent: 1_000, answered: 1_000, opened: 64, ..Totals::default() };
        let mut response = Percentiles { count: 1_000, p99_us: 900.0, ..Percentiles::default() };
        let mut lag = Percentiles::default();
        change(&mut plan, &mut totals, &mut response, &mut lag);
        Verdict::of(&plan, &totals, (&response, &lag), (&Cost::default(), 1))
    }

    #[test]
    fn a_run_that_kept_its_plan_counts() {
        assert!(verdict(|_, _, _, _| {}).has_passed());
    }

    #[test]
    fn a_run_that_could_not_send_what_was_due_does_not_count() {
        let verdict = verdict(|_, totals, _, _| totals.sent = 980);
        assert!(!verdict.is_valid() && verdict.invalid[0].contains("98.0 %"));
    }

    #[test]
    fn a_generator_that_was_late_spoils_the_run() {
        assert!(!verdict(|_, _, _, lag| lag.p99_us = 1_500.0).is_valid());
    }

    #[test]
    fn connections_that_did_not_open_spoil_the_run_with_their_reason() {
        let verdict = verdict(|_, totals, _, _| {
            totals.opened = 60;
            totals.refused = Some("full".into());
        });
        assert!(verdict.invalid[0].contains("60 of 64") && verdict.invalid[0].contains("full"));
    }

    #[test]
    fn thresholds_are_missed_one_by_one_and_the_run_still_counts() {
        let verdict = verdict(|plan, totals, _, _| {
            plan.thresholds.p99 = Some(Span::from(Duration::from_micros(500)));
            plan.thresholds.p50 = Some(Span::from(Duration::from_micros(500)));
            plan.thresholds.errors = Some(0.001);
            totals.failure_ratio = 0.01;
        });
        assert!(verdict.is_valid() && !verdict.has_passed());
        assert_eq!(verdict.missed.len(), 2, "{:?}", verdict.missed);
    }

    #[test]
    fn connections_that_did_not_come_back_miss_the_bound_of_errors() {
        let openings = OpeningsResult { unopened: 3, ..OpeningsResult::default() };
        let mut plan = Plan::new("tcp://127.0.0.1:1");
        let mut verdict = Verdict::default();
        verdict.miss(&plan, &openings);
        assert!(verdict.has_passed(), "nobody had asked");
        plan.thresholds.errors = Some(0.5);
        verdict.miss(&plan, &openings);
        assert!(verdict.missed[0].contains("3 connections"), "{:?}", verdict.missed);
    }

    #[test]
    fn a_run_without_an_answer_keeps_no_bound_of_latency() {
        let verdict = verdict(|plan, _, response, _| {
            plan.thresholds.p99 = Some(Span::seconds(1));
            *response = Percentiles::default();
        });
        assert_eq!(verdict.missed.len(), 1);
    }
}
