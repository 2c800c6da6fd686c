//! Executes a search for the highest rate, one run after the other.
//!
//! Invariants: only a run whose generator kept its schedule counts for the server. A run that the
//! generator spoiled counts like a disturbed one: it is repeated. Such runs stay in the result, so
//! that it shows whether the server or the generator was the limit. A rate at which requests went
//! unsent because the server was too slow counts as failed by the server. The caller supplies the
//! function that executes a run.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::generator::StopRequest;
use crate::plan::thresholds::DEFAULT_ERRORS_MAX;
use crate::plan::{HumanDuration, PhasePlan, Plan, RATE_MAX, SweepPlan};
use crate::result::RunResult;
use crate::search::{Search, SearchOptions, SearchOutcome};

/// Shortest drain of a probe.
const DRAIN_MIN: Duration = Duration::from_secs(1);
/// Measured time of a run, in response times of one connection, and its limits.
const RESPONSES_MEASURED: u32 = 20;
/// The same without a latency limit: whether the backlog grows shows only over many of them.
const RESPONSES_WITHOUT_LATENCY: u32 = 300;
const MEASURED_MIN: Duration = Duration::from_secs(1);
const MEASURED_MAX: Duration = Duration::from_secs(10);
/// Warm-up of a run, in the same response times, and its shortest time.
const RESPONSES_WARM_UP: u32 = 5;
const WARM_UP_MIN: Duration = Duration::from_millis(500);
/// Runs in a row that the generator spoiled at rates that it has kept before, after which a search
/// ends: it would only find how busy the machine is.
const SPOILED_RUNS_MAX: usize = 6;
/// The same for a generator that has kept no rate.
const SPOILED_RUNS_AT_FIRST_MAX: usize = 24;

/// What one connection with one request at a time reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SearchScale {
    /// Median response time, or `None` if nothing was answered.
    response: Option<Duration>,
}

impl SearchScale {
    /// Returns the plan of the run that measures the scale for `span`: a closed loop over one
    /// connection.
    pub fn plan(plan: &Plan, span: HumanDuration) -> Plan {
        Plan {
            closed: true,
            connections: 1,
            depth: 1,
            poisson: false,
            warm_up: HumanDuration::from_secs(0),
            phases: vec![PhasePlan::constant(1.0, span)],
            churn: None,
            slow_readers: None,
            listen: None,
            ..plan.clone()
        }
    }

    /// Returns the times at which [`SearchScale::plan`] is tried until something is answered.
    pub fn spans(plan: &Plan) -> [HumanDuration; 2] {
        [HumanDuration::from_secs(1), plan.response_timeout]
    }

    /// Reads the scale from the result of its run.
    pub fn from_result(result: &RunResult) -> Self {
        let seconds = result.response.p50_us.map(|us| us / 1e6);
        let response = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        Self { response: response.filter(|response| !response.is_zero()) }
    }

    /// Returns whether something was answered.
    pub const fn is_known(&self) -> bool {
        self.response.is_some()
    }

    /// Returns the median response time, or `None` if nothing was answered.
    pub const fn response(&self) -> Option<Duration> {
        self.response
    }

    /// Returns the requests a second; 1 if nothing was answered.
    pub fn rate(&self) -> f64 {
        self.response.map_or(1.0, |response| response.as_secs_f64().recip().min(RATE_MAX))
    }

    /// Returns the plan of all runs of a search, and their measured time: `measured`, or what the
    /// response time asks for, with a shorter warm-up.
    pub fn trials(&self, plan: &Plan, measured: Option<HumanDuration>) -> (Plan, HumanDuration) {
        if let Some(measured) = measured {
            return (plan.clone(), measured);
        }
        let response = self.response.unwrap_or_default();
        let responses = match plan.thresholds.latency_max() {
            Some(_) => RESPONSES_MEASURED,
            None => RESPONSES_WITHOUT_LATENCY,
        };
        let measured = (response * responses).clamp(MEASURED_MIN, MEASURED_MAX);
        let warm_up = HumanDuration::from((response * RESPONSES_WARM_UP).max(WARM_UP_MIN));
        let plan = Plan { warm_up: warm_up.min(plan.warm_up), ..plan.clone() };
        (plan, measured.into())
    }

