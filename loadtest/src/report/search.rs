//! A search as people read it: a line for each run, and the answer with what it is worth.

use super::word::Word;
use crate::plan::Plan;
use crate::probe::{Found, Probe};
use crate::search::Answer;

/// The line of a run.
pub fn line(probe: &Probe) -> String {
    let Probe { number, rate, trial } = probe;
    let verdict = Word::of(trial.is_valid, trial.has_passed()).text();
    let colon = if trial.against.is_empty() { "" } else { ": " };
    format!(
        "run {number:>3} {rate:>12.1}/s  {verdict:<7}  answered {:.1}/s  p99 {:.1} us  \
         failed {:.4}{colon}{}",
        trial.answered,
        trial.p99_us,
        trial.failure_ratio,
        trial.against.join("; ")
    )
}

/// The answer, with its line ends: what the server bears, how sure that is, and what kept it from
/// being more.
pub fn answer(plan: &Plan, found: &Found) -> String {
    let Plan { target, era, connections, depth, .. } = plan;
    let is_insecure = plan.tls.as_ref().is_some_and(|tls| tls.insecure);
    let checked = if is_insecure { " · certificate NOT CHECKED (insecure)" } else { "" };
    format!(
        "{target} · {} · open loop · {connections} connections × {depth}{checked}\n\
         bears      {}\n\
         confidence {}\n\
         limit      {}\n",
        era.name(),
        bears(found),
        confidence(found),
        limit(found)
    )
}

/// What the server bears.
pub(super) fn bears(found: &Found) -> String {
    match found.answer {
        Answer::Found { rate, passes, .. } => {
            format!("{rate:.1}/s · {passes} runs in a row passed")
        }
        Answer::Unconfirmed { rate, passes } => format!(
            "{rate:.1}/s, unconfirmed · {passes} passed before the runs were used up: \
             allow more (--runs-max)"
        ),
        Answer::TooSlow => "no rate that was tried".into(),
    }
}

/// How sure that is.
pub(super) fn confidence(found: &Found) -> String {
    let confidence = match found.answer.pass_probability_min() {
        probability if probability > 0.0 => format!(
            "95 %, that another run at this rate passes with a probability of at least \
             {probability:.2}"
        ),
        _ => "none".into(),
    };
    // The statement is of runs that count: of the others nobody knows what they would have said.
    let spoiled = found.probes.iter().filter(|probe| !probe.trial.is_valid).count();
    match spoiled {
        0 => confidence,
        _ => format!("{confidence}; of runs that count: the generator spoiled {spoiled} others"),
    }
}

/// What kept it from being more.
pub(super) fn limit(found: &Found) -> String {
    match (found.answer, found.limit()) {
        (Answer::Found { is_ceiling: true, .. }, _) => {
            "not reached: this is the highest rate that was allowed (--rate-max)".into()
        }
        (_, Some(Probe { rate, trial, .. })) => {
            // Such a limit is not the server's, or not its alone.
            let invalid = if trial.is_valid { "" } else { ", a run that does not count" };
            format!("{rate:.1}/s{invalid}: {}", trial.against.join("; "))
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
        Probe { number: 1, rate, trial: Trial { is_valid: true, against, ..Trial::default() } }
    }

    fn shown(answer: Answer, probes: Vec<Probe>) -> String {
        super::answer(&Plan::new("tcp://localhost:1"), &Found { answer, probes })
    }

    #[test]
    fn a_run_is_one_line_with_what_speaks_against_it() {
        assert!(line(&probe(10.0, &[])).contains("passed"));
        let missed = line(&probe(10.0, &["p99 9 us", "errors 0.5"]));
        assert!(missed.contains("missed") && missed.ends_with(": p99 9 us; errors 0.5"));
        let mut spoiled = probe(10.0, &["late"]);
        spoiled.trial.is_valid = false;
        assert!(line(&spoiled).contains("invalid") && line(&spoiled).lines().count() == 1);
    }

    #[test]
    fn an_answer_says_how_sure_it_is_and_what_the_limit_was() {
        let probes = vec![probe(20.0, &[]), probe(40.0, &["p99 9 us"]), probe(80.0, &["later"])];
        let found = Answer::Found { rate: 20.0, passes: 3, is_ceiling: false };
        let text = shown(found, probes);
        assert!(text.contains("bears      20.0/s · 3 runs") && text.contains("at least 0.37"));
        assert!(text.contains("limit      40.0/s: p99 9 us\n"), "{text}");
    }

    #[test]
    fn a_limit_that_the_generator_set_says_so() {
        let mut spoiled = probe(40.0, &["late"]);
        spoiled.trial.is_valid = false;
        let found = Answer::Found { rate: 20.0, passes: 3, is_ceiling: false };
        let text = shown(found, vec![probe(20.0, &[]), spoiled]);
        assert!(text.ends_with("limit      40.0/s, a run that does not count: late\n"), "{text}");
        assert!(text.contains("at least 0.37; of runs that count: the generator spoiled 1 others"));
    }

    #[test]
    fn an_answer_that_is_worth_less_says_so() {
        let text = shown(Answer::Unconfirmed { rate: 20.0, passes: 1 }, vec![probe(20.0, &[])]);
        assert!(text.contains("unconfirmed") && text.contains("confidence none"), "{text}");
        let text = shown(Answer::TooSlow, vec![probe(1.0, &["p99 9 us"])]);
        assert!(text.contains("no rate") && text.contains("1.0/s: p99 9 us"), "{text}");
        let ceiling = Answer::Found { rate: 20.0, passes: 3, is_ceiling: true };
        assert!(shown(ceiling, vec![probe(20.0, &[])]).contains("--rate-max"));
    }
}
