//! A run as Markdown, for comments and job summaries of CI.

use super::roles::users_text;
use crate::figure;
use crate::result::{Percentiles, ProcessCost, RunResult, RunStatus};

/// Formats a run.
pub fn run(result: &RunResult) -> String {
    let RunResult { plan, manifest, totals, .. } = result;
    let mut lines = vec![format!("### {}\n", verdict(result))];
    let kind = match (plan.scenarios.is_empty(), plan.closed) {
        (false, _) => "users",
        (true, true) => "closed loop",
        (true, false) => "open loop",
    };
    let mut facts = vec![
        code(&plan.target),
        plan.era_name().into(),
        kind.into(),
        format!("{} connections × {}", figure::count(plan.connections as u64), plan.depth),
        format!("{:.1} s", totals.duration_s),
    ];
    if let Some(server) = &manifest.server {
        facts.push(cell(&format!("{} {}", server.name, server.version)));
    }
    facts.extend(manifest.commit.as_deref().map(|commit| format!("commit {}", code(commit))));
    lines.push(facts.join(" · ") + "\n");
    let [due, sent, answered] = [totals.due, totals.sent, totals.answered].map(figure::count);
    lines.push(format!(
        "{due} requests due, {sent} sent, {answered} answered, {}/s, {} failed\n",
        figure::rate(totals.rate),
        figure::percent_or_dash(totals.failure_ratio)
    ));
    if let Some(users) = &result.users {
        lines.push(format!("users: {}\n", users_text(users, totals.duration_s)));
    }
    lines.push("| | mean | p50 | p90 | p95 | p99 | p99.9 | p99.99 | max |".into());
    lines.push("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |".into());
    lines.extend(
        result.latencies().into_iter().map(|(name, percentiles)| latency_row(name, percentiles)),
    );
    lines.extend(result.calls.iter().map(|call| latency_row(&cell(&call.name), &call.response)));
    lines.push(String::new());
    let failures = totals.failures.iter();
    lines.extend(failures.map(|(kind, count)| format!("- {kind}: {}", figure::count(*count))));
    if !totals.failures.is_empty() {
        lines.push(String::new());
    }
    lines.extend(result.server.as_ref().map(|server| cost_line("server", server)));
    lines.extend(result.memory_growth.map(|growth| format!("server memory: {}\n", growth.text())));
    lines.push(cost_line("generator", &result.generator));
    lines.join("\n") + "\n"
}

/// Returns the verdict in one line.
fn verdict(result: &RunResult) -> String {
    let status = result.status();
    let details = match status {
        RunStatus::Passed => result.plan.thresholds.limits().join(", "),
        RunStatus::Completed => "no thresholds".into(),
        _ => result.verdict.reason_texts().join("; "),
    };
    format!("{}: {}", status.text().to_uppercase(), cell(&details))
}

fn latency_row(name: &str, percentiles: &Percentiles) -> String {
    let values = percentiles.statistics().map(|(_, us)| figure::latency(us));
    format!("| {name} | {} |", values.join(" | "))
}

fn cost_line(name: &str, cost: &ProcessCost) -> String {
    let mut parts = vec![format!("{} cores", figure::digits(cost.cores))];
    if let Some(us) = cost.cpu_us_per_response {
        parts.insert(0, format!("{} CPU per response", figure::duration(us)));
    }
    if let Some(bytes) = cost.resident_bytes_max {
        parts.push(format!("{} resident", figure::bytes(bytes)));
    }
    format!("{name}: {}\n", parts.join(" · "))
}

/// Returns text that breaks neither a line nor a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").split_whitespace().collect::<Vec<_>>().join(" ")
}

fn code(text: &str) -> String {
    format!("`{}`", text.replace(['`', '\n'], " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::tests::result;

    #[test]
    fn markdown_has_verdict_and_table() {
        let mut run_result = result(100, 100.0);
        run_result.verdict.missed_thresholds = vec!["p99 1 ms | <b>\nx".into()];
        run_result.totals.failures.insert("timeout".into(), 3);
        let text = run(&run_result);
        assert!(text.starts_with("### MISSED: p99 1 ms \\| &lt;b> x\n"), "{text}");
        assert!(text.contains("\n- timeout: 3\n"), "{text}");
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(table.len(), 6);
        assert!(table.iter().all(|row| row.matches('|').count() == 10), "{text}");
    }
}
