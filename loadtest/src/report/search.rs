//! Text output of a search: a line for each run, and the found rate.

use crate::figure;
use crate::plan::Plan;
use crate::probe::{Probe, SearchResult, SearchScale};
use crate::result::RunStatus;
use crate::search::SearchOutcome;

/// Formats the line of a run.
pub fn format_run(probe: &Probe) -> String {
    let Probe { number, rate, trial } = probe;
    let verdict = RunStatus::new(trial.is_valid, trial.has_passed()).text();
    let colon = if trial.failed_checks.is_empty() { "" } else { ": " };
    format!(
        "run {number:>3} {:>12}/s  {verdict:<7}  answered {}/s  p99 {}  failed {}{colon}{}",
        figure::rate(*rate),
        figure::rate(trial.answered),
        figure::latency(trial.p99_us),
        figure::percent_or_dash(trial.failure_ratio),
        trial.failed_checks.join("; ")
    )
}

/// Formats the scale of a search.
pub fn format_scale(scale: &SearchScale) -> String {
    match scale.response() {
        Some(response) => format!(
            "one connection, one request at a time: {}/s, {} a response",
            figure::rate(scale.rate()),
            figure::duration(response.as_secs_f64() * 1e6)
        ),
        None => "one connection, one request at a time: nothing was answered".into(),
    }
}

/// Formats the outcome: the sustained rate, the runs at it, and the limit.
pub fn format_outcome(plan: &Plan, found: &SearchResult) -> String {
    let Plan { target, connections, depth, .. } = plan;
    let is_insecure = plan.tls.as_ref().is_some_and(|tls| tls.insecure);
    let checked = if is_insecure { " · certificate NOT CHECKED (insecure)" } else { "" };
    format!(
        "{target} · {} · open loop · {connections} connections × {depth}{checked}\n\
         sustained  {}\n\
         runs       {}\n\
         limit      {}\n",
        plan.era_name(),
        sustained_rate(plan, found),
        runs_at_rate(plan, found),
        limit(found)
    )
}

/// Why a search ended without a confirmed rate.
const SPOILED: &str = "the load generator was late in all of the last runs: free its cores, or use \
    more --threads, --cores of its own, or --lag-max";

/// Formats the sustained rate with its resolution.
pub(super) fn sustained_rate(plan: &Plan, found: &SearchResult) -> String {
    match found.answer {
        SearchOutcome::Unconfirmed { rate, .. } if found.is_spoiled() => {
            format!("{}/s, unconfirmed · {SPOILED}", figure::rate(rate))
        }
        SearchOutcome::TooSlow if found.is_spoiled() => format!("unknown · {SPOILED}"),
        SearchOutcome::Found { rate, is_ceiling, .. } => {
            let resolution = plan.sweep.clone().unwrap_or_default().resolution;
            let error = (resolution * 1_000.0).round() / 10.0;
            let error = if is_ceiling { String::new() } else { format!(" ± {error} %") };
            format!("{}/s{error}", figure::rate(rate))
        }
        SearchOutcome::Unconfirmed { rate, .. } if found.is_stopped => {
            format!("{}/s, unconfirmed: the search was stopped", figure::rate(rate))
        }
        SearchOutcome::TooSlow if found.is_stopped => "unknown: the search was stopped".into(),
        SearchOutcome::Unconfirmed { rate, .. } => format!(
            "{}/s, unconfirmed within the maximum number of runs: allow more (--runs-max)",
            figure::rate(rate)
        ),
        SearchOutcome::TooSlow => "no rate that was tried".into(),
    }
}

/// Formats how many runs passed at the found rate. A rate at which some failed is at the limit, so
/// that a lower one is named.
pub(super) fn runs_at_rate(plan: &Plan, found: &SearchResult) -> String {
    let mut parts = vec![match found.answer {
        SearchOutcome::Found { passes, failures: 0, .. } => format!("{passes} of {passes} passed"),
        SearchOutcome::Found { rate, passes, failures, .. } => {
            let resolution = plan.sweep.clone().unwrap_or_default().resolution;
            let holding = found.passed_rate_below(rate).unwrap_or(rate * (1.0 - resolution));
            format!(
                "borderline: {passes} of {} passed; for a rate that holds use {}/s",
                passes + failures,
                figure::rate(holding)
            )
        }
        SearchOutcome::Unconfirmed { passes, .. } => format!("{passes} passed"),
        SearchOutcome::TooSlow => "none passed".into(),
    }];
    match found.probes.iter().filter(|probe| !probe.trial.is_valid).count() {
        0 => {}
        1 => parts.push("1 invalid run was repeated".into()),
        spoiled => parts.push(format!("{spoiled} invalid runs were repeated")),
    }
    parts.join("; ")
}

