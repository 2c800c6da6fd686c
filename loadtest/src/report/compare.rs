//! Text and Markdown of `corelane-load compare`.

use crate::comparison::repetitions::{Repetitions, SPREAD_ASSUMED};
use crate::comparison::{
    Comparison, ComparisonFile, ComparisonOptions, ComparisonOutcome, ComparisonVerdict, Row,
    format_change,
};
use crate::figure;
use crate::plan::budgets::{Budgets, Figure};

/// Formats how many runs a side show a change as large as the budget, a line for each column of
/// figures that fits.
pub fn repetitions(needed: &[Repetitions], options: &ComparisonOptions) -> Vec<String> {
    const FIGURES_MAX: usize = 3;
    if needed.is_empty() {
        return Vec::new();
    }
    let change = if options.budgets.is_empty() {
        figure::percent(options.tolerance)
    } else {
        "the budget".into()
    };
    let mut lines = vec![format!("runs a side that show a change of {change}, 8 times of 10:")];
    let cell = |it: &Repetitions| {
        let spread = match it.spread {
            Some(spread) => format!("spread {}", figure::percent(spread)),
            None => "assumed".into(),
        };
        format!("{} {} ({spread})", it.figure.name(), figure::count(it.runs as u64))
    };
    for few in needed.chunks(FIGURES_MAX) {
        let cells: Vec<String> = few.iter().map(cell).collect();
        lines.push(format!("       {}", cells.join(" · ")));
    }
    if needed.iter().any(|it| it.spread.is_none()) {
        lines.push(format!(
            "assumed: a spread of {}, since no side has two runs; name the first results (--base)",
            figure::percent(SPREAD_ASSUMED)
        ));
    }
    lines
}

/// Formats comparisons as text.
pub fn table(file: &ComparisonFile) -> String {
    let mut lines = Vec::new();
    for comparison in &file.comparisons {
        let Comparison { base, new, base_count, new_count, rows, .. } = comparison;
        lines.push(format!("base {base} ({})", count_runs(*base_count)));
        lines.push(format!("new  {new} ({})", count_runs(*new_count)));
        lines.push(String::new());
        lines.push(format!(
            "{:<14}{:>11}{:>11}{:>13}  {:<23}{:>7}{:>8}",
            "medians", "base", "new", "change", "95 % interval", "p", "budget"
        ));
        lines.extend(rows.iter().map(format_row));
        lines.extend(left_out_lines(comparison));
        lines.push(String::new());
    }
    lines.extend(repetitions(&file.repetitions, &file.options));
    for comparison in &file.comparisons {
        let of = if file.comparisons.len() > 1 { &comparison.new } else { "" };
        lines.extend(verdict_lines(comparison, of));
    }
    let lines: Vec<&str> = lines.iter().map(|line| line.trim_end()).collect();
    lines.join("\n") + "\n"
}

/// Formats comparisons as Markdown.
pub fn markdown(file: &ComparisonFile) -> String {
    let mut lines = Vec::new();
    for comparison in &file.comparisons {
        let Comparison { base, new, base_count, new_count, rows, .. } = comparison;
        let (verdict, reasons) = (verdict_word(comparison.verdict), comparison.reasons.join("; "));
        let reasons = if reasons.is_empty() { "no budget is exceeded" } else { &reasons };
        lines.push(format!("### {verdict}: {reasons}\n"));
        let (base_count, new_count) = (count_runs(*base_count), count_runs(*new_count));
        lines.push(format!("base `{base}` ({base_count}), new `{new}` ({new_count})\n"));
        lines.push("| figure | base | new | change | 95 % interval | p | budget | |".into());
        lines.push("| --- | ---: | ---: | ---: | --- | ---: | ---: | --- |".into());
        lines.extend(rows.iter().map(markdown_row));
        lines.push(String::new());
        lines.extend(left_out(comparison).iter().map(|text| format!("Left out: {text}\n")));
    }
    lines.join("\n") + "\n"
}

fn markdown_row(row: &Row) -> String {
    let [base, new] = [row.base, row.new].map(|value| format_figure(row.figure, value));
    format!(
        "| {} | {base} | {new} | {} | {} | {} | {} | {} |",
        row.figure.name(),
        format_change(row.figure, row.change.estimate),
        interval(row),
        p_value(row),
        budget(row),
        outcome_text(row.outcome)
    )
}

fn count_runs(count: usize) -> String {
    if count == 1 { "1 run".into() } else { format!("{count} runs") }
}

fn format_row(row: &Row) -> String {
    format!(
        "{:<14}{:>11}{:>11}{:>13}  {:<23}{:>7}{:>8}  {}",
        row.figure.name(),
        format_figure(row.figure, row.base),
        format_figure(row.figure, row.new),
        format_change(row.figure, row.change.estimate),
        interval(row),
        p_value(row),
        budget(row),
        outcome_text(row.outcome)
    )
}

fn interval(row: &Row) -> String {
    let [low, high] =
        [row.change.low, row.change.high].map(|change| format_change(row.figure, change));
    let low = low.split(' ').next().unwrap_or_default();
    format!("{low} to {high}")
}

