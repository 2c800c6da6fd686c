//! Text output of a run.

use std::fmt::Write as _;

use super::percentile_row::{percentile_head, percentile_row};
use super::roles;
use crate::figure;
use crate::metrics::outcome::Failure;
use crate::metrics::process_group::ProgramCounts;
use crate::plan::CallPlan;
use crate::result::listen::MinMedianMax;
use crate::result::{CallResult, ListenResult, ProcessCost, RunResult, RunStatus, Totals};

/// Columns of a line of an example.
const EXAMPLE_COLUMNS: usize = 92;
/// Columns of a line.
const COLUMNS_MAX: usize = 100;
/// Columns of the word of a verdict.
const VERDICT_WIDTH: usize = 9;
/// Smallest CPU steal ratio that is shown: with less, the 99th percentile is hardly affected.
const STEAL_MIN: f64 = 0.001;

/// Formats the result of a run.
pub fn table(result: &RunResult) -> String {
    let mut out = String::new();
    let RunResult { plan, totals, .. } = result;
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    verdict_lines(result).for_each(&mut line);
    let connections = figure::count(plan.connections as u64);
    let load = match (plan.scenarios.is_empty(), plan.closed) {
        (false, _) => format!("{connections} users"),
        (true, true) => format!("closed loop · {connections} connections × {}", plan.depth),
        (true, false) => format!("open loop · {connections} connections × {}", plan.depth),
    };
    line(format!("{} · {} · {load} · {:.1} s", plan.target, plan.era_name(), totals.duration_s));
    plan.calls.iter().for_each(|call| line(call_line(call)));
    if let Some(tls) = &result.manifest.tls {
        line(tls.clone());
    }
    line(format!(
        "requests {} due · {} sent · {} answered · {}/s",
        figure::count(totals.due),
        figure::count(totals.sent),
        figure::count(totals.answered),
        figure::rate(totals.rate)
    ));
    if totals.streams.chunks > 0 {
        line(chunks(totals, result.server.as_ref()));
    }
    if !totals.failures.is_empty() || totals.unsolicited > 0 {
        line(failed(totals));
    }
    result
        .failure_examples
        .iter()
        .flat_map(|(kind, example)| example_lines(kind, example))
        .for_each(&mut line);
    connection_lines(result).into_iter().for_each(&mut line);
    for text in roles::lines(result) {
        line(text);
    }
    line(String::new());
    line(percentile_head());
    let latencies = result.latencies();
    latencies.into_iter().map(|(name, times)| percentile_row(name, times)).for_each(&mut line);
    result.calls.iter().flat_map(call_lines).for_each(&mut line);
    for row in roles::rows(result) {
        line(row);
    }
    result.listen.iter().flat_map(delivery_lines).for_each(&mut line);
    if let Some(ratio) = totals.steal_ratio.filter(|ratio| *ratio >= STEAL_MIN) {
        line(format!("steal    {} of the CPU time by the hypervisor", figure::percent(ratio)));
    }
    line(String::new());
    line(cost("generator", &result.generator));
    if let Some(server) = &result.server {
        line(cost("server", server));
    }
    if let Some(growth) = &result.memory_growth {
        line(format!("memory    {} of the server", growth.text()));
    }
    if let Some(programs) = result.programs {
        line(programs_line(programs));
    }
    out
}

/// Formats how connections opened and ended.
fn connection_lines(result: &RunResult) -> Vec<String> {
    let RunResult { plan, totals, manifest, connections, .. } = result;
    let mut lines = Vec::new();
    if plan.connect.is_some() || !manifest.sources.is_empty() {
        lines.push(opened(totals, &manifest.sources));
    }
    if totals.lost > 0 {
        lines.push(format!("lost     {} connections", figure::count(totals.lost)));
    }
    if connections.repeated > 0 {
        lines.push(format!(
            "repeated {} requests, whose connections the server closed between two requests",
            figure::count(connections.repeated)
        ));
    }
    // Without a connection it is the verdict.
    if let Some(why) = totals.last_error.as_ref().filter(|_| totals.opened > 0) {
        lines.push(format!("error    {why}"));
    }
    lines
}