/// Formats the reason why the rate is not higher.
pub(super) fn limit(found: &SearchResult) -> String {
    match (found.answer, found.limiting_probe()) {
        (SearchOutcome::Found { is_ceiling: true, .. }, _) => {
            "not reached: the highest allowed rate passed (--rate-max)".into()
        }
        (_, Some(Probe { rate, trial, .. })) => {
            // An invalid run may not be limited by the server.
            let invalid = if trial.is_valid { "" } else { ", an invalid run" };
            format!("{}/s{invalid}: {}", figure::rate(*rate), trial.failed_checks.join("; "))
        }
        (_, None) => "not reached".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::Trial;

    fn probe(rate: f64, against: &[&str]) -> Probe {
        let against = against.iter().map(ToString::to_string).collect();
        Probe {
            number: 1,
            rate,
            trial: Trial { is_valid: true, failed_checks: against, ..Trial::default() },
        }
    }

    fn shown(answer: SearchOutcome, probes: Vec<Probe>) -> String {
        format_outcome(
            &Plan::new("tcp://localhost:1"),
            &SearchResult { answer, probes, is_stopped: false },
        )
    }

    #[test]
    fn search_line_shows_failure_reasons() {
        assert!(format_run(&probe(10.0, &[])).contains("passed"));
        let missed = format_run(&probe(10.0, &["p99 9 us", "errors 0.5"]));
        assert!(missed.contains("missed") && missed.ends_with(": p99 9 us; errors 0.5"));
        let mut spoiled = probe(10.0, &["late"]);
        spoiled.trial.is_valid = false;
        assert!(
            format_run(&spoiled).contains("invalid") && format_run(&spoiled).lines().count() == 1
        );
    }

    #[test]
    fn outcome_shows_runs_and_limit() {
        let probes = vec![probe(20.0, &[]), probe(40.0, &["p99 9 us"]), probe(80.0, &["later"])];
        let found = SearchOutcome::Found { rate: 20.0, passes: 3, failures: 0, is_ceiling: false };
        let text = shown(found, probes);
        assert!(text.contains("sustained  20/s ± 5 %\nruns       3 of 3 passed\n"), "{text}");
        assert!(text.contains("limit      40/s: p99 9 us\n"), "{text}");
    }

    #[test]
    fn borderline_rate_names_rate_that_holds() {
        let found = SearchOutcome::Found { rate: 98.0, passes: 3, failures: 4, is_ceiling: false };
        let text = shown(found, vec![probe(98.0, &["p99 9 us"])]);
        let holding = "borderline: 3 of 7 passed; for a rate that holds use 93.1/s\n";
        assert!(text.contains(holding), "{text}");
        // A lower rate at which every run passed is known to hold.
        let mut spoiled = probe(95.0, &["late"]);
        spoiled.trial.is_valid = false;
        let probes = [spoiled, probe(95.0, &[]), probe(90.0, &[]), probe(96.0, &["p99 9 us"])];
        let text = shown(found, probes.to_vec());
        let holding = "for a rate that holds use 95/s; 1 invalid run was repeated\n";
        assert!(text.contains(holding), "{text}");
    }

    #[test]
    fn limit_by_generator_is_marked_invalid() {
        let mut spoiled = probe(40.0, &["late"]);
        spoiled.trial.is_valid = false;
        let found = SearchOutcome::Found { rate: 20.0, passes: 3, failures: 0, is_ceiling: false };
        let text = shown(found, vec![probe(20.0, &[]), spoiled]);
        assert!(text.ends_with("limit      40/s, an invalid run: late\n"), "{text}");
        assert!(text.contains("3 of 3 passed; 1 invalid run was repeated"), "{text}");
    }

    #[test]
    fn unconfirmed_and_too_slow_outcomes_are_marked() {
        let text =
            shown(SearchOutcome::Unconfirmed { rate: 20.0, passes: 1 }, vec![probe(20.0, &[])]);
        assert!(text.contains("unconfirmed") && text.contains("runs       1 passed"), "{text}");
        let text = shown(SearchOutcome::TooSlow, vec![probe(1.0, &["p99 9 us"])]);
        assert!(text.contains("no rate") && text.contains("1/s: p99 9 us"), "{text}");
        let ceiling = SearchOutcome::Found { rate: 20.0, passes: 3, failures: 0, is_ceiling: true };
        assert!(shown(ceiling, vec![probe(20.0, &[])]).contains("--rate-max"));
    }
}