    /// Returns the settings of the search.
    pub fn options(&self, plan: &SweepPlan) -> SearchOptions {
        SearchOptions::new(plan, self.rate())
    }
}

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
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Trial {
    /// Successful responses per second.
    pub answered: f64,
    /// 99th percentile of the response time, in microseconds.
    #[serde(default, deserialize_with = "crate::metrics::unmeasured::measured")]
    pub p99_us: Option<f64>,
    /// Fraction of all requests that failed; `None` without a request.
    pub failure_ratio: Option<f64>,
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
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Probe {
    /// Number of the run, from 1.
    pub number: u32,
    /// Rate, in requests per second.
    pub rate: f64,
    /// Result of the run.
    pub trial: Trial,
}

/// Result of a search with all of its runs.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SearchResult {
    /// The highest rate found, or why there is none.
    pub answer: SearchOutcome,
    /// All runs in execution order.
    pub probes: Vec<Probe>,
    /// Whether the search was stopped before its end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_stopped: bool,
}

impl SearchResult {
    /// Returns whether the search ended because the generator spoiled its last runs.
    pub fn is_spoiled(&self) -> bool {
        are_spoiled(&self.probes)
    }

    /// Returns the highest rate below `rate` at which every valid run passed.
    pub fn passed_rate_below(&self, rate: f64) -> Option<f64> {
        let valid = || self.probes.iter().filter(|probe| probe.trial.is_valid);
        let failed = valid().filter(|probe| !probe.trial.has_passed());
        let failed: Vec<f64> = failed.map(|probe| probe.rate).collect();
        let passed = valid().map(|probe| probe.rate).filter(|it| *it < rate);
        passed.filter(|rate| !failed.iter().any(|it| it.total_cmp(rate).is_eq())).reduce(f64::max)
    }

    /// Returns the run that bounds the answer from above: the last failed run at the lowest failed
    /// rate above the answer, a valid one if there is any, or `None` if no higher rate was tried.
    pub fn limiting_probe(&self) -> Option<&Probe> {
        let rate = self.answer.rate().unwrap_or(0.0);
        let above = self.probes.iter().rev();
        above.filter(|probe| probe.rate > rate && !probe.trial.has_passed()).min_by(|one, other| {
            let is_spoiled = |probe: &Probe| !probe.trial.is_valid;
            let by_rate = one.rate.total_cmp(&other.rate);
            by_rate.then_with(|| is_spoiled(one).cmp(&is_spoiled(other)))
        })
    }
}

/// Returns whether the generator spoiled too many of the last runs.
fn are_spoiled(probes: &[Probe]) -> bool {
    let kept = probes.iter().filter(|probe| probe.trial.is_valid);
    let kept = kept.map(|probe| probe.rate).reduce(f64::max);
    let (rate, runs_max) =
        kept.map_or((f64::INFINITY, SPOILED_RUNS_AT_FIRST_MAX), |rate| (rate, SPOILED_RUNS_MAX));
    let is_spoiled = |probe: &&Probe| !probe.trial.is_valid && probe.rate <= rate;
    probes.iter().rev().take_while(is_spoiled).count() >= runs_max
}

