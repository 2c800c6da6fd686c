//! The figures of several rounds of one measurement.

/// Returns median, lowest and highest value, with two decimals. `values` has at least one.
pub fn format_rounds(values: &[f64]) -> String {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let (min, max) = (values[0], values[values.len() - 1]);
    format!("{:.2} ({min:.2}–{max:.2})", values[values.len() / 2])
}
