//! A search carried out: run after run, each told as it ends.
//!
//! What it keeps true: a run counts for the server only where the generator kept its plan; what
//! spoiled it is kept, so that an answer can say whether the server or the generator set the limit.
//! A rate at which the server was so slow that what was due could not be sent has failed by the
//! server's doing.
//!
//! What it does not do: drive a server. Who searches hands in what does, so its tests need none.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::plan::{PhasePlan, Plan, Span};
use crate::result::RunResult;
use crate::search::{Answer, Bounds, Search};

/// The shortest time for which a probe waits for what is still open at its end.
const DRAIN_MIN: Duration = Duration::from_secs(1);
/// The part of the requests of a probe that may fail where nothing is said of errors: a 99th
/// percentile of answers says nothing of a server that leaves more than that unanswered.
const ERRORS_MAX: f64 = 0.01;

/// How often a run that the generator spoiled is done again before its rate is given up: a hiccup
/// of the machine goes by, a generator that is at its end does not.
const REPEATS_MAX: u32 = 2;

/// The run that tries a rate: of one phase, and with a brief end. A rate that is too high leaves
/// much unanswered, and twice the longest latency that is allowed is enough to know it.
pub fn trial_plan(plan: &Plan, rate: f64, span: Span) -> Plan {
    let phases = vec![PhasePlan::constant(rate, span)];
    let longest = plan.thresholds.latency_max().map_or(DRAIN_MIN, |it| it.duration() * 2);
    let drain = Span::from(longest.max(DRAIN_MIN)).min(plan.answer_max);
    let mut plan = Plan { phases, ..plan.clone() };
    plan.drain_max.get_or_insert(drain);
    plan.thresholds.errors.get_or_insert(ERRORS_MAX);
    plan
}

/// How one run went.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Trial {
    /// Good answers a second.
    pub answered: f64,
    /// The 99th percentile of the response time, in microseconds.
    pub p99_us: f64,
    /// The part of all requests that failed.
    pub failure_ratio: f64,
    /// Whether the generator did its part, so that what happened was the server's doing.
    pub is_valid: bool,
    /// Why the run did not pass; empty where it did.
    pub against: Vec<String>,
}

impl Trial {
    /// What a search needs of a result.
    pub fn of(result: &RunResult) -> Self {
        let verdict = &result.verdict;
        Self {
            answered: result.totals.rate,
            p99_us: result.response.p99_us,
            failure_ratio: result.totals.failure_ratio,
            is_valid: verdict.invalid.is_empty(),
            against: [&verdict.invalid[..], &verdict.beyond, &verdict.missed].concat(),
        }
    }

    /// Whether it counts and every threshold held.
    pub const fn has_passed(&self) -> bool {
        self.is_valid && self.against.is_empty()
    }
}

/// One run of a search.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Probe {
    /// Which run it was, counted from one.
    pub number: u32,
    /// Its rate, in requests a second.
    pub rate: f64,
    /// How it went.
    pub trial: Trial,
}

/// What came of a search, and all of its runs.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Found {
    /// The answer.
    pub answer: Answer,
    /// The runs, in their order.
    pub probes: Vec<Probe>,
}

impl Found {
    /// The run that kept the answer from being higher: of those above it that did not pass, the
    /// last one at the lowest rate. None where nothing above it was tried.
    pub fn limit(&self) -> Option<&Probe> {
        let rate = self.answer.rate().unwrap_or(0.0);
        let above = self.probes.iter().rev();
        above
            .filter(|probe| probe.rate > rate && !probe.trial.has_passed())
            .min_by(|one, other| one.rate.total_cmp(&other.rate))
    }
}

