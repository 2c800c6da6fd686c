//! Rates and counts of flags, with the suffixes `k` and `M`.

/// Parses a rate such as `1500`, `1.5k` or `2M`. The plan checks its range.
pub(super) fn parse_rate(text: &str) -> Result<f64, String> {
    let text = text.trim();
    let (number, factor) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1e3),
        None => text.strip_suffix('M').map_or((text, 1.0), |number| (number, 1e6)),
    };
    let number: f64 = number.parse().map_err(|_| example(text))?;
    let rate = number * factor;
    if rate.is_finite() { Ok(rate) } else { Err(example(text)) }
}

/// Parses a count such as `500`, `10k` or `1.5M`.
pub(super) fn parse_count(text: &str) -> Result<usize, String> {
    // A whole number of any size is exact.
    if let Ok(count) = text.trim().parse() {
        return Ok(count);
    }
    let count = parse_rate(text)?;
    if count < 0.0 {
        return Err(example(text));
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "not negative, and saturating"
    )]
    let whole = count.round() as usize;
    if (count - count.round()).abs() < 1e-6 { Ok(whole) } else { Err(example(text)) }
}

/// Parses a count that fits 32 bits.
pub(super) fn parse_small_count(text: &str) -> Result<u32, String> {
    let count = parse_count(text)?;
    u32::try_from(count).map_err(|_| format!("{count} is more than {}", u32::MAX))
}

fn example(text: &str) -> String {
    format!("'{text}' is not a number such as 500, 1.5k or 2M")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_suffixes() {
        for (text, rate) in [("0", 0.0), ("1.5k", 1500.0), ("2M", 2e6), ("0.5", 0.5)] {
            assert!((parse_rate(text).unwrap() - rate).abs() < 1e-9, "{text}");
        }
        let counts = ["7", "10k", "1.5M"].map(|text| parse_count(text).unwrap());
        assert_eq!(counts, [7, 10_000, 1_500_000]);
        for text in ["", "k", "-1", "1m", "1.5", "0.0001k", "inf", "NaN"] {
            assert!(parse_count(text).is_err(), "{text}");
        }
        assert!(parse_rate("1m").unwrap_err().contains("1.5k or 2M"));
        assert!(parse_small_count("5000M").is_err());
    }
}
