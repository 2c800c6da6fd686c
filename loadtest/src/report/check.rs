//! Text output of `corelane-load check`.

use std::fmt::Write;

use crate::tuning::{Listener, ListenerProcess, PlannedLoad, Review, Severity, TuningFinding};

/// Formats a review as paragraphs: needed findings first, satisfied settings last.
pub fn paragraphs(review: &Review) -> String {
    let mut text = subject(review);
    let needed =
        review.findings.iter().filter(|finding| finding.severity == Severity::Needed).count();
    text.push_str(match (needed, review.findings.len()) {
        (0, 0) => "nothing differs from the profile\n",
        (0, _) => "sufficient\n",
        _ => "not sufficient\n",
    });
    if review.load.is_none() {
        text.extend(review.listeners.iter().map(listener_line));
    }
    for finding in &review.findings {
        text.push_str(&paragraph(finding));
    }
    if review.load.is_none() {
        text.push_str("\nfor more connections: corelane-load check --connections N\n");
    }
    if !review.satisfied.is_empty() {
        text.push_str("\nsatisfied  ");
        text.push_str(&review.satisfied.join("\n           "));
        text.push('\n');
    }
    text
}

/// Formats what was checked.
fn subject(review: &Review) -> String {
    let Some(PlannedLoad { connections, sources }) = review.load else {
        let open: u64 = review.listeners.iter().map(|listener| listener.connections).sum();
        let listeners = review.listeners.len();
        return format!("in use now, {listeners} listeners with {open} connections: ");
    };
    let plural = if sources == 1 { "address" } else { "addresses" };
    format!("{connections} connections from {sources} {plural}: ")
}

fn listener_line(listener: &Listener) -> String {
    let Listener { address, connections, waiting, process } = listener;
    let process = match process {
        Some(ListenerProcess { pid, name, open_files, open_files_max }) => {
            let limit = open_files_max.map(|limit| format!(" of {limit}")).unwrap_or_default();
            format!("{name} (pid {pid}), {open_files}{limit} open files")
        }
        None => "process of another user".into(),
    };
    format!("  {address:<24} {connections} connections, {waiting} waiting  {process}\n")
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
    use crate::tuning::{Listeners, Machine, review};

    #[test]
    fn needed_finding_shows_cost_and_hint() {
        let machine = Machine { open_files_max: Some(1_024), ..Machine::default() };
        let load = PlannedLoad { connections: 2_000, sources: 1 };
        let text = paragraphs(&review(&machine, Some(load)));
        assert!(text.starts_with("2000 connections from 1 address: not sufficient\n"), "{text}");
        for part in ["NEEDED     nofile", "actual   1024", "cost     ", "3 shards", "knob-limits"] {
            assert!(text.contains(part), "'{part}' is not in: {text}");
        }
        let few = PlannedLoad { connections: 100, sources: 2 };
        let text = paragraphs(&review(&machine, Some(few)));
        assert_eq!(text, "100 connections from 2 addresses: nothing differs from the profile\n");
    }

    #[test]
    fn current_use_lists_listeners() {
        let listener = Listener {
            address: "127.0.0.1:8080".parse().unwrap(),
            connections: 12,
            waiting: 0,
            process: Some(ListenerProcess {
                pid: 7,
                name: "corelane".into(),
                open_files: 18,
                open_files_max: Some(1_024),
            }),
        };
        let listeners = Listeners { all: vec![listener], overflows: None };
        let machine = Machine { listeners, ..Machine::default() };
        let text = paragraphs(&review(&machine, None));
        assert!(text.starts_with("in use now, 1 listeners with 12 connections: nothing"), "{text}");
        assert!(text.contains("corelane (pid 7), 18 of 1024 open files"), "{text}");
        assert!(text.contains("check --connections N"), "{text}");
    }
}