/// Formats the counts and response times of one kind of request.
fn call_lines(call: &CallResult) -> [String; 2] {
    let CallResult { name, answered, failed, rate, response } = call;
    let [answered, failed] = [answered, failed].map(|count| figure::count(*count));
    let rate = figure::rate(*rate);
    let counts = format!("{name} · {answered} answered · {rate}/s · {failed} failed");
    [counts, percentile_row("", response)]
}

/// Formats a kind of request.
fn call_line(call: &CallPlan) -> String {
    let text = format!("calls    {}", call.describe());
    if text.chars().count() <= COLUMNS_MAX {
        return text;
    }
    text.chars().take(COLUMNS_MAX - 1).chain(['…']).collect()
}

/// Formats the chunks of streams, with their rate for each core that the server used.
fn chunks(totals: &Totals, server: Option<&ProcessCost>) -> String {
    let rate = totals.chunk_rate();
    let cores = server.map(|server| server.cores).filter(|cores| *cores > 0.0);
    let per_core = cores.map_or_else(String::new, |cores| {
        format!(" · {}/s for each core of the server", figure::rate(rate / cores))
    });
    format!(
        "chunks   {} · {}/s{per_core}",
        figure::count(totals.streams.chunks),
        figure::rate(rate)
    )
}

fn failed(totals: &Totals) -> String {
    let failures = totals.failures.iter();
    let failures = failures.map(|(kind, count)| format!(" · {kind} {}", figure::count(*count)));
    let late = match totals.late {
        0 => String::new(),
        late => format!(" · late {}", figure::count(late)),
    };
    format!(
        "failed   {} of all{} · unsolicited {}{late}",
        figure::percent_or_dash(totals.failure_ratio),
        failures.collect::<String>(),
        figure::count(totals.unsolicited)
    )
}

/// Formats the meaning of a kind of failure and the first answer or error of it.
fn example_lines(kind: &str, example: &str) -> Vec<String> {
    let known = Failure::ALL.into_iter().map(|failure| (failure.name(), failure.description()));
    let known = known.chain([Failure::UNSOLICITED]).find(|(name, _)| *name == kind);
    let meaning = known.map_or("", |(_, meaning)| meaning);
    if example == meaning {
        return vec![format!("  {kind:<11} {meaning}")];
    }
    let mut lines = vec![format!("  {kind:<11} {meaning}; the first:")];
    for line in example.lines() {
        let characters: Vec<char> = line.chars().collect();
        let parts = characters.chunks(EXAMPLE_COLUMNS).map(|part| part.iter().collect::<String>());
        let parts: Vec<String> =
            if line.is_empty() { vec![String::new()] } else { parts.collect() };
        lines.extend(parts.iter().map(|part| format!("    | {part}").trim_end().to_owned()));
    }
    lines
}

fn opened(totals: &Totals, sources: &[String]) -> String {
    let from = match sources {
        [] => String::new(),
        sources => format!(" from {}", sources.join(", ")),
    };
    format!(
        "opened   {} connections in {}{from}",
        figure::count(totals.opened),
        figure::duration(totals.connect_s * 1e6)
    )
}

/// Formats how the server processes ended.
fn programs_line(ProgramCounts { started, terminated, killed }: ProgramCounts) -> String {
    let mut line = format!("programs  {started} started");
    for (count, how) in [(terminated, "terminated"), (killed, "killed")] {
        if count > 0 {
            write!(line, " · {count} had to be {how}").unwrap_or(());
        }
    }
    line
}

/// Formats the verdict: the status with what was checked, or a line for each reason.
fn verdict_lines(result: &RunResult) -> impl Iterator<Item = String> {
    let limits = result.plan.thresholds.limits();
    let held = match result.status() {
        RunStatus::Passed => Some(format!("PASSED   {}", limits.join(", "))),
        RunStatus::Completed => Some("completed without thresholds".to_owned()),
        _ => None,
    };
    let reasons = result.verdict.reasons();
    let reasons = reasons.map(|(status, why)| format!("{:<8} {why}", status.text().to_uppercase()));
    let notes = result.verdict.notes.iter().map(|note| format!("note     {note}"));
    held.into_iter().chain(reasons).chain(notes).flat_map(|line| wrapped(&line))
}

/// Breaks a line between words, so that its parts fit; those after the first are indented.
fn wrapped(line: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for (place, word) in line.split(' ').enumerate() {
        let mut last = lines.pop().unwrap_or_default();
        if place > 0 {
            if last.chars().count() + 1 + word.chars().count() > COLUMNS_MAX {
                lines.push(last);
                last = " ".repeat(VERDICT_WIDTH);
            } else {
                last.push(' ');
            }
        }
        last.push_str(word);
        lines.push(last);
    }
    lines
}

