//! Text and Markdown output of a sweep.

use std::fmt::Write as _;

use super::search;
use crate::figure;
use crate::result::RunResult;
use crate::sweep::{
    Contradiction, FIGURES, Figure, FigureUnit, MedianRange, SweepResult, SweepStep,
};

/// Fractions beside each other in a table.
const COLUMNS_MAX: usize = 4;
/// Width of the name of a figure, and of a fraction.
const WIDTHS: (usize, usize) = (12, 20);

/// Formats the line of a run at a fraction.
pub fn format_run(round: u32, part: f64, result: &RunResult) -> String {
    let word = result.status().text();
    format!(
        "round {round:>2} {:>6}  {word:<7}  answered {}/s  p50 {}  p99 {}  failed {}",
        figure::percent(part),
        figure::rate(result.totals.rate),
        figure::latency(result.response.p50_us),
        figure::latency(result.response.p99_us),
        figure::percent_or_dash(result.totals.failure_ratio)
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
    for steps in result.steps.chunks(COLUMNS_MAX) {
        line(String::new());
        let row = |name: &str, of: &dyn Fn(&SweepStep) -> String| {
            let cells: String = steps.iter().map(|step| cell(&of(step))).collect();
            format!("{name:<width$}{cells}", width = WIDTHS.0)
        };
        line(row("fraction", &|step| figure::percent(step.fraction)));
        line(row("due", &|step| format!("{}/s", figure::rate(step.rate))));
        for figure in &FIGURES {
            let spread = |step: &SweepStep| step.spread(figure.of);
            line(row(figure.name, &|step| {
                spread(step).map_or_else(|| "–".into(), |it| format_figure(figure.unit, it.median))
            }));
            let range = |it: MedianRange| {
                let shown = [it.low, it.high].map(|value| format_figure(figure.unit, value));
                format!("{}–{}", shown[0], shown[1])
            };
            if steps.iter().filter_map(spread).any(|it| it.low < it.high) {
                line(row("", &|step| spread(step).map_or_else(String::new, range)));
            }
        }
        line(row("passed", &|step| format!("{} of {}", step.passes(), step.runs.len())));
    }
    for step in &result.steps {
        for (number, why) in step.failure_reasons() {
            line(format!("{:<8}run {number}: {why}", figure::percent(step.fraction)));
        }
    }
    for contradiction in result.contradictions() {
        line(format_contradiction(&contradiction));
    }
    line("CPU is per response; medians of the runs of a fraction, their ranges below".into());
    out
}

/// Formats a contradiction with a hint.
pub(super) fn format_contradiction(contradiction: &Contradiction) -> String {
    let Contradiction { rate, found, passes, runs } = contradiction;
    let hint = if contradiction.is_above() {
        "it may be too low: search again"
    } else {
        "it may be too high, or the machine was disturbed: search again"
    };
    format!(
        "CONTRADICTS the rate found, {}/s: {passes} of {runs} runs at {}/s passed; {hint}",
        figure::rate(*found),
        figure::rate(*rate)
    )
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
        let part = figure::percent(step.fraction);
        write!(out, "| {source} | {connections} | {part}{mark} | {:.0} |", step.rate).unwrap_or(());
        for figure in &FIGURES {
            write!(out, " {} |", median_with_range(step, figure)).unwrap_or(());
        }
        out.push('\n');
    }
    out
}

/// Formats the median of a figure with its range.
pub(super) fn median_with_range(step: &SweepStep, figure: &Figure) -> String {
    let shown = |value| format_figure(figure.unit, value);
    match step.spread(figure.of) {
        Some(MedianRange { median, low, high }) if low < high => {
            format!("{} ({}–{})", shown(median), shown(low), shown(high))
        }
        Some(MedianRange { median, .. }) => shown(median),
        None => "–".into(),
    }
}

fn cell(text: &str) -> String {
    format!("{text:>width$}", width = WIDTHS.1)
}

/// Formats a figure with its unit.
fn format_figure(unit: FigureUnit, value: f64) -> String {
    match unit {
        FigureUnit::Rate => format!("{}/s", figure::rate(value)),
        FigureUnit::Microseconds => figure::duration(value),
        FigureUnit::Ratio => figure::percent(value),
        FigureUnit::Mebibytes => format!("{} MiB", figure::digits(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;
    use crate::probe::SearchResult;
    use crate::result::{Manifest, Percentiles, ProcessCost, Totals, Verdict};
    use crate::search::SearchOutcome;
    use crate::sweep::SweepRun;

    fn run(p99_us: f64) -> SweepRun {
        let response = Percentiles {
            count: 9,
            p50_us: Some(10.0),
            p99_us: Some(p99_us),
            ..Percentiles::default()
        };
        SweepRun {
            verdict: Verdict::default(),
            totals: Totals { rate: 500.0, ..Totals::default() },
            response,
            service: Percentiles::default(),
            lag: Percentiles::default(),
            generator: ProcessCost { cpu_us_per_response: Some(2.5), ..ProcessCost::default() },
            server: Some(ProcessCost {
                resident_bytes_max: Some(3 << 20),
                ..ProcessCost::default()
            }),
        }
    }

    fn sweep() -> SweepResult {
        let mut missed = run(123.4);
        missed.verdict.missed_thresholds.push("p99 123 us, limit 100us".into());
        SweepResult {
            plan: Plan::new("tcp://localhost:1"),
            manifest: Manifest::default(),
            search: SearchResult {
                is_stopped: false,
                answer: SearchOutcome::Found {
                    rate: 1_000.0,
                    passes: 3,
                    failures: 0,
                    is_ceiling: false,
                },
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
        assert!(text.contains("sustained  1,000/s ± 5 %"), "{text}");
        let rows: Vec<_> = text.lines().skip_while(|line| !line.starts_with("p99 ")).collect();
        assert!(rows[0].ends_with("60.0 µs") && rows[1].ends_with(" 50.0 µs–123 µs"), "{text}");
        assert!(text.contains("2 of 3") && text.contains("run 3: p99 123 us, limit 100us"));
    }

    #[test]
    fn table_names_contradictions() {
        let mut sweep = sweep();
        assert!(!table(&sweep).contains("CONTRADICTS"));
        let missed = sweep.steps[0].runs[2].clone();
        sweep.steps[0].runs = vec![missed; 3];
        let text = table(&sweep);
        let expected =
            "CONTRADICTS the rate found, 1,000/s: 0 of 3 runs at 500/s passed; it may be";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn table_of_many_fractions_fits_100_columns() {
        let mut sweep = sweep();
        sweep.steps = vec![sweep.steps[0].clone(); 9];
        let text = table(&sweep);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with("fraction ")).count(), 3);
    }

    #[test]
    fn markdown_rows_match_the_header() {
        let text = markdown(&sweep(), "plans/x.toml");
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        let cells = |line: &str| line.matches('|').count();
        assert!(lines.iter().all(|line| cells(line) == cells(lines[0])), "{text}");
        assert!(lines[2].starts_with("| plans/x.toml | 64 | 50 % | 500 |"), "{text}");
        assert!(lines[2].contains("| 60.0 µs (50.0 µs–123 µs) |"), "{text}");
        assert!(lines[2].contains("| 3.00 MiB |"), "{text}");
    }

    #[test]
    fn sweep_without_rate_shows_only_search() {
        let mut sweep = sweep();
        sweep.search.answer = SearchOutcome::TooSlow;
        sweep.steps.clear();
        assert!(table(&sweep).contains("no rate") && !table(&sweep).contains("fraction"));
    }
}
