//! The `Date` of an answer: IMF-fixdate, written once a second and copied from then on.
//!
//! What it keeps true: 29 bytes of ASCII, whatever the second. Time is an argument; a shard keeps
//! one date and lets it advance once a turn.
//!
//! Source: RFC 9110, sections 5.6.7 and 6.6.1.

use crate::base::time::civil_date;

/// A second of the calendar as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Date {
    unix_seconds: u64,
    text: [u8; LENGTH],
}

impl Date {
    /// The date `unix_seconds` after the beginning of 1970 (UTC). The year 9999 is as far as the
    /// form reaches; later seconds are written as its end.
    pub fn new(unix_seconds: u64) -> Self {
        Self { unix_seconds, text: written(unix_seconds.min(LAST_SECOND)) }
    }

    /// Becomes the date of `unix_seconds`. Cost: a comparison where the second is the same.
    #[inline]
    pub fn advance(&mut self, unix_seconds: u64) {
        if unix_seconds != self.unix_seconds {
            *self = Self::new(unix_seconds);
        }
    }

    /// The text.
    #[inline]
    pub const fn as_bytes(&self) -> &[u8; LENGTH] {
        &self.text
    }
}

/// Bytes of a date.
pub const LENGTH: usize = 29;

fn written(unix_seconds: u64) -> [u8; LENGTH] {
    let (days, of_day) = (unix_seconds / DAY_SECONDS, unix_seconds % DAY_SECONDS);
    let (year, month, day) = civil_date(days);
    let mut text = *b"Ddd, 00 Mmm 0000 00:00:00 GMT";
    text[..3].copy_from_slice(name(WEEKDAYS, days % 7));
    put_pair(&mut text, 5, day);
    text[8..11].copy_from_slice(name(MONTHS, month - 1));
    put_pair(&mut text, 12, year / 100);
    put_pair(&mut text, 14, year % 100);
    put_pair(&mut text, 17, of_day / 3600);
    put_pair(&mut text, 20, of_day / 60 % 60);
    put_pair(&mut text, 23, of_day % 60);
    text
}

/// The name of three letters at `index` of a row of them.
fn name(row: &'static [u8], index: u64) -> &'static [u8] {
    let start = usize::try_from(index).map_or(0, |index| 3 * index);
    &row[start..start + 3]
}

/// Writes `number`, below 100, as two digits.
fn put_pair(text: &mut [u8; LENGTH], at: usize, number: u64) {
    text[at] = b'0' + (number / 10 % 10) as u8;
    text[at + 1] = b'0' + (number % 10) as u8;
}

/// The first day of 1970 was a Thursday.
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
    fn known_seconds_are_written_as_the_calendar_has_them() {
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
    fn a_date_advances_to_what_a_fresh_one_would_be() {
        let mut date = Date::new(0);
        for unix_seconds in [0, 1, 1, 59, 60, 86_399, 86_400, 1_000_000_007, 5] {
            date.advance(unix_seconds);
            assert_eq!(date, Date::new(unix_seconds));
        }
    }
}
