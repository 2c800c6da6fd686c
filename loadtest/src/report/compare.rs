//! Text output of `corelane-load compare`.

use super::sweep::format_figure;
use crate::comparison::{
    Comparison, ComparisonOptions, ComparisonOutcome, Row, SampleKind, test_count,
};

/// Formats comparisons, each with the names of its base and new side.
pub fn table(
    compared: &[(String, String)],
    comparisons: &[Comparison],
    bounds: ComparisonOptions,
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
                 depend on one another: p is too small and the interval too narrow. For a reliable \
                 result compare several runs a side, alternating (--base, --new)"
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
            "{:<26}{:>12}{:>12}{:>12}  {:<22}{:>8}  {:<18}{:>9}",
            "medians", "base", "new", "difference", "95 %", "ratio", "95 %", "p (Holm)"
        ));
        for row in &comparison.rows {
            line(format_row(row));
        }
        line(String::new());
    }
    let worse = comparisons.iter().filter(|comparison| comparison.is_worse()).count();
    line(match worse {
        0 => format!("nothing is significantly worse by more than {}", percent(bounds.tolerance)),
        _ => format!("WORSE, significantly and by more than {}", percent(bounds.tolerance)),
    });
    out
}

fn format_row(row: &Row) -> String {
    let known = |value: Option<f64>| value.map_or_else(|| "-".into(), format_figure);
    let name = format!("{} {}", row.figure, row.unit);
    let (base, new) = (known(row.base), known(row.new));
    let start = format!("{name:<26}{base:>12}{new:>12}");
    let (Some(difference), Some((absolute, low, high))) = (row.difference, row.absolute()) else {
        return format!("{start}{:>12}  not compared: fewer than four values a side", "-");
    };
    let range = format!("[{}, {}]", signed(low), signed(high));
    let ratios = format!("[{:.4}, {:.4}]", difference.ratio_low, difference.ratio_high);
    let p_value = row.p_value_corrected.unwrap_or(1.0);
    format!(
        "{start}{:>12}  {range:<22}{:>8.4}  {ratios:<18}{p_value:>9.4}  {}",
        signed(absolute),
        difference.ratio,
        outcome_text(row.outcome)
    )
}

const fn outcome_text(judgement: ComparisonOutcome) -> &'static str {
    match judgement {
        ComparisonOutcome::Better => "better",
        ComparisonOutcome::WithinTolerance => "differs within the tolerance",
        ComparisonOutcome::NotSignificant => "not significant",
        ComparisonOutcome::NotCompared => "not compared",
        ComparisonOutcome::Worse => "WORSE",
    }
}

fn signed(value: f64) -> String {
    let sign = if value < 0.0 { "-" } else { "+" };
    format!("{sign}{}", format_figure(value.abs()))
}

fn percent(part: f64) -> String {
    format!("{} %", (part * 1e4).round() / 1e2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::significance::Difference;

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
        table(&names, &[comparison], ComparisonOptions::default())
    }

    #[test]
    fn comparison_row_has_intervals_and_outcome() {
        let text = shown(SampleKind::Run, ComparisonOutcome::Worse);
        let line = text.lines().find(|line| line.starts_with("p50 us")).unwrap();
        for part in ["100", "110", "+10.0", "[+5.00, +15.0]", "1.1000", "[1.0500, 1.1500]", "0.006"]
        {
            assert!(line.contains(part), "{part} is not in: {line}");
        }
        assert!(line.ends_with("WORSE"), "{line}");
        assert!(text.ends_with("WORSE, significantly and by more than 3 %\n"), "{text}");
        assert!(text.contains("rate responses/s") && text.contains("not compared"), "{text}");
    }

    #[test]
    fn comparison_of_seconds_prints_warning() {
        let text = shown(SampleKind::Second, ComparisonOutcome::WithinTolerance);
        assert!(text.contains("depend on one another"), "{text}");
        assert!(text.contains("nothing is significantly worse by more than 3 %"), "{text}");
        assert!(!shown(SampleKind::Run, ComparisonOutcome::WithinTolerance).contains("depend"));
    }
}
