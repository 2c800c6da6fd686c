//! Timestamps of the protocol: ISO 8601 in UTC, with milliseconds.
//!
//! MCP schema: `Annotations.lastModified`, `Task.createdAt`.

use super::write;
use corelane_base::time::civil_date;

/// Appends `unix_ms`, milliseconds since 1970-01-01T00:00Z, as a JSON string:
/// `"2026-07-28T09:30:00.125Z"`. Times after the year 9999 are written as its last millisecond.
pub fn write_timestamp(out: &mut Vec<u8>, unix_ms: u64) {
    let unix_ms = unix_ms.min(LAST_MS);
    let (days, ms_of_day) = (unix_ms / DAY_MS, unix_ms % DAY_MS);
    let (year, month, day) = civil_date(days);
    let (seconds, millis) = (ms_of_day / 1000, ms_of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    write::formatted(
        out,
        format_args!(
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        ),
    );
}

const DAY_MS: u64 = 86_400_000;
/// 9999-12-31T23:59:59.999Z
const LAST_MS: u64 = 253_402_300_799_999;

#[cfg(test)]
mod tests {
    use super::*;

    fn written(unix_ms: u64) -> String {
        let mut out = Vec::new();
        write_timestamp(&mut out, unix_ms);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn timestamp_is_iso_8601_in_utc() {
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
}