/// Searches for the highest rate with `run`, which executes a run at a rate in requests per second.
/// `on_probe` is called after each run. If a stop is requested, what was found until then is
/// returned, without the last run.
///
/// # Errors
///
/// Returns the first error of `run`.
pub fn search<E>(
    bounds: SearchOptions,
    stop: &StopRequest,
    mut run: impl FnMut(f64) -> Result<Trial, E>,
    mut on_probe: impl FnMut(&Probe),
) -> Result<SearchResult, E> {
    let mut search = Search::new(bounds);
    let mut probes = Vec::new();
    while let Some(rate) = search.next_rate() {
        let trial = run(rate);
        if stop.is_made() {
            search.stop();
            break;
        }
        let probe = Probe { number: search.runs() + 1, rate, trial: trial? };
        on_probe(&probe);
        search.record_run(probe.trial.has_passed());
        probes.push(probe);
        if are_spoiled(&probes) {
            search.stop();
        }
    }
    // `next_rate` returns `None` only after an answer exists.
    let answer = search.outcome().unwrap_or(SearchOutcome::TooSlow);
    Ok(SearchResult { answer, probes, is_stopped: stop.is_made() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::Thresholds;
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
        SearchOptions { rate_first: 1_000.0, rate_min: 10.0, rate_max: 1e6, ..Default::default() }
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
        let found = search(bounds(), &StopRequest::default(), server_up_to(5_000.0), |probe| {
            reported.push(probe.clone());
        })
        .unwrap();
        assert_eq!(reported, found.probes);
        assert!((1..).zip(&reported).all(|(number, probe)| probe.number == number));
        let SearchOutcome::Found { rate, passes, .. } = found.answer else { panic!("{found:?}") };
        let at_answer = reported.iter().filter(|probe| (probe.rate - rate).abs() < f64::EPSILON);
        assert!(at_answer.clone().all(|probe| probe.trial.has_passed()));
        assert_eq!((at_answer.count(), passes), (3, 3));
    }

    #[test]
    fn search_limit_is_lowest_failed_rate() {
        let found =
            search(bounds(), &StopRequest::default(), server_up_to(5_000.0), |_| {}).unwrap();
        let limit = found.limiting_probe().unwrap();
        assert!(limit.rate > 5_000.0 && limit.rate <= 5_000.0 * 1.05, "{limit:?}");
        let failed = found.probes.iter().filter(|probe| !probe.trial.has_passed());
        assert!(failed.map(|probe| probe.rate).all(|rate| rate >= limit.rate));
    }

    #[test]
    fn search_without_failure_has_no_limit() {
        let found = search(bounds(), &StopRequest::default(), server_up_to(1e9), |_| {}).unwrap();
        assert!(matches!(found.answer, SearchOutcome::Found { is_ceiling: true, .. }));
        assert_eq!(found.limiting_probe(), None);
    }

    #[test]
    fn search_run_spoiled_by_generator_fails() {
        let mut server = server_up_to(1e9);
        let found = search(
            bounds(),
            &StopRequest::default(),
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
    fn search_ends_when_generator_spoils_every_run() {
        let late = |rate| {
            Ok::<_, String>(Trial {
                answered: rate,
                failed_checks: vec!["late".into()],
                ..Trial::default()
            })
        };
        let found = search(bounds(), &StopRequest::default(), late, |_| {}).unwrap();
        assert!(found.is_spoiled(), "{found:?}");
        assert_eq!(found.answer, SearchOutcome::TooSlow);
        let mut runs = 0;
        let late_again = |rate| {
            runs += 1;
            late(rate).map(|trial| Trial { is_valid: runs == 1, ..trial })
        };
        let found = search(bounds(), &StopRequest::default(), late_again, |_| {}).unwrap();
        assert_eq!((found.is_spoiled(), found.probes.len()), (true, 1 + SPOILED_RUNS_MAX));
    }

    #[test]
    fn search_repeats_run_after_generator_hiccup() {
        let mut server = server_up_to(5_000.0);
        let mut runs = 0;
        let found = search(
            bounds(),
            &StopRequest::default(),
            |rate| {
                runs += 1;
                let trial = server(rate)?;
                Ok::<_, String>(Trial { is_valid: runs % 3 != 0, ..trial })
            },
            |_| {},
        );
        let found = found.unwrap();
        let SearchOutcome::Found { rate, passes: 3.., .. } = found.answer else {
            panic!("{found:?}")
        };
        assert!(rate <= 5_000.0 && rate * 1.025 >= 5_000.0, "{rate}");
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
    fn search_scale_is_rate_of_one_connection() {
        let mut plan = Plan { connections: 8, depth: 4, ..Plan::new("tcp://localhost:1") };
        plan.thresholds.p99 = Some(HumanDuration::from_secs(1));
        let alone = SearchScale::plan(&plan, HumanDuration::from_secs(1));
        assert!(alone.closed && alone.connections == 1 && alone.depth == 1);
        let mut measured = result();
        assert!(!SearchScale::from_result(&measured).is_known());
        measured.response.count = 40;
        measured.response.p50_us = Some(250_000.0);
        measured.totals.answered = 40;
        let scale = SearchScale::from_result(&measured);
        assert!(scale.is_known() && (scale.rate() - 4.0).abs() < 1e-9);
        let (trials, span) = scale.trials(&plan, None);
        assert_eq!((trials.warm_up, span), ("1250ms".parse().unwrap(), "5s".parse().unwrap()));
        // Whether the backlog grows takes longer than a latency.
        measured.response.p50_us = Some(10_000.0);
        let fast = SearchScale::from_result(&measured);
        let errors_only = Plan { thresholds: Thresholds::default(), ..plan.clone() };
        let spans = [&plan, &errors_only].map(|plan| fast.trials(plan, None).1);
        assert_eq!(spans, [HumanDuration::from_secs(1), HumanDuration::from_secs(3)]);
        let named = Some(HumanDuration::from_secs(3));
        assert_eq!(scale.trials(&plan, named), (plan, HumanDuration::from_secs(3)));
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
            &StopRequest::default(),
            |rate| {
                runs += 1;
                if runs < 3 { server_up_to(1e9)(rate) } else { Err("gone".into()) }
            },
            |_| {},
        );
        assert_eq!((ended.unwrap_err(), runs), ("gone".to_string(), 3));
    }
}
