//! Text and Markdown output of a sweep.

use std::fmt::Write as _;

use super::search;
use crate::result::RunResult;
use crate::sweep::{FIGURES, MedianRange, SweepResult, SweepRun, SweepStep};

/// Formats the line of a run at a fraction.
pub fn format_run(round: u32, part: f64, result: &RunResult) -> String {
    let word = result.status().text();
    format!(
        "round {round:>2} {:>5.1} %  {word:<7}  answered {:.1}/s  p50 {:.1} us  p99 {:.1} us  \
         failed {:.4}",
        part * 100.0,
        result.totals.rate,
        result.response.p50_us,
        result.response.p99_us,
        result.totals.failure_ratio
    )
}

/// Formats the search, and for each figure a row of medians and a row of ranges.
pub fn table(result: &SweepResult) -> String {
    let mut out = search::format_outcome(&result.plan, &result.search);
    if result.steps.is_empty() {
        return out;
    }
    let mut line = |text: String| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(String::new());
    let mut row = |name: &str, of: &dyn Fn(&SweepStep) -> String| {
        let cells: String = result.steps.iter().map(|step| cell(&of(step))).collect();
        line(format!("{name:<14}{cells}"));
    };
    row("fraction", &|step| percent(step.fraction));
    row("due/s", &|step| format!("{:.1}", step.rate));
    for figure in &FIGURES {
        let shown = |step: &SweepStep, shown: fn(&MedianRange) -> String| {
            step.spread(figure.of).as_ref().map_or_else(|| "-".to_owned(), shown)
        };
        row(figure.name, &|step| shown(step, |spread| format_figure(spread.median)));
        row("", &|step| {
            shown(step, |spread| {
                format!("{}–{}", format_figure(spread.low), format_figure(spread.high))
            })
        });
    }
    row("passed", &|step| format!("{} of {}", step.passes(), step.runs.len()));
    for step in &result.steps {
        for (number, why) in step.failure_reasons() {
            line(format!("{:<8}run {number}: {why}", percent(step.fraction)));
        }
    }
    line("CPU is per response; medians of the runs of a fraction, their ranges below".into());
    out
}

/// Formats a Markdown table with a row for each fraction, medians with ranges in brackets. `source`
/// names the sweep, such as the path of its plan.
pub fn markdown(result: &SweepResult, source: &str) -> String {
    let plan = &result.plan;
    let mut out = String::from("| plan | connections | fraction of the highest rate | due/s |");
    for figure in &FIGURES {
        // Writing to a string does not fail.
        write!(out, " {} |", figure.name).unwrap_or(());
    }
    out.push('\n');
    writeln!(out, "|{}", " --- |".repeat(4 + FIGURES.len())).unwrap_or(());
    for step in &result.steps {
        let mark = if step.has_passed() { "" } else { " (missed)" };
        let connections = plan.connections;
        let part = percent(step.fraction);
        write!(out, "| {source} | {connections} | {part}{mark} | {:.0} |", step.rate).unwrap_or(());
        for figure in &FIGURES {
            write!(out, " {} |", median_with_range(step, figure.of)).unwrap_or(());
        }
        out.push('\n');
    }
    out
}

/// Formats the median of a figure with its range.
pub(super) fn median_with_range(step: &SweepStep, of: fn(&SweepRun) -> Option<f64>) -> String {
    match step.spread(of) {
        Some(MedianRange { median, low, high }) if low < high => {
            format!("{} ({}–{})", format_figure(median), format_figure(low), format_figure(high))
        }
        Some(MedianRange { median, .. }) => format_figure(median),
        None => "–".into(),
    }
}

fn cell(text: &str) -> String {
    format!("{text:>18}")
}

/// Formats a fraction in percent.
pub(super) fn percent(part: f64) -> String {
    let rounded = (part * 1_000.0).round() / 10.0;
    format!("{rounded} %")
}

/// Formats a figure with three significant digits, whole from a hundred on.
pub(super) fn format_figure(value: f64) -> String {
    match value.abs() {
        size if size >= 99.95 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::probe::SearchResult;
    use crate::result::{Manifest, Percentiles, ProcessCost, Totals, Verdict};
    use crate::search::SearchOutcome;

    fn run(p99_us: f64) -> SweepRun {
        SweepRun {
            verdict: Verdict::default(),
            totals: Totals { rate: 500.0, ..Totals::default() },
            response: Percentiles { count: 9, p50_us: 10.0, p99_us, ..Percentiles::default() },
            service: Percentiles::default(),
            lag: Percentiles::default(),
            generator: ProcessCost { cpu_us_per_response: 2.5, ..ProcessCost::default() },
            server: Some(ProcessCost { resident_bytes_max: 3 << 20, ..ProcessCost::default() }),
        }
    }

    fn sweep() -> SweepResult {
        let mut missed = run(123.4);
        missed.verdict.missed_thresholds.push("p99 123 us, limit 100us".into());
        SweepResult {
            plan: Plan::new("tcp://localhost:1"),
            manifest: Manifest::default(),
            search: SearchResult {
                answer: SearchOutcome::Found { rate: 1_000.0, passes: 3, is_ceiling: false },
                probes: Vec::new(),
            },
            steps: vec![SweepStep {
                fraction: 0.5,
                rate: 500.0,
                runs: vec![run(50.0), run(60.0), missed],
            }],
        }
    }

    #[test]
    fn table_has_rows_of_medians_and_ranges() {
        let text = table(&sweep());
        assert!(text.contains("sustained  1000.0/s"), "{text}");
        let row = |name: &str| text.lines().position(|line| line.starts_with(name)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[row("fraction")].ends_with("50 %"), "{text}");
        assert!(lines[row("p99 us")].ends_with("60.0"), "{text}");
        assert!(lines[row("p99 us") + 1].ends_with("50.0–123"), "{text}");
        assert!(lines[row("passed")].ends_with("2 of 3"), "{text}");
        assert!(text.contains("run 3: p99 123 us, limit 100us"), "{text}");
    }

    #[test]
    fn markdown_rows_match_the_header() {
        let text = markdown(&sweep(), "plans/x.toml");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let cells = |line: &str| line.matches('|').count();
        assert!(lines.iter().all(|line| cells(line) == cells(lines[0])), "{text}");
        assert!(lines[2].starts_with("| plans/x.toml | 64 | 50 % | 500 |"), "{text}");
        assert!(lines[2].contains("| 60.0 (50.0–123) |") && lines[2].contains("| 3.00 |"));
    }

    #[test]
    fn sweep_without_rate_shows_only_search() {
        let mut sweep = sweep();
        sweep.search.answer = SearchOutcome::TooSlow;
        sweep.steps.clear();
        assert!(table(&sweep).contains("no rate") && !table(&sweep).contains("fraction"));
    }
}
