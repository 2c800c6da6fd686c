//! Text output of `corelane-load check`.

use std::fmt::Write;

use crate::tuning::{Review, Severity, TuningFinding};

/// Formats a review as paragraphs: needed findings first, satisfied settings last.
pub fn paragraphs(review: &Review) -> String {
    let (connections, sources) = (review.load.connections, review.load.sources);
    let plural = if sources == 1 { "address" } else { "addresses" };
    let mut text = format!("{connections} connections from {sources} {plural}: ");
    let needed =
        review.findings.iter().filter(|finding| finding.severity == Severity::Needed).count();
    text.push_str(match (needed, review.findings.len()) {
        (0, 0) => "nothing differs from the profile\n",
        (0, _) => "sufficient\n",
        _ => "not sufficient\n",
    });
    for finding in &review.findings {
        text.push_str(&paragraph(finding));
    }
    if !review.satisfied.is_empty() {
        text.push_str("\nsatisfied  ");
        text.push_str(&review.satisfied.join("\n           "));
        text.push('\n');
    }
    text
}

fn paragraph(finding: &TuningFinding) -> String {
    let TuningFinding { knob, actual: here, expected: wanted, cost, hint, .. } = finding;
    let weight = match finding.severity {
        Severity::Needed => "NEEDED",
        Severity::Advised => "advised",
        Severity::Info => "info",
    };
    let mut text = format!("\n{weight:<10} {knob}\n");
    let plan = finding.plan.as_ref().map(|plan| format!("loadtest/plans/{plan}"));
    let plan = plan.unwrap_or_default();
    for (label, value) in
        [("actual", here), ("expected", wanted), ("cost", cost), ("do", hint), ("plan", &plan)]
    {
        if !value.is_empty() {
            // Writing to a string does not fail.
            writeln!(text, "  {label:<8} {value}").unwrap_or(());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::{Machine, PlannedLoad, review};

    #[test]
    fn needed_finding_shows_cost_and_hint() {
        let machine = Machine { open_files_max: Some(1_024), ..Machine::default() };
        let load = PlannedLoad { connections: 2_000, sources: 1 };
        let text = paragraphs(&review(&machine, load));
        assert!(text.starts_with("2000 connections from 1 address: not sufficient\n"), "{text}");
        for part in ["NEEDED     nofile", "actual   1024", "cost     ", "3 shards", "knob-limits"] {
            assert!(text.contains(part), "'{part}' is not in: {text}");
        }
        let few = PlannedLoad { connections: 100, sources: 2 };
        let text = paragraphs(&review(&machine, few));
        assert_eq!(text, "100 connections from 2 addresses: nothing differs from the profile\n");
    }
}