/// Formats the counts and times of the fan-out.
fn delivery_lines(listen: &ListenResult) -> [String; 2] {
    let ListenResult { streams, opened, lost, delivered, missed, unexpected: stray, .. } = listen;
    let publications = listen.publications.len();
    let [opened, streams, delivered, missed, stray] =
        [opened, streams, delivered, missed, stray].map(|count| figure::count(*count));
    let mut counts = format!(
        "listen   {opened} of {streams} streams · {publications} publications · {delivered} \
         delivered · {missed} missed · {stray} unexpected"
    );
    if *lost > 0 {
        write!(counts, " · {lost} lost").unwrap_or(());
    }
    for (kind, count) in &listen.failures {
        write!(counts, " · publishing: {kind} {count}").unwrap_or(());
    }
    let times = [("first", listen.first), ("median", listen.median), ("last", listen.last)];
    let times = times.map(|(name, MinMedianMax { min_us, median_us, max_us })| {
        let [min, median, max] = [min_us, median_us, max_us].map(figure::latency);
        format!("{name} {median} ({min} to {max})")
    });
    [counts, format!("delivery {}", times.join(" · "))]
}

fn cost(name: &str, cost: &ProcessCost) -> String {
    let memory = cost.resident_bytes_max;
    let memory = memory.map(|bytes| format!(" · {} resident", figure::bytes(bytes)));
    let memory = memory.unwrap_or_default();
    let spun = match cost.spin_cores {
        0.0 => String::new(),
        cores => format!(" · {} cores polling", figure::digits(cores)),
    };
    let per_answer = cost.cpu_us_per_response;
    let per_answer = per_answer.map(|us| format!("{} CPU per response · ", figure::duration(us)));
    let per_answer = per_answer.unwrap_or_default();
    let of = cost.accounting.map(|it| format!(" · {}", it.description())).unwrap_or_default();
    format!("{name:<10}{per_answer}{} cores{spun}{memory}{of}", figure::digits(cost.cores))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::result::{Manifest, Percentiles, Verdict};

    fn result() -> RunResult {
        serde_json::from_value(serde_json::json!({
            "verdict": Verdict::default(),
            "plan": Plan::new("tcp://localhost:1"),
            "manifest": Manifest::default(),
            "totals": Totals { due: 1_234_567, rate: 123_456.7, ..Totals::default() },
            "response": Percentiles {
                count: 9, p50_us: Some(85.34), max_us: Some(2.5e6), ..Percentiles::default()
            },
            "service": Percentiles::default(),
            "lag": Percentiles::default(),
            "generator": ProcessCost::default(),
            "server": ProcessCost {
                resident_bytes_max: Some(13_002_342),
                ..ProcessCost::default()
            },
            "seconds": [],
        }))
        .unwrap()
    }

    #[test]
    fn table_columns_are_aligned_with_units() {
        let text = table(&result());
        let lines: Vec<&str> = text.lines().collect();
        let place = lines.iter().position(|line| line.contains("p99.99")).unwrap();
        let width = lines[place].chars().count();
        assert!(lines[place + 1..place + 4].iter().all(|line| line.chars().count() == width));
        assert!(lines[place + 1].contains("   85.3 µs") && lines[place + 1].ends_with(" 2.50 s"));
        assert!(lines[place + 2].ends_with("         –"), "{}", lines[place + 2]);
        assert!(text.ends_with("12.4 MiB resident\n"), "{text}");
    }

    #[test]
    fn table_has_chunks_for_each_server_core() {
        let mut result = result();
        assert!(!table(&result).contains("chunks"));
        (result.totals.streams.chunks, result.totals.duration_s) = (3_000_000, 2.0);
        result.server = Some(ProcessCost { cores: 0.5, ..ProcessCost::default() });
        let text = table(&result);
        assert!(text.contains("3,000,000 · 1,500,000/s · 3,000,000/s for each core"), "{text}");
    }

    #[test]
    fn table_counts_have_thousands_separators() {
        let text = table(&result());
        assert!(text.contains("1,234,567 due") && text.contains("123,457/s"), "{text}");
    }
}
