//! The `Date` field of a response: an IMF-fixdate, formatted once per second.
//!
//! Time is an argument; a shard holds one date and advances it once per turn.
//!
//! Source: RFC 9110, sections 5.6.7 and 6.6.1.

use corelane_base::time::civil_date;

/// A second in UTC as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Date {
    unix_seconds: u64,
    text: [u8; LENGTH],
}

impl Date {
    /// Creates the date `unix_seconds` after 1970-01-01 (UTC), limited to the end of the year 9999,
    /// the last one the format can express.
    pub fn new(unix_seconds: u64) -> Self {
        Self { unix_seconds, text: format_imf_fixdate(unix_seconds.min(LAST_SECOND)) }
    }

    /// Advances to `unix_seconds`; returns whether the second is another. Costs one comparison if
    /// it is the same.
    #[inline]
    pub fn advance(&mut self, unix_seconds: u64) -> bool {
        let is_other = unix_seconds != self.unix_seconds;
        if is_other {
            *self = Self::new(unix_seconds);
        }
        is_other
    }

    /// Returns the 29 ASCII bytes of the date.
    #[inline]
    pub const fn as_bytes(&self) -> &[u8; LENGTH] {
        &self.text
    }
}

/// Length of a date in bytes.
pub const LENGTH: usize = 29;

fn format_imf_fixdate(unix_seconds: u64) -> [u8; LENGTH] {
    let (days, of_day) = (unix_seconds / DAY_SECONDS, unix_seconds % DAY_SECONDS);
    let (year, month, day) = civil_date(days);
    let mut text = *b"Ddd, 00 Mmm 0000 00:00:00 GMT";
    text[..3].copy_from_slice(abbreviation(WEEKDAYS, days % 7));
    write_two_digits(&mut text, 5, day);
    text[8..11].copy_from_slice(abbreviation(MONTHS, month - 1));
    write_two_digits(&mut text, 12, year / 100);
    write_two_digits(&mut text, 14, year % 100);
    write_two_digits(&mut text, 17, of_day / 3600);
    write_two_digits(&mut text, 20, of_day / 60 % 60);
    write_two_digits(&mut text, 23, of_day % 60);
    text
}

/// Returns the three-letter name at `index` in `names`.
fn abbreviation(names: &'static [u8], index: u64) -> &'static [u8] {
    let start = usize::try_from(index).map_or(0, |index| 3 * index);
    &names[start..start + 3]
}

/// Writes `number`, which is below 100, as two digits.
fn write_two_digits(text: &mut [u8; LENGTH], at: usize, number: u64) {
    text[at] = b'0' + (number / 10 % 10) as u8;
    text[at + 1] = b'0' + (number % 10) as u8;
}

/// Starts with Thursday, the weekday of 1970-01-01.
const WEEKDAYS: &[u8] = b"ThuFriSatSunMonTueWed";
const MONTHS: &[u8] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
const DAY_SECONDS: u64 = 86_400;
/// 9999-12-31T23:59:59Z
const LAST_SECOND: u64 = 253_402_300_799;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(unix_seconds: u64) -> String {
        String::from_utf8(Date::new(unix_seconds).as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn date_formats_known_seconds() {
        for (unix_seconds, expected) in [
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (951_868_799, "Tue, 29 Feb 2000 23:59:59 GMT"),
            (951_868_800, "Wed, 01 Mar 2000 00:00:00 GMT"),
            (1_785_231_000, "Tue, 28 Jul 2026 09:30:00 GMT"),
            (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 GMT"),
            (LAST_SECOND, "Fri, 31 Dec 9999 23:59:59 GMT"),
            (u64::MAX, "Fri, 31 Dec 9999 23:59:59 GMT"),
        ] {
            assert_eq!(text(unix_seconds), expected);
        }
    }

    #[test]
    fn advanced_date_equals_new_date() {
        let mut date = Date::new(0);
        for unix_seconds in [0, 1, 1, 59, 60, 86_399, 86_400, 1_000_000_007, 5] {
            date.advance(unix_seconds);
            assert_eq!(date, Date::new(unix_seconds));
        }
    }
}
