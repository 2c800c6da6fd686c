//! A sweep as people read it: a table on a terminal, and one for a README.

use std::fmt::Write as _;

use super::search;
use super::word::Word;
use crate::result::RunResult;
use crate::sweep::{FIGURES, Spread, Step, StepRun, SweepResult};

/// The line of a run at a part, when it is over.
pub fn line(round: u32, part: f64, result: &RunResult) -> String {
    let word = Word::of(result.verdict.is_valid(), result.verdict.has_passed()).text();
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

/// The answer of the search, and a row of medians for each part with a row of ranges below it.
pub fn table(result: &SweepResult) -> String {
    let mut out = search::answer(&result.plan, &result.search);
    if result.steps.is_empty() {
        return out;
    }
    let mut line = |text: String| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    line(String::new());
    let names: String = FIGURES.iter().map(|figure| cell(figure.name)).collect();
    line(format!("{:<7}{:>12}{names}  passed", "part", "due/s"));
    for step in &result.steps {
        let cells = |shown: fn(&Spread) -> String| -> String {
            let spreads = FIGURES.iter().map(|figure| step.spread(figure.of));
            let shown = |spread: Option<Spread>| spread.as_ref().map(shown);
            spreads.map(|spread| cell(shown(spread).as_deref().unwrap_or("-"))).collect()
        };
        line(format!(
            "{:<7}{:>12.1}{}  {} of {}",
            percent(step.part),
            step.rate,
            cells(|spread| short(spread.median)),
            step.passes(),
            step.runs.len()
        ));
        let ranges = cells(|spread| format!("{}–{}", short(spread.low), short(spread.high)));
        line(format!("{:<19}{ranges}", ""));
    }
    for step in &result.steps {
        for (number, why) in step.against() {
            line(format!("{:<7}run {number}: {why}", percent(step.part)));
        }
    }
    line(
        "CPU is that of one answer; medians of the runs of a part, their ranges below them".into(),
    );
    out
}

/// A table for a README: a row for each part, medians with their ranges in brackets. `source` says
/// where the sweep is described, such as the path of its plan.
pub fn markdown(result: &SweepResult, source: &str) -> String {
    let plan = &result.plan;
    let mut out = String::from("| plan | connections | part of the highest rate | due/s |");
    for figure in &FIGURES {
        // Writing to a string does not fail.
        write!(out, " {} |", figure.name).unwrap_or(());
    }
    out.push('\n');
    writeln!(out, "|{}", " --- |".repeat(4 + FIGURES.len())).unwrap_or(());
    for step in &result.steps {
        let mark = if step.has_passed() { "" } else { " (missed)" };
        let connections = plan.connections;
        let part = percent(step.part);
        write!(out, "| {source} | {connections} | {part}{mark} | {:.0} |", step.rate).unwrap_or(());
        for figure in &FIGURES {
            write!(out, " {} |", bracketed(step, figure.of)).unwrap_or(());
        }
        out.push('\n');
    }
    out
}

/// A figure of a part, with its range where it has one.
pub(super) fn bracketed(step: &Step, of: fn(&StepRun) -> Option<f64>) -> String {
    match step.spread(of) {
        Some(Spread { median, low, high }) if low < high => {
            format!("{} ({}–{})", short(median), short(low), short(high))
        }
        Some(Spread { median, .. }) => short(median),
        None => "–".into(),
    }
}

fn cell(text: &str) -> String {
    format!("{text:>14}")
}

/// A part of the highest rate.
pub(super) fn percent(part: f64) -> String {
    let rounded = (part * 1_000.0).round() / 10.0;
    format!("{rounded} %")
}

/// A figure with three digits or more: whole from a hundred on.
pub(super) fn short(value: f64) -> String {
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
    use crate::probe::Found;
    use crate::result::{Cost, Manifest, Percentiles, Totals, Verdict};
    use crate::search::Answer;

    fn run(p99_us: f64) -> StepRun {
        StepRun {
            verdict: Verdict::default(),
            totals: Totals { rate: 500.0, ..Totals::default() },
            response: Percentiles { count: 9, p50_us: 10.0, p99_us, ..Percentiles::default() },
            service: Percentiles::default(),
            lag: Percentiles::default(),
            generator: Cost { cpu_us_per_answer: 2.5, ..Cost::default() },
            server: Some(Cost { resident_bytes_max: 3 << 20, ..Cost::default() }),
        }
    }

    fn sweep() -> SweepResult {
        let mut missed = run(123.4);
        missed.verdict.missed.push("p99 123 us, 100us allowed".into());
        SweepResult {
            plan: Plan::new("tcp://localhost:1"),
            manifest: Manifest::default(),
            search: Found {
                answer: Answer::Found { rate: 1_000.0, passes: 3, is_ceiling: false },
                probes: Vec::new(),
            },
            steps: vec![Step { part: 0.5, rate: 500.0, runs: vec![run(50.0), run(60.0), missed] }],
        }
    }

    #[test]
    fn a_part_has_a_row_of_medians_and_one_of_ranges() {
        let text = table(&sweep());
        assert!(text.contains("bears      1000.0/s"), "{text}");
        let rows: Vec<_> = text.lines().skip_while(|line| !line.starts_with("50 %")).collect();
        assert!(rows[0].contains("60.0") && rows[0].ends_with("2 of 3"), "{text}");
        assert!(rows[1].contains("50.0–123"), "{text}");
        assert!(rows[2].ends_with("run 3: p99 123 us, 100us allowed"), "{text}");
    }

    #[test]
    fn a_readme_gets_a_row_a_part_with_as_many_cells_as_the_head() {
        let text = markdown(&sweep(), "plans/x.toml");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let cells = |line: &str| line.matches('|').count();
        assert!(lines.iter().all(|line| cells(line) == cells(lines[0])), "{text}");
        assert!(lines[2].starts_with("| plans/x.toml | 64 | 50 % | 500 |"), "{text}");
        assert!(lines[2].contains("| 60.0 (50.0–123) |") && lines[2].contains("| 3.00 |"));
    }

    #[test]
    fn a_sweep_without_a_rate_shows_only_its_search() {
        let mut sweep = sweep();
        sweep.search.answer = Answer::TooSlow;
        sweep.steps.clear();
        assert!(table(&sweep).contains("no rate") && !table(&sweep).contains("part"));
    }
}
