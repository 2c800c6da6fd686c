//! `JUnit` XML of a run or a comparison: each threshold, each budget and each reason of the verdict
//! is a test case.

use maud::{Markup, PreEscaped, Render, html};

use crate::comparison::{ComparisonFile, ComparisonOutcome, ComparisonVerdict, format_change};
use crate::plan::budgets::Budgets;
use crate::result::{RunResult, RunStatus};

/// A test case.
struct Case {
    group: &'static str,
    name: String,
    outcome: CaseOutcome,
}

/// The outcome of a test case, with its text.
enum CaseOutcome {
    Passed(String),
    Failed(String),
    /// It could not be judged.
    Error(String),
}

/// Formats a run as `JUnit` XML.
pub fn run(result: &RunResult) -> String {
    let checks = result.threshold_checks();
    let mut cases: Vec<Case> = checks
        .iter()
        .map(|check| {
            let outcome = if check.is_kept { CaseOutcome::Passed } else { CaseOutcome::Failed };
            Case {
                group: "thresholds",
                name: check.name.clone(),
                outcome: outcome(check.text.clone()),
            }
        })
        .collect();
    let is_check = |why: &str| checks.iter().any(|check| check.text == why);
    let reasons = || result.verdict.reasons().filter(|(_, why)| !is_check(why));
    for (status, why) in reasons() {
        let (group, name) = match status {
            RunStatus::Missed => ("thresholds", why.split(' ').next().unwrap_or_default()),
            _ => ("verdict", status.text()),
        };
        let outcome =
            if status == RunStatus::Invalid { CaseOutcome::Error } else { CaseOutcome::Failed };
        cases.push(Case {
            group,
            name: name.trim_end_matches(':').into(),
            outcome: outcome(why.into()),
        });
    }
    let is_delivered = !reasons().any(|(_, why)| why.starts_with("last_delivery"));
    if let Some(limit) = result.plan.thresholds.last_delivery.filter(|_| is_delivered) {
        let outcome = CaseOutcome::Passed(format!("last_delivery within {limit}"));
        cases.push(Case { group: "thresholds", name: "last_delivery".into(), outcome });
    }
    if !result.verdict.reasons().any(|(status, _)| status != RunStatus::Missed) {
        let outcome = CaseOutcome::Passed("the run is valid".into());
        cases.push(Case { group: "verdict", name: "valid".into(), outcome });
    }
    let name = format!("corelane-load run {}", result.plan.target);
    format(&[Suite { name, time_s: result.totals.duration_s, cases }])
}

/// Formats comparisons as `JUnit` XML.
pub fn comparison(file: &ComparisonFile) -> String {
    let suites = file.comparisons.iter().map(|comparison| {
        let tested = comparison.rows.iter().filter_map(|row| Some((row, row.budget?)));
        let mut cases: Vec<Case> = tested
            .map(|(row, budget)| {
                let text = format!(
                    "{}, budget {} (p = {:.4})",
                    format_change(row.figure, row.change.estimate),
                    Budgets::format(row.figure, budget),
                    row.p_value.unwrap_or(1.0)
                );
                let outcome = if row.outcome == ComparisonOutcome::Worse {
                    CaseOutcome::Failed(text)
                } else {
                    CaseOutcome::Passed(text)
                };
                Case { group: "budgets", name: row.figure.name().into(), outcome }
            })
            .collect();
        if comparison.verdict == ComparisonVerdict::Undecided {
            let outcome = CaseOutcome::Error(comparison.reasons.join("; "));
            cases.push(Case { group: "verdict", name: "decided".into(), outcome });
        }
        let name = format!("corelane-load compare {} {}", comparison.base, comparison.new);
        Suite { name, time_s: 0.0, cases }
    });
    format(&suites.collect::<Vec<_>>())
}

struct Suite {
    name: String,
    time_s: f64,
    cases: Vec<Case>,
}

impl Suite {
    fn failures(&self) -> usize {
        self.cases.iter().filter(|case| matches!(case.outcome, CaseOutcome::Failed(_))).count()
    }

    fn errors(&self) -> usize {
        self.cases.iter().filter(|case| matches!(case.outcome, CaseOutcome::Error(_))).count()
    }
}

impl Render for Suite {
    fn render(&self) -> Markup {
        html! {
            testsuite name=(xml_text(&self.name)) tests=(self.cases.len())
                failures=(self.failures()) errors=(self.errors()) time=(self.time_s) {
                @for case in &self.cases {
                    (case)
                }
            }
        }
    }
}

impl Render for Case {
    fn render(&self) -> Markup {
        html! {
            testcase classname=(format!("corelane-load.{}", self.group))
                name=(xml_text(&self.name)) {
                @match &self.outcome {
                    CaseOutcome::Passed(text) => { system-out { (xml_text(text)) } }
                    CaseOutcome::Failed(text) => { failure message=(xml_text(text)) {} }
                    CaseOutcome::Error(text) => { error message=(xml_text(text)) {} }
                }
            }
        }
    }
}

fn format(suites: &[Suite]) -> String {
    let page = html! {
        (PreEscaped("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"))
        testsuites tests=(suites.iter().map(|suite| suite.cases.len()).sum::<usize>())
            failures=(suites.iter().map(Suite::failures).sum::<usize>())
            errors=(suites.iter().map(Suite::errors).sum::<usize>()) {
            @for suite in suites {
                (suite)
            }
        }
    };
    page.into_string() + "\n"
}

/// Returns the text without characters that XML 1.0 does not have.
fn xml_text(text: &str) -> String {
    let is_char = |it: &char| matches!(it, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..);
    text.chars().map(|it| if is_char(&it) { it } else { '\u{fffd}' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::result;

    #[test]
    fn thresholds_and_reasons_are_test_cases() {
        let mut run_result = result(100, 100.0);
        run_result.plan.thresholds =
            toml::from_str("p99 = \"50us\"\np50 = \"1ms\"\nlast_delivery = 1").unwrap();
        run_result.verdict.missed_thresholds = vec!["p99 100 µs, limit 50 µs".into()];
        run_result.verdict.invalid = vec!["late <&\u{1}\">".into()];
        let text = run(&run_result);
        let start = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"4\" ";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("failures=\"1\" errors=\"1\">"), "{text}");
        let expected = [
            "name=\"p50\"><system-out>p50 25.0 µs, limit 1 ms</system-out>",
            "name=\"p99\"><failure message=\"p99 100 µs, limit 50 µs\"></failure>",
            "name=\"last_delivery\"><system-out>",
            "name=\"invalid\"><error message=\"late &lt;&amp;\u{fffd}&quot;&gt;\"></error>",
        ];
        for part in expected {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        run_result.verdict = crate::result::Verdict::default();
        assert!(run(&run_result).contains("name=\"valid\"><system-out>"), "{}", run(&run_result));
    }
}