/// Searches with runs that `run` does at the rates it is handed, in requests a second; `tell` hears
/// of each when it is over. A run that the generator spoiled is done again, at most twice, and does
/// not count against the bounds of the search.
///
/// # Errors
///
/// The first that `run` has: a server that cannot be driven has no highest rate.
pub fn search<E>(
    bounds: Bounds,
    mut run: impl FnMut(f64) -> Result<Trial, E>,
    mut tell: impl FnMut(&Probe),
) -> Result<Found, E> {
    let mut search = Search::new(bounds);
    let mut probes = Vec::new();
    let mut number = 0;
    while let Some(rate) = search.next_rate() {
        let mut repeats = 0;
        loop {
            number += 1;
            let probe = Probe { number, rate, trial: run(rate)? };
            tell(&probe);
            let (is_valid, has_passed) = (probe.trial.is_valid, probe.trial.has_passed());
            probes.push(probe);
            if is_valid || repeats == REPEATS_MAX {
                search.tell(has_passed);
                break;
            }
            repeats += 1;
        }
    }
    // Without a next rate there is an answer.
    let answer = search.answer().unwrap_or(Answer::TooSlow);
    Ok(Found { answer, probes })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::result::Verdict;

    /// A result of which nothing but its verdict matters.
    fn result() -> RunResult {
        let percentiles = json!(crate::result::Percentiles::default());
        serde_json::from_value(json!({
            "verdict": Verdict::default(),
            "plan": Plan::new("tcp://localhost:1"),
            "manifest": crate::result::Manifest::default(),
            "totals": crate::result::Totals::default(),
            "response": percentiles, "service": percentiles, "lag": percentiles,
            "generator": crate::result::Cost::default(),
            "server": null,
            "seconds": [],
        }))
        .unwrap()
    }

    fn bounds() -> Bounds {
        Bounds { rate_min: 10.0, rate_max: 1e6, ..Bounds::default() }
    }

    /// A server that keeps its threshold up to this rate.
    fn bears(rate_max: f64) -> impl FnMut(f64) -> Result<Trial, String> {
        move |rate| {
            let against =
                if rate <= rate_max { Vec::new() } else { vec![format!("p99 at {rate:.0}")] };
            Ok(Trial { answered: rate, is_valid: true, against, ..Trial::default() })
        }
    }

    #[test]
    fn every_run_is_told_once_and_in_its_order() {
        let mut told = Vec::new();
        let found = search(bounds(), bears(5_000.0), |probe| told.push(probe.clone())).unwrap();
        assert_eq!(told, found.probes);
        assert!((1..).zip(&told).all(|(number, probe)| probe.number == number));
        let Answer::Found { rate, passes, .. } = found.answer else { panic!("{found:?}") };
        let at_answer = told.iter().filter(|probe| (probe.rate - rate).abs() < f64::EPSILON);
        assert!(at_answer.clone().all(|probe| probe.trial.has_passed()));
        assert_eq!((at_answer.count(), passes), (3, 3));
    }

    #[test]
    fn the_limit_is_the_lowest_rate_above_the_answer_that_failed() {
        let found = search(bounds(), bears(5_000.0), |_| {}).unwrap();
        let limit = found.limit().unwrap();
        assert!(limit.rate > 5_000.0 && limit.rate <= 5_000.0 * 1.05, "{limit:?}");
        let failed = found.probes.iter().filter(|probe| !probe.trial.has_passed());
        assert!(failed.map(|probe| probe.rate).all(|rate| rate >= limit.rate));
    }

    #[test]
    fn a_server_that_bears_all_that_is_allowed_has_no_limit() {
        let found = search(bounds(), bears(1e9), |_| {}).unwrap();
        assert!(matches!(found.answer, Answer::Found { is_ceiling: true, .. }));
        assert_eq!(found.limit(), None);
    }

    #[test]
    fn a_run_that_the_generator_spoiled_does_not_pass() {
        let mut server = bears(1e9);
        let found = search(
            bounds(),
            |rate| {
                let trial = server(rate)?;
                Ok::<_, String>(Trial { is_valid: rate <= 2_000.0, ..trial })
            },
            |_| {},
        );
        let found = found.unwrap();
        let Answer::Found { rate, .. } = found.answer else { panic!("{found:?}") };
        assert!(rate <= 2_000.0 && !found.limit().unwrap().trial.is_valid);
    }

    #[test]
    fn a_hiccup_of_the_generator_does_not_cost_the_server_its_rate() {
        let mut server = bears(5_000.0);
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
        let Answer::Found { rate, passes: 3, .. } = found.answer else { panic!("{found:?}") };
        assert!(rate <= 5_000.0 && rate * 1.02 >= 5_000.0, "{rate}");
        assert!(found.limit().unwrap().trial.is_valid, "{:?}", found.limit());
        assert_eq!(found.probes.len(), runs);
    }

    #[test]
    fn a_server_beyond_its_limit_fails_the_rate_and_not_the_generator() {
        let verdict = Verdict { beyond: vec!["too slow".into()], ..Verdict::default() };
        let trial = Trial::of(&RunResult { verdict, ..result() });
        assert!(trial.is_valid && !trial.has_passed());
        assert_eq!(trial.against, ["too slow"]);
        let verdict = Verdict { invalid: vec!["late".into()], ..Verdict::default() };
        assert!(!Trial::of(&RunResult { verdict, ..result() }).is_valid);
    }

    #[test]
    fn a_probe_waits_for_its_end_no_longer_than_its_thresholds_need() {
        let mut plan = Plan::new("tcp://localhost:1");
        let drain = |plan: &Plan| trial_plan(plan, 10.0, Span::seconds(1)).drain_max;
        assert_eq!(drain(&plan), Some(Span::seconds(1)));
        plan.thresholds.p99 = Some(Span::seconds(3));
        assert_eq!(drain(&plan), Some(Span::seconds(6)));
        plan.thresholds.p99 = Some(Span::seconds(3_600));
        assert_eq!(drain(&plan), Some(plan.answer_max));
        plan.drain_max = Some(Span::seconds(2));
        assert_eq!(drain(&plan), Some(Span::seconds(2)));
    }

    #[test]
    fn a_probe_without_a_bound_for_errors_allows_what_a_percentile_does_not_see() {
        let mut plan = Plan::new("tcp://localhost:1");
        let errors = |plan: &Plan| trial_plan(plan, 10.0, Span::seconds(1)).thresholds.errors;
        assert_eq!(errors(&plan), Some(0.01));
        plan.thresholds.errors = Some(0.2);
        assert_eq!(errors(&plan), Some(0.2));
    }

    #[test]
    fn a_server_that_cannot_be_driven_ends_the_search() {
        let mut runs = 0;
        let ended = search(
            bounds(),
            |rate| {
                runs += 1;
                if runs < 3 { bears(1e9)(rate) } else { Err("gone".into()) }
            },
            |_| {},
        );
        assert_eq!((ended.unwrap_err(), runs), ("gone".to_string(), 3));
    }
}
