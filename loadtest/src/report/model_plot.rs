//! Text plot of a scalability law and its points.

use std::fmt::Write as _;

/// Width of the plot in columns.
const COLUMNS: usize = 60;
/// Height of the plot in rows.
const ROWS: usize = 12;
/// Ratio of the largest to the smallest size from which the axis is logarithmic.
const LOGARITHMIC_FROM: f64 = 32.0;

/// Draws points of a positive size and value (`o`) and the law: `·` up to the largest measured
/// size, `:` beyond it, up to twice that size.
pub fn draw(points: &[(f64, f64)], law: impl Fn(f64) -> f64) -> String {
    let sizes = || points.iter().map(|(size, _)| *size);
    let (least, most) = (sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max));
    if points.is_empty() {
        return String::new();
    }
    let end = most * 2.0;
    let is_logarithmic = end / least >= LOGARITHMIC_FROM;
    let place = |size: f64| if is_logarithmic { size.ln() } else { size };
    let (from, to) = (place(least), place(end));
    let column = |size: f64| whole((place(size) - from) / (to - from), COLUMNS);
    let size_at = |column: usize| {
        let at = from + (to - from) * fraction(column, COLUMNS);
        if is_logarithmic { at.exp() } else { at }
    };
    let curve: Vec<f64> = (0..COLUMNS).map(|column| law(size_at(column))).collect();
    let values = curve.iter().copied().chain(points.iter().map(|(_, value)| *value));
    let top = values.fold(0.0, f64::max);
    let row = |value: f64| ROWS - 1 - whole(value / top, ROWS);
    let mut cells = vec![[' '; COLUMNS]; ROWS];
    for (column, value) in curve.iter().enumerate() {
        let is_measured = size_at(column) <= most;
        cells[row(*value)][column] = if is_measured { '·' } else { ':' };
    }
    for (size, value) in points {
        cells[row(*value)][column(*size)] = 'o';
    }
    let mut out = String::new();
    for (number, row) in cells.iter().enumerate() {
        let label = match number {
            0 => format!("{top:.0}"),
            _ if number == ROWS - 1 => "0".into(),
            _ => String::new(),
        };
        let row: String = row.iter().collect();
        out.push_str(format!("{label:>12} |{row}").trim_end());
        out.push('\n');
    }
    // Writing to a string does not fail.
    writeln!(out, "{:>12} +{}", "", "-".repeat(COLUMNS)).unwrap_or(());
    let scale = if is_logarithmic { " (logarithmic)" } else { "" };
    let (begin, finish) = (format!("{least}"), format!("{end}{scale}"));
    writeln!(out, "{:>14}{begin:<20}{finish:>40}", "").unwrap_or(());
    out
}

/// Returns the nearest of `steps` positions for a fraction from 0 to 1.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "a few dozen columns"
)]
fn whole(part: f64, steps: usize) -> usize {
    ((part * (steps - 1) as f64).round().max(0.0) as usize).min(steps - 1)
}

#[expect(clippy::cast_precision_loss, reason = "a few dozen columns")]
fn fraction(step: usize, steps: usize) -> f64 {
    step as f64 / (steps - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plot_shows_law_beyond_measured_points() {
        let drawn = draw(&[(1.0, 100.0), (2.0, 200.0), (4.0, 400.0)], |size| size * 100.0);
        let lines: Vec<_> = drawn.lines().collect();
        assert_eq!(lines.len(), ROWS + 2);
        assert!(lines[0].trim_start().starts_with("800 |") && lines[0].ends_with(':'), "{drawn}");
        assert_eq!(drawn.matches('o').count(), 3, "{drawn}");
        assert!(drawn.contains('·') && lines[ROWS + 1].trim_end().ends_with('8'), "{drawn}");
        assert!(lines.iter().all(|line| line.chars().count() <= 74));
    }

    #[test]
    fn wide_range_of_sizes_is_logarithmic() {
        let drawn = draw(&[(64.0, 9.0), (1_000.0, 8.0), (40_000.0, 5.0)], |_| 7.0);
        assert!(drawn.contains("80000 (logarithmic)"), "{drawn}");
        let column = |line: &str| line.chars().position(|it| it == 'o');
        let columns: Vec<_> = drawn.lines().take(ROWS).filter_map(column).collect();
        assert!(columns.windows(2).all(|pair| pair[1] > pair[0] + 10), "{drawn}");
    }

    #[test]
    fn plot_without_points_is_empty() {
        assert_eq!(draw(&[], |_| 1.0), "");
    }
}
