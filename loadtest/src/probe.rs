//! Executes a search for the highest rate, one run after the other.
//!
//! Invariants: only a run whose generator kept its schedule counts for or against the server. Runs
//! that the generator spoiled stay in the result, so that it shows whether the server or the
//! generator was the limit. A rate at which requests went unsent because the server was too slow
//! counts as failed by the server. The caller supplies the function that executes a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::plan::thresholds::DEFAULT_ERRORS_MAX;
use crate::plan::{HumanDuration, PhasePlan, Plan};
use crate::result::RunResult;
use crate::search::{Search, SearchOptions, SearchOutcome};

/// Shortest drain of a probe.
const DRAIN_MIN: Duration = Duration::from_secs(1);
/// Repetitions of a run that the generator spoiled, before its rate is given up: a hiccup of the
/// machine passes, an overloaded generator does not recover.
const RETRIES_MAX: u32 = 2;

/// Returns the plan of a run at `rate`: one phase and a short drain. Too high a rate leaves many
/// requests unanswered; twice the highest allowed latency is enough to detect that.
pub fn trial_plan(plan: &Plan, rate: f64, span: HumanDuration) -> Plan {
    let phases = vec![PhasePlan::constant(rate, span)];
    let longest = plan.thresholds.latency_max().map_or(DRAIN_MIN, |it| it.get() * 2);
    let drain = HumanDuration::from(longest.max(DRAIN_MIN)).min(plan.response_timeout);
    let mut plan = Plan { phases, ..plan.clone() };
    plan.drain_timeout.get_or_insert(drain);
    plan.thresholds.errors.get_or_insert(DEFAULT_ERRORS_MAX);
    plan
}

/// Result of one run, reduced to what the search needs.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Trial {
    /// Successful responses per second.
    pub answered: f64,
    /// 99th percentile of the response time, in microseconds.
    pub p99_us: f64,
    /// Fraction of all requests that failed.
    pub failure_ratio: f64,
    /// Whether the generator kept its schedule, so that failures are the server's.
    pub is_valid: bool,
    /// Checks that the run failed; empty if it passed.
    #[serde(rename = "against")]
    pub failed_checks: Vec<String>,
}

impl Trial {
    /// Reduces the result of a run.
    pub fn from_result(result: &RunResult) -> Self {
        let verdict = &result.verdict;
        Self {
            answered: result.totals.rate,
            p99_us: result.response.p99_us,
            failure_ratio: result.totals.failure_ratio,
            is_valid: !verdict.is_generator_limited(),
            failed_checks: verdict.reason_texts(),
        }
    }

    /// Returns whether the run is valid and met every threshold.
    pub const fn has_passed(&self) -> bool {
        self.is_valid && self.failed_checks.is_empty()
    }
}

/// One run of a search.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Probe {
    /// Number of the run, from 1.
    pub number: u32,
    /// Rate, in requests per second.
    pub rate: f64,
    /// Result of the run.
    pub trial: Trial,
}

/// Result of a search with all of its runs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct SearchResult {
    /// The highest rate found, or why there is none.
    pub answer: SearchOutcome,
    /// All runs in execution order.
    pub probes: Vec<Probe>,
}

impl SearchResult {
    /// Returns the run that bounds the answer from above: the last failed run at the lowest failed
    /// rate above the answer, or `None` if no higher rate was tried.
    pub fn limiting_probe(&self) -> Option<&Probe> {
        let rate = self.answer.rate().unwrap_or(0.0);
        let above = self.probes.iter().rev();
        above
            .filter(|probe| probe.rate > rate && !probe.trial.has_passed())
            .min_by(|one, other| one.rate.total_cmp(&other.rate))
    }
}

