//! Moments as the protocol writes them: ISO 8601 in UTC, to the millisecond.
//!
//! Source: `Annotations.lastModified` and `Task.createdAt` in the schemas; the civil calendar as in
//! Howard Hinnant, "chrono-compatible low-level date algorithms", `civil_from_days`.

use super::write;

/// Appends `unix_ms`, milliseconds since 1970-01-01T00:00Z, as a JSON string:
/// `"2026-07-28T09:30:00.125Z"`. The year 9999 is as far as the form reaches; later moments are
/// written as its end.
pub fn timestamp(out: &mut Vec<u8>, unix_ms: u64) {
    let unix_ms = unix_ms.min(LAST_MS);
    let (days, of_day) = (unix_ms / DAY_MS, unix_ms % DAY_MS);
    let (year, month, day) = civil(days);
    let (seconds, millis) = (of_day / 1000, of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write::formatted(
        out,
        format_args!(
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        ),
    );
}

/// Year, month and day of the civil calendar, `days` after 1970-01-01. Counted in years that start
/// with March, so that the day that some years lack is their last one.
const fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + DAYS_BEFORE_1970;
    let (era, of_era) = (days / ERA_DAYS, days % ERA_DAYS);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / (ERA_DAYS - 1)) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

const DAY_MS: u64 = 86_400_000;
/// Days of the 400 years after which the calendar repeats itself.
const ERA_DAYS: u64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_BEFORE_1970: u64 = 719_468;
/// 9999-12-31T23:59:59.999Z
const LAST_MS: u64 = 253_402_300_799_999;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(unix_ms: u64) -> String {
        let mut out = Vec::new();
        timestamp(&mut out, unix_ms);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn known_moments_are_written_as_the_calendar_has_them() {
        for (unix_ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00.000Z"),
            (1_735_689_599_001, "2024-12-31T23:59:59.001Z"),
            (1_785_231_000_125, "2026-07-28T09:30:00.125Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (LAST_MS, "9999-12-31T23:59:59.999Z"),
            (u64::MAX, "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(written(unix_ms), format!("\"{text}\""));
        }
    }

    #[test]
    fn every_day_of_four_centuries_follows_the_one_before() {
        let is_leap = |year: u64| {
            year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
        };
        let mut expected = (1970, 1, 1);
        for days in 0..ERA_DAYS {
            assert_eq!(civil(days), expected);
            let (year, month, day) = expected;
            let length = match month {
                2 => 28 + u64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (day < length, month < 12) {
                (true, _) => (year, month, day + 1),
                (false, true) => (year, month + 1, 1),
                (false, false) => (year + 1, 1, 1),
            };
        }
    }
}
