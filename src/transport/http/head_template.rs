//! What the response heads of one shard have in common, the `Date` field among it, written once and
//! copied into each.
//!
//! Time is an argument; a shard holds one template and advances it before each response, and the
//! date once per turn.
//!
//! Source: RFC 9110, sections 5.6.7 and 6.6.1.

use corelane_base::time::civil_date;

use super::request_id::{UUID_BYTES, first_uuid, increment};

/// The date of response heads, the UUID of the current request, the digits that `Content-Length` is
/// expected to have, and the head of the most frequent response with all of them.
#[derive(Clone, Debug)]
pub struct HeadTemplate {
    date: Date,
    length_digits: usize,
    /// The head of a JSON response, and unused bytes.
    json: [u8; JSON_HEAD_BYTES_MAX],
    json_bytes: usize,
}

impl HeadTemplate {
    /// Creates the template of a shard, with the date `unix_seconds` after 1970-01-01 (UTC). The
    /// UUIDs of its requests are derived from `random`, which is the same on all shards.
    pub fn new(unix_seconds: u64, random: u128, shard: u16) -> Self {
        let mut json = [0; JSON_HEAD_BYTES_MAX];
        let mut write = |at: usize, text: &[u8]| json[at..at + text.len()].copy_from_slice(text);
        write(0, JSON_HEAD_BEGIN);
        write(JSON_HEAD_ID_AT - REQUEST_ID_NAME.len(), REQUEST_ID_NAME);
        write(JSON_HEAD_ID_AT, &first_uuid(random, shard));
        write(JSON_HEAD_LENGTH_AT - LENGTH_NAME.len(), LENGTH_NAME);
        let (date, length_digits) = (Date::new(unix_seconds), EXPECTED_LENGTH_DIGITS);
        let mut template = Self { date, length_digits, json, json_bytes: 0 };
        template.copy_date();
        template.expect_length_digits(EXPECTED_LENGTH_DIGITS);
        template
    }

    /// Advances the date to `unix_seconds`. Costs one comparison if the second is the same.
    #[inline]
    pub fn advance(&mut self, unix_seconds: u64) {
        if self.date.advance(unix_seconds) {
            self.copy_date();
        }
    }

    /// Returns the value of `Date`.
    #[inline]
    pub const fn date(&self) -> &Date {
        &self.date
    }

    /// Begins a request: it has the next UUID.
    #[inline]
    pub fn begin_request(&mut self) {
        increment(&mut self.json[JSON_HEAD_ID_AT..JSON_HEAD_ID_AT + UUID_BYTES]);
    }

    /// Returns the UUID of the request that has begun last, as text.
    #[inline]
    pub fn request_id(&self) -> &[u8] {
        &self.json[JSON_HEAD_ID_AT..JSON_HEAD_ID_AT + UUID_BYTES]
    }

    /// Returns how many digits the next `Content-Length` is expected to have: as many as the last
    /// one that had another number of digits than expected.
    #[inline]
    pub(super) const fn length_digits(&self) -> usize {
        self.length_digits
    }

    /// Appends the head of a JSON response with status 200 and no other fields. Its length has
    /// placeholders, as many as [`HeadTemplate::length_digits`].
    #[inline]
    pub(super) fn write_json_head(&self, out: &mut Vec<u8>) {
        // A copy of a constant size costs less than one of the exact size.
        let end = out.len() + self.json_bytes;
        out.extend_from_slice(&self.json);
        out.truncate(end);
    }

    /// Appends the same head for the request with this id.
    #[inline(never)]
    pub(super) fn write_json_head_for(&self, out: &mut Vec<u8>, request_id: &[u8]) {
        let (before, rest) = self.json[..self.json_bytes].split_at(JSON_HEAD_ID_AT);
        out.extend_from_slice(before);
        out.extend_from_slice(request_id);
        out.extend_from_slice(&rest[UUID_BYTES..]);
    }

    /// Has the next lengths `digits` digits, at most 20.
    #[cold]
    pub(super) fn expect_length_digits(&mut self, digits: usize) {
        self.length_digits = digits.min(LENGTH_DIGITS_MAX);
        let end = JSON_HEAD_LENGTH_AT + self.length_digits;
        self.json[JSON_HEAD_LENGTH_AT..end].fill(b'0');
        self.json_bytes = end + HEAD_END.len();
        self.json[end..self.json_bytes].copy_from_slice(HEAD_END);
    }

    #[cold]
    fn copy_date(&mut self) {
        let end = JSON_HEAD_DATE_AT + LENGTH;
        self.json[JSON_HEAD_DATE_AT..end].copy_from_slice(self.date.as_bytes());
    }
}

/// The end of the last field line, and the empty line.
pub(super) const HEAD_END: &[u8] = b"\r\n\r\n";

/// Digits of the largest `usize`.
pub(super) const LENGTH_DIGITS_MAX: usize = 20;

/// Digits of the length of a usual response to a call.
const EXPECTED_LENGTH_DIGITS: usize = 3;

const JSON_HEAD_BEGIN: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: ";
const REQUEST_ID_NAME: &[u8] = b"\r\nX-Request-ID: ";
const LENGTH_NAME: &[u8] = b"\r\nContent-Length: ";
const JSON_HEAD_DATE_AT: usize = JSON_HEAD_BEGIN.len();
const JSON_HEAD_ID_AT: usize = JSON_HEAD_DATE_AT + LENGTH + REQUEST_ID_NAME.len();
const JSON_HEAD_LENGTH_AT: usize = JSON_HEAD_ID_AT + UUID_BYTES + LENGTH_NAME.len();
const JSON_HEAD_BYTES_MAX: usize = JSON_HEAD_LENGTH_AT + LENGTH_DIGITS_MAX + HEAD_END.len();

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

/// Returns the name at `index` in `names`, each of which has three characters.
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
