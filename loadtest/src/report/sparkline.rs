//! Sparklines: values over time in one line of text, ▁▂▃▄▅▆▇█.

/// The bars in ascending order.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Draws the last values that fit into `columns`, the newest at the right. The highest value has
/// the highest bar, zero the lowest; `None` is a blank.
pub fn draw_sparkline(values: &[Option<f64>], columns: usize) -> String {
    let shown = &values[values.len().saturating_sub(columns)..];
    let highest = shown.iter().flatten().copied().fold(0.0, f64::max);
    shown.iter().map(|value| value.map_or(' ', |value| bar(value, highest))).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an index from 0 to 8: `as` saturates"
)]
fn bar(value: f64, highest: f64) -> char {
    let part = if highest > 0.0 { value / highest } else { 0.0 };
    BARS[((part * 8.0) as usize).min(7)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bar_height_is_proportional_to_value() {
        let values: Vec<_> = (0..=8).map(|value| Some(f64::from(value))).collect();
        assert_eq!(draw_sparkline(&values, 60), "▁▂▃▄▅▆▇██");
        assert_eq!(draw_sparkline(&[Some(5.0), Some(5.0)], 60), "██");
    }

    #[test]
    fn sparkline_shows_newest_values_that_fit() {
        assert_eq!(draw_sparkline(&[Some(800.0), Some(1.0), Some(8.0)], 2), "▂█");
        assert_eq!(draw_sparkline(&[Some(1.0)], 0), "");
    }

    #[test]
    fn missing_value_is_blank_and_zero_lowest() {
        assert_eq!(draw_sparkline(&[None, Some(0.0), Some(f64::NAN)], 60), " ▁▁");
        assert_eq!(draw_sparkline(&[], 60), "");
    }
}
