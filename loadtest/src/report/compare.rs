//! Text output of `corelane-load compare`.

use crate::comparison::repetitions::{Repetitions, SPREAD_ASSUMED};
use crate::comparison::{
    Comparison, ComparisonOptions, ComparisonOutcome, Row, SampleKind, test_count,
};
use crate::figure;
use crate::significance::Difference;

/// Formats how many runs a side show a change as large as the tolerance, a line for each column of
/// figures that fits.
pub fn repetitions(needed: &[Repetitions], bounds: ComparisonOptions) -> Vec<String> {
    const FIGURES_MAX: usize = 3;
    let change = figure::percent(bounds.tolerance);
    let mut lines = vec![format!("runs a side that show a change of {change}, 8 times of 10:")];
    let cell = |it: &Repetitions| {
        let spread = match it.spread {
            Some(spread) => format!("spread {}", figure::percent(spread)),
            None => "assumed".into(),
        };
        format!("{} {} ({spread})", it.figure, figure::count(it.runs as u64))
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

/// Formats comparisons, each with the names of its base and new side.
pub fn table(
    compared: &[(String, String)],
    comparisons: &[Comparison],
    bounds: ComparisonOptions,
    needed: &[String],
) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        out.push_str(text.trim_end());
        out.push('\n');
    };
    let asked = test_count(comparisons);
    for ((base, new), comparison) in compared.iter().zip(comparisons) {
        line(format!("base {base}"));
        line(format!("new  {new}"));
        let Comparison { sample_kind: witness, base_count, new_count, .. } = comparison;
        line(match witness {
            SampleKind::Second => format!(
                "of     {base_count} and {new_count} seconds of one run each. Seconds of one run \
                 depend on one another:\n       p is too small and the interval too narrow; \
                 compare several runs a side (--base, --new)"
            ),
            SampleKind::Run => format!("of     {base_count} and {new_count} runs"),
        });
        if !comparison.can_be_significant(bounds.level, asked) {
            line(format!(
                "       too few samples: no difference can be significant at the level of {} in \
                 {asked} tests",
                bounds.level
            ));
        }
        line(String::new());
        line(format!(
            "{:<16}{:>10}{:>10}{:>11}  {:<23}{:>8}",
            "medians", "base", "new", "difference", "ratio [95 %]", "p (Holm)"
        ));
        for row in &comparison.rows {
            line(format_row(row));
        }
        for text in needed {
            line(text.clone());
        }
        line(String::new());
    }
    let worse = comparisons.iter().filter(|comparison| comparison.is_worse()).count();
    line(match worse {
        0 => format!(
            "nothing is significantly worse by more than {}",
            figure::percent(bounds.tolerance)
        ),
        _ => format!("WORSE, significantly and by more than {}", figure::percent(bounds.tolerance)),
    });
    out
}

fn format_row(row: &Row) -> String {
    let shown = |value: Option<f64>| {
        value.map_or_else(|| "–".into(), |value| format_figure(row.unit, value))
    };
    let start = format!("{:<16}{:>10}{:>10}", row.figure, shown(row.base), shown(row.new));
    let (Some(difference), Some((absolute, _, _))) = (row.difference, row.absolute()) else {
        return format!("{start}{:>11}  not compared: fewer than four values a side", "–");
    };
    let sign = if absolute < 0.0 { "-" } else { "+" };
    let absolute = format!("{sign}{}", format_figure(row.unit, absolute.abs()));
    let Difference { ratio, ratio_low, ratio_high, .. } = difference;
    let ratio = format!("{ratio:.4} [{ratio_low:.4}, {ratio_high:.4}]");
    let p_value = row.p_value_corrected.unwrap_or(1.0);
    format!("{start}{absolute:>11}  {ratio:<23}{p_value:>8.4}  {}", outcome_text(row.outcome))
}

/// Formats a value in the unit of its figure.
fn format_figure(unit: &str, value: f64) -> String {
    match unit {
        "responses/s" => format!("{}/s", figure::rate(value)),
        "MiB" => format!("{} MiB", figure::digits(value)),
        _ => figure::duration(value),
    }
}

const fn outcome_text(judgement: ComparisonOutcome) -> &'static str {
    match judgement {
        ComparisonOutcome::Better => "better",
        ComparisonOutcome::WithinTolerance => "within tolerance",
        ComparisonOutcome::NotSignificant => "not significant",
        ComparisonOutcome::NotCompared => "not compared",
        ComparisonOutcome::Worse => "WORSE",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(judgement: ComparisonOutcome) -> Row {
        let mut comparison = Comparison::between(&[], &[]);
        let row = comparison.rows.remove(1);
        Row {
            base: Some(100.0),
            new: Some(110.0),
            difference: Some(Difference {
                ratio: 1.1,
                ratio_low: 1.05,
                ratio_high: 1.15,
                p_value: 0.001,
            }),
            p_value_corrected: Some(0.006),
            outcome: judgement,
            ..row
        }
    }

    fn shown(witness: SampleKind, judgement: ComparisonOutcome) -> String {
        let rows = vec![row(judgement), Comparison::between(&[], &[]).rows.remove(0)];
        let comparison = Comparison { sample_kind: witness, base_count: 20, new_count: 20, rows };
        let names = [("a.json".to_owned(), "b.json".to_owned())];
        table(&names, &[comparison], ComparisonOptions::default(), &[])
    }

    #[test]
    fn comparison_row_has_intervals_and_outcome() {
        let text = shown(SampleKind::Run, ComparisonOutcome::Worse);
        let line = text.lines().find(|line| line.starts_with("p50 ")).unwrap();
        for part in ["100 µs", "110 µs", "+10.0 µs", "1.1000 [1.0500, 1.1500]", "0.006"] {
            assert!(line.contains(part), "{part} is not in: {line}");
        }
        assert!(line.ends_with("WORSE"), "{line}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.ends_with("WORSE, significantly and by more than 3 %\n"), "{text}");
        assert!(text.contains("rate ") && text.contains("not compared"), "{text}");
    }

    #[test]
    fn comparison_of_seconds_prints_warning() {
        let text = shown(SampleKind::Second, ComparisonOutcome::WithinTolerance);
        assert!(text.contains("depend on one another"), "{text}");
        assert!(text.contains("nothing is significantly worse by more than 3 %"), "{text}");
        assert!(!shown(SampleKind::Run, ComparisonOutcome::WithinTolerance).contains("depend"));
    }
}