fn p_value(row: &Row) -> String {
    row.p_value.map(|p_value| format!("{p_value:.4}")).unwrap_or_default()
}

fn budget(row: &Row) -> String {
    let text = row.budget.map(|budget| Budgets::format(row.figure, budget)).unwrap_or_default();
    text.replace("points", "pp")
}

fn left_out(comparison: &Comparison) -> Vec<String> {
    let mut texts: Vec<(String, Vec<&str>)> = Vec::new();
    for it in &comparison.left_out {
        match texts.iter_mut().find(|(reason, _)| *reason == it.reason) {
            Some((_, figures)) => figures.push(it.figure.name()),
            None => texts.push((it.reason.clone(), vec![it.figure.name()])),
        }
    }
    texts.into_iter().map(|(why, figures)| format!("{} ({why})", figures.join(", "))).collect()
}

fn left_out_lines(comparison: &Comparison) -> Vec<String> {
    left_out(comparison).iter().map(|text| format!("left out: {text}")).collect()
}

fn verdict_lines(comparison: &Comparison, of: &str) -> Vec<String> {
    let word = verdict_word(comparison.verdict);
    let of = if of.is_empty() { String::new() } else { format!(" {of}") };
    if comparison.reasons.is_empty() {
        return vec![format!("{word}{of}: nothing is significantly worse by more than its budget")];
    }
    comparison.reasons.iter().map(|why| format!("{word}{of}: {why}")).collect()
}

const fn verdict_word(verdict: ComparisonVerdict) -> &'static str {
    match verdict {
        ComparisonVerdict::NotWorse => "NOT WORSE",
        ComparisonVerdict::Worse => "WORSE",
        ComparisonVerdict::Undecided => "UNDECIDED",
    }
}

/// Formats a value in the unit of its figure.
fn format_figure(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Rate => format!("{}/s", figure::rate(value)),
        Figure::Memory => format!("{} MiB", figure::digits(value)),
        Figure::Errors => figure::percent(value),
        _ => figure::duration(value),
    }
}

const fn outcome_text(outcome: ComparisonOutcome) -> &'static str {
    match outcome {
        ComparisonOutcome::Better => "better",
        ComparisonOutcome::WithinBudget => "within budget",
        ComparisonOutcome::NotSignificant => "not significant",
        ComparisonOutcome::NotTested => "",
        ComparisonOutcome::Worse => "WORSE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::LeftOut;
    use crate::comparison::comparability::Comparability;
    use crate::significance::Shift;

    fn file(verdict: ComparisonVerdict, reason: Option<&str>) -> ComparisonFile {
        let row = Row {
            figure: Figure::P99,
            base: 100.0,
            new: 110.0,
            change: Shift { estimate: 0.1, low: 0.05, high: 0.15 },
            p_value: Some(0.0079),
            budget: Some(0.03),
            outcome: ComparisonOutcome::Worse,
        };
        let untested = Row {
            figure: Figure::Errors,
            p_value: None,
            budget: None,
            outcome: ComparisonOutcome::NotTested,
            ..row
        };
        let left_out =
            [Figure::Cpu, Figure::Memory].map(|figure| LeftOut { figure, reason: "why".into() });
        let comparison = Comparison {
            base: "a.json".into(),
            new: "b.json".into(),
            base_count: 1,
            new_count: 5,
            verdict,
            reasons: reason.into_iter().map(ToOwned::to_owned).collect(),
            rows: vec![row, untested],
            left_out: left_out.into(),
        };
        ComparisonFile {
            options: ComparisonOptions::default(),
            comparability: Comparability::default(),
            comparisons: vec![comparison],
            repetitions: Vec::new(),
        }
    }

    #[test]
    fn comparison_row_has_interval_budget_and_outcome() {
        let text = table(&file(ComparisonVerdict::Worse, Some("p99 +10.0 %")));
        let line = text.lines().find(|line| line.starts_with("p99 ")).unwrap();
        for part in ["100 µs", "110 µs", "+10.0 %", "+5.00 to +15.0 %", "0.0079", "+3 %  WORSE"] {
            assert!(line.contains(part), "{part} is not in: {line}");
        }
        assert!(text.contains("left out: server CPU, server memory (why)"), "{text}");
        assert!(text.ends_with("\nWORSE: p99 +10.0 %\n"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let text = table(&file(ComparisonVerdict::NotWorse, None));
        assert!(
            text.ends_with("NOT WORSE: nothing is significantly worse by more than its budget\n")
        );
    }

    #[test]
    fn comparison_in_markdown_is_a_table() {
        let text = markdown(&file(ComparisonVerdict::Worse, Some("p99 +10.0 %")));
        assert!(text.starts_with("### WORSE: p99 +10.0 %\n"), "{text}");
        let rows: Vec<usize> = text
            .lines()
            .filter(|line| line.starts_with('|'))
            .map(|it| it.matches('|').count())
            .collect();
        assert_eq!(rows, [9; 4], "{text}");
    }
}
