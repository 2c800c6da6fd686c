//! Formatting of figures with three significant digits and a unit.

/// Formats a duration in microseconds: `85.3 µs`, `1.20 ms`, `2.35 s`.
pub fn duration(us: f64) -> String {
    let (value, unit) = scaled(us);
    format!("{} {unit}", digits(value))
}

/// Formats a latency in microseconds, or a dash if none was measured.
pub fn latency(us: Option<f64>) -> String {
    us.map_or_else(|| "–".into(), duration)
}

/// Formats a duration without trailing zeros, for axis labels: `500 µs`, `1 ms`, `2.5 s`.
pub fn round_duration(us: f64) -> String {
    let (value, unit) = scaled(us);
    format!("{} {unit}", without_zeros(&digits(value)))
}

/// Formats a count with thousands separators: `12,345`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a rate without its unit: whole above a hundred, with a few digits below.
pub fn rate(rate: f64) -> String {
    if rate < 99.95 { without_zeros(&digits(rate)).to_owned() } else { count(whole(rate)) }
}

/// Formats bytes: `12.3 MiB`.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn bytes(bytes: u64) -> String {
    let bytes = bytes as f64;
    let (divisor, unit) = byte_unit(bytes);
    format!("{} {unit}", digits(bytes / divisor))
}

/// Returns the unit in which so many bytes are shown: its bytes and its name.
pub fn byte_unit(bytes: f64) -> (f64, &'static str) {
    let [kib, mib, gib] = [10, 20, 30].map(|power| f64::from(1 << power));
    match bytes {
        bytes if bytes < mib => (kib, "KiB"),
        bytes if bytes < gib => (mib, "MiB"),
        _ => (gib, "GiB"),
    }
}

/// Formats a ratio in percent: `0.25 %`. A positive ratio is never shown as zero.
pub fn percent(part: f64) -> String {
    match part * 100.0 {
        0.0 => "0 %".into(),
        percent if percent < 0.001 => "< 0.001 %".into(),
        percent if percent < 0.1 => format!("{percent:.3} %"),
        percent => format!("{} %", without_zeros(&digits(percent))),
    }
}

/// Formats a ratio in percent, or a dash if there is none.
pub fn percent_or_dash(part: Option<f64>) -> String {
    part.map_or_else(|| "–".into(), percent)
}

/// Formats seconds since the beginning of a run: `45 s`, `2 min 30 s`, `1 h 5 min`.
pub fn elapsed(seconds: f64) -> String {
    let all = whole(seconds);
    let (hours, minutes, rest) = (all / 3_600, all / 60 % 60, all % 60);
    match (hours, minutes, rest) {
        (0, 0, _) => format!("{} s", without_zeros(&digits(seconds))),
        (0, _, 0) => format!("{minutes} min"),
        (0, _, _) => format!("{minutes} min {rest} s"),
        (_, 0, _) => format!("{hours} h"),
        _ => format!("{hours} h {minutes} min"),
    }
}

/// Formats a value with three significant digits.
pub fn digits(value: f64) -> String {
    match value.abs() {
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Removes trailing zeros after the decimal point.
pub fn without_zeros(number: &str) -> &str {
    if number.contains('.') {
        return number.trim_end_matches('0').trim_end_matches('.');
    }
    number
}

fn scaled(us: f64) -> (f64, &'static str) {
    match us {
        us if us <= 0.0 => (0.0, "µs"),
        us if us < 0.9995 => (us * 1e3, "ns"),
        us if us < 999.5 => (us, "µs"),
        us if us < 999_500.0 => (us / 1e3, "ms"),
        us => (us / 1e6, "s"),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a figure for people: `as` saturates"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_has_three_digits_and_unit() {
        let shown = [0.0, 0.25, 1.0, 9.996, 85.34, 999.4, 999.6, 1_234.0, 99_960.0, 2.5e6, 90e6];
        let shown = shown.map(duration);
        let read = ["0.00 µs", "250 ns", "1.00 µs", "10.0 µs", "85.3 µs", "999 µs", "1.00 ms"];
        assert_eq!(shown[..7], read);
        assert_eq!(shown[7..], ["1.23 ms", "100 ms", "2.50 s", "90.0 s"]);
    }

    #[test]
    fn axis_label_has_no_trailing_zeros() {
        assert_eq!(
            [0.0, 500.0, 1e3, 2.5e6].map(round_duration),
            ["0 µs", "500 µs", "1 ms", "2.5 s"]
        );
    }

    #[test]
    fn counts_and_rates_have_thousands_separators() {
        assert_eq!([0, 999, 1_000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!([0.0, 2.5, 99.96, 12_345.6].map(rate), ["0", "2.5", "100", "12,346"]);
    }

    #[test]
    fn bytes_ratios_and_elapsed_times_are_short() {
        assert_eq!([0, 13_002_342, 5 << 30].map(bytes), ["0.00 KiB", "12.4 MiB", "5.00 GiB"]);
        let parts = [0.0, 1e-7, 0.000_25, 0.5, 1.0].map(percent);
        assert_eq!(parts, ["0 %", "< 0.001 %", "0.025 %", "50 %", "100 %"]);
        let moments = [0.5, 45.0, 60.0, 150.0, 3_600.0, 3_900.0].map(elapsed);
        assert_eq!(moments, ["0.5 s", "45 s", "1 min", "2 min 30 s", "1 h", "1 h 5 min"]);
    }
}
