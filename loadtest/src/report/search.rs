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
        figure::duration(trial.p99_us),
        figure::percent(trial.failure_ratio),
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

/// Formats the outcome: the sustained rate, its confidence, and the limit.
pub fn format_outcome(plan: &Plan, found: &SearchResult) -> String {
    let Plan { target, connections, depth, .. } = plan;
    let is_insecure = plan.tls.as_ref().is_some_and(|tls| tls.insecure);
    let checked = if is_insecure { " · certificate NOT CHECKED (insecure)" } else { "" };
    format!(
        "{target} · {} · open loop · {connections} connections × {depth}{checked}\n\
         sustained  {}\n\
         confidence {}\n\
         limit      {}\n",
        plan.era_name(),
        sustained_rate(plan, found),
        confidence(found),
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
        SearchOutcome::Found { rate, passes, failures, is_ceiling } => {
            let resolution = plan.sweep.clone().unwrap_or_default().resolution;
            let error = (resolution * 1_000.0).round() / 10.0;
            let error = if is_ceiling { String::new() } else { format!(" ± {error} %") };
            format!(
                "{}/s{error} · {passes} of {} runs passed",
                figure::rate(rate),
                passes + failures
            )
        }
        SearchOutcome::Unconfirmed { rate, passes } => format!(
            "{}/s, unconfirmed · {passes} passed before the maximum number of runs: allow more \
             (--runs-max)",
            figure::rate(rate)
        ),
        SearchOutcome::TooSlow => "no rate that was tried".into(),
    }
}

/// Formats the confidence in the rate.
pub(super) fn confidence(found: &SearchResult) -> String {
    let mut parts = vec![match found.answer.pass_probability_min() {
        probability if probability > 0.0 => format!(
            "95 %, that another run at this rate passes with a probability of at least \
             {probability:.2}"
        ),
        _ => "none".into(),
    }];
    let spoiled = found.probes.iter().filter(|probe| !probe.trial.is_valid).count();
    if spoiled > 0 {
        parts.push(format!("{spoiled} invalid runs were repeated"));
    }
    if let SearchOutcome::Found { passes, failures, .. } = found.answer
        && failures >= passes
    {
        parts.push("half of the runs were disturbed, or the rate is at the limit".into());
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
        format_outcome(&Plan::new("tcp://localhost:1"), &SearchResult { answer, probes })
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
    fn outcome_shows_confidence_and_limit() {
        let probes = vec![probe(20.0, &[]), probe(40.0, &["p99 9 us"]), probe(80.0, &["later"])];
        let found = SearchOutcome::Found { rate: 20.0, passes: 3, failures: 0, is_ceiling: false };
        let text = shown(found, probes);
        assert!(
            text.contains("sustained  20/s ± 5 % · 3 of 3 runs") && text.contains("at least 0.37")
        );
        assert!(text.contains("limit      40/s: p99 9 us\n"), "{text}");
    }

    #[test]
    fn limit_by_generator_is_marked_invalid() {
        let mut spoiled = probe(40.0, &["late"]);
        spoiled.trial.is_valid = false;
        let found = SearchOutcome::Found { rate: 20.0, passes: 3, failures: 0, is_ceiling: false };
        let text = shown(found, vec![probe(20.0, &[]), spoiled]);
        assert!(text.ends_with("limit      40/s, an invalid run: late\n"), "{text}");
        assert!(text.contains("0.37; 1 invalid runs were repeated"));
    }

    #[test]
    fn unconfirmed_and_too_slow_outcomes_are_marked() {
        let text =
            shown(SearchOutcome::Unconfirmed { rate: 20.0, passes: 1 }, vec![probe(20.0, &[])]);
        assert!(text.contains("unconfirmed") && text.contains("confidence none"), "{text}");
        let text = shown(SearchOutcome::TooSlow, vec![probe(1.0, &["p99 9 us"])]);
        assert!(text.contains("no rate") && text.contains("1/s: p99 9 us"), "{text}");
        let ceiling = SearchOutcome::Found { rate: 20.0, passes: 3, failures: 0, is_ceiling: true };
        assert!(shown(ceiling, vec![probe(20.0, &[])]).contains("--rate-max"));
    }
}
