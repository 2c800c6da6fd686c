//! Values over time in one line of text: ▁▂▃▄▅▆▇█.

/// From the lowest bar to the highest.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The last values that fit into so many columns, the newest at the right. The highest of them has
/// the highest bar, zero the lowest; what is not known is a blank.
pub fn spark(values: &[Option<f64>], columns: usize) -> String {
    let shown = &values[values.len().saturating_sub(columns)..];
    let highest = shown.iter().flatten().copied().fold(0.0, f64::max);
    shown.iter().map(|value| value.map_or(' ', |value| bar(value, highest))).collect()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place from 0 to 8: `as` saturates"
)]
fn bar(value: f64, highest: f64) -> char {
    let part = if highest > 0.0 { value / highest } else { 0.0 };
    BARS[((part * 8.0) as usize).min(7)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_high_as_their_values() {
        let values: Vec<_> = (0..=8).map(|value| Some(f64::from(value))).collect();
        assert_eq!(spark(&values, 60), "▁▂▃▄▅▆▇██");
        assert_eq!(spark(&[Some(5.0), Some(5.0)], 60), "██");
    }

    #[test]
    fn only_the_newest_values_are_shown_where_there_is_no_room() {
        assert_eq!(spark(&[Some(800.0), Some(1.0), Some(8.0)], 2), "▂█");
        assert_eq!(spark(&[Some(1.0)], 0), "");
    }

    #[test]
    fn what_is_not_known_is_blank_and_nothing_is_low() {
        assert_eq!(spark(&[None, Some(0.0), Some(f64::NAN)], 60), " ▁▁");
        assert_eq!(spark(&[], 60), "");
    }
}