/// Searches for the highest rate with `run`, which executes a run at a rate in requests per second.
/// `on_probe` is called after each run. A run that the generator spoiled is repeated at most twice
/// and does not use up the run limit of the search.
///
/// # Errors
///
/// Returns the first error of `run`.
pub fn search<E>(
    bounds: SearchOptions,
    mut run: impl FnMut(f64) -> Result<Trial, E>,
    mut on_probe: impl FnMut(&Probe),
) -> Result<SearchResult, E> {
    let mut search = Search::new(bounds);
    let mut probes = Vec::new();
    let mut number = 0;
    while let Some(rate) = search.next_rate() {
        let mut repeats = 0;
        loop {
            number += 1;
            let probe = Probe { number, rate, trial: run(rate)? };
            on_probe(&probe);
            let (is_valid, has_passed) = (probe.trial.is_valid, probe.trial.has_passed());
            probes.push(probe);
            if is_valid || repeats == RETRIES_MAX {
                search.record_run(has_passed);
                break;
            }
            repeats += 1;
        }
    }
    // `next_rate` returns `None` only after an answer exists.
    let answer = search.outcome().unwrap_or(SearchOutcome::TooSlow);
    Ok(SearchResult { answer, probes })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::result::Verdict;

    /// A result with a default verdict.
    fn result() -> RunResult {
        let percentiles = json!(crate::result::Percentiles::default());
        serde_json::from_value(json!({
            "verdict": Verdict::default(),
            "plan": Plan::new("tcp://localhost:1"),
            "manifest": crate::result::Manifest::default(),
            "totals": crate::result::Totals::default(),
            "response": percentiles, "service": percentiles, "lag": percentiles,
            "generator": crate::result::ProcessCost::default(),
            "server": null,
            "seconds": [],
        }))
        .unwrap()
    }

    fn bounds() -> SearchOptions {
        SearchOptions { rate_min: 10.0, rate_max: 1e6, ..SearchOptions::default() }
    }

    /// Simulates a server that passes up to `rate_max`.
    fn server_up_to(rate_max: f64) -> impl FnMut(f64) -> Result<Trial, String> {
        move |rate| {
            let against =
                if rate <= rate_max { Vec::new() } else { vec![format!("p99 at {rate:.0}")] };
            Ok(Trial { answered: rate, is_valid: true, failed_checks: against, ..Trial::default() })
        }
    }

    #[test]
    fn search_reports_every_run_in_order() {
        let mut reported = Vec::new();
        let found =
            search(bounds(), server_up_to(5_000.0), |probe| reported.push(probe.clone())).unwrap();
        assert_eq!(reported, found.probes);
        assert!((1..).zip(&reported).all(|(number, probe)| probe.number == number));
        let SearchOutcome::Found { rate, passes, .. } = found.answer else { panic!("{found:?}") };
        let at_answer = reported.iter().filter(|probe| (probe.rate - rate).abs() < f64::EPSILON);
        assert!(at_answer.clone().all(|probe| probe.trial.has_passed()));
        assert_eq!((at_answer.count(), passes), (3, 3));
    }

    #[test]
    fn search_limit_is_lowest_failed_rate() {
        let found = search(bounds(), server_up_to(5_000.0), |_| {}).unwrap();
        let limit = found.limiting_probe().unwrap();
        assert!(limit.rate > 5_000.0 && limit.rate <= 5_000.0 * 1.05, "{limit:?}");
        let failed = found.probes.iter().filter(|probe| !probe.trial.has_passed());
        assert!(failed.map(|probe| probe.rate).all(|rate| rate >= limit.rate));
    }

    #[test]
    fn search_without_failure_has_no_limit() {
        let found = search(bounds(), server_up_to(1e9), |_| {}).unwrap();
        assert!(matches!(found.answer, SearchOutcome::Found { is_ceiling: true, .. }));
        assert_eq!(found.limiting_probe(), None);
    }

    #[test]
    fn search_run_spoiled_by_generator_fails() {
        let mut server = server_up_to(1e9);
        let found = search(
            bounds(),
            |rate| {
                let trial = server(rate)?;
                Ok::<_, String>(Trial { is_valid: rate <= 2_000.0, ..trial })
            },
            |_| {},
        );
        let found = found.unwrap();
        let SearchOutcome::Found { rate, .. } = found.answer else { panic!("{found:?}") };
        assert!(rate <= 2_000.0 && !found.limiting_probe().unwrap().trial.is_valid);
    }

    #[test]
    fn search_repeats_run_after_generator_hiccup() {
        let mut server = server_up_to(5_000.0);
        let mut runs = 0;
        let found = search(
            bounds(),
            |rate| {
                runs += 1;
                let trial = server(rate)?;
                Ok::<_, String>(Trial { is_valid: runs % 3 != 0, ..trial })
            },
            |_| {},
        );
        let found = found.unwrap();
        let SearchOutcome::Found { rate, passes: 3, .. } = found.answer else {
            panic!("{found:?}")
        };
        assert!(rate <= 5_000.0 && rate * 1.02 >= 5_000.0, "{rate}");
        assert!(found.limiting_probe().unwrap().trial.is_valid, "{:?}", found.limiting_probe());
        assert_eq!(found.probes.len(), runs);
    }

    #[test]
    fn trial_beyond_server_limit_stays_valid() {
        let verdict = Verdict { saturated: vec!["too slow".into()], ..Verdict::default() };
        let trial = Trial::from_result(&RunResult { verdict, ..result() });
        assert!(trial.is_valid && !trial.has_passed());
        assert_eq!(trial.failed_checks, ["too slow"]);
        let verdict = Verdict { invalid: vec!["late".into()], ..Verdict::default() };
        assert!(!Trial::from_result(&RunResult { verdict, ..result() }).is_valid);
    }

    #[test]
    fn trial_plan_drain_follows_latency_threshold() {
        let mut plan = Plan::new("tcp://localhost:1");
        let drain = |plan: &Plan| trial_plan(plan, 10.0, HumanDuration::from_secs(1)).drain_timeout;
        assert_eq!(drain(&plan), Some(HumanDuration::from_secs(1)));
        plan.thresholds.p99 = Some(HumanDuration::from_secs(3));
        assert_eq!(drain(&plan), Some(HumanDuration::from_secs(6)));
        plan.thresholds.p99 = Some(HumanDuration::from_secs(3_600));
        assert_eq!(drain(&plan), Some(plan.response_timeout));
        plan.drain_timeout = Some(HumanDuration::from_secs(2));
        assert_eq!(drain(&plan), Some(HumanDuration::from_secs(2)));
    }

    #[test]
    fn trial_plan_without_error_threshold_allows_default() {
        let mut plan = Plan::new("tcp://localhost:1");
        let errors =
            |plan: &Plan| trial_plan(plan, 10.0, HumanDuration::from_secs(1)).thresholds.errors;
        assert_eq!(errors(&plan), Some(0.01));
        plan.thresholds.errors = Some(0.2);
        assert_eq!(errors(&plan), Some(0.2));
    }

    #[test]
    fn search_ends_when_run_returns_error() {
        let mut runs = 0;
        let ended = search(
            bounds(),
            |rate| {
                runs += 1;
                if runs < 3 { server_up_to(1e9)(rate) } else { Err("gone".into()) }
            },
            |_| {},
        );
        assert_eq!((ended.unwrap_err(), runs), ("gone".to_string(), 3));
    }
}
