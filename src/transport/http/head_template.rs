//! What the response heads of one shard have in common, written once and copied into each.
//!
//! Time is an argument; a shard holds one template and advances it before each response.

use super::date::{self, Date};

/// The date of response heads, the digits that `Content-Length` is expected to have, and the head
/// of the most frequent response with both.
#[derive(Clone, Debug)]
pub struct HeadTemplate {
    date: Date,
    length_digits: usize,
    /// The head of a JSON response, and unused bytes.
    json: [u8; JSON_HEAD_BYTES_MAX],
    json_bytes: usize,
}

impl HeadTemplate {
    /// Creates a template with the date `unix_seconds` after 1970-01-01 (UTC).
    pub fn new(unix_seconds: u64) -> Self {
        let mut json = [0; JSON_HEAD_BYTES_MAX];
        json[..JSON_HEAD_DATE_AT].copy_from_slice(JSON_HEAD_BEGIN);
        let end = JSON_HEAD_LENGTH_AT - JSON_HEAD_LENGTH_NAME.len();
        json[end..JSON_HEAD_LENGTH_AT].copy_from_slice(JSON_HEAD_LENGTH_NAME);
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
        let end = JSON_HEAD_DATE_AT + date::LENGTH;
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
const JSON_HEAD_LENGTH_NAME: &[u8] = b"\r\nContent-Length: ";
const JSON_HEAD_DATE_AT: usize = JSON_HEAD_BEGIN.len();
const JSON_HEAD_LENGTH_AT: usize = JSON_HEAD_DATE_AT + date::LENGTH + JSON_HEAD_LENGTH_NAME.len();
const JSON_HEAD_BYTES_MAX: usize = JSON_HEAD_LENGTH_AT + LENGTH_DIGITS_MAX + HEAD_END.len();
