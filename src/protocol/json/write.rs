//! Writers of JSON tokens into a byte buffer.
//!
//! Invariants: every call appends one complete JSON token in UTF-8 without a raw newline, and
//! allocates only to grow `out`. Callers write the brackets of objects and arrays.
//!
//! MCP schema: `Annotations.lastModified`, `Task.createdAt`.

use std::fmt;

use corelane_base::time::civil_date;

/// Appends `text` as a quoted JSON string (RFC 8259, section 7).
///
/// Cost: one scan and one copy. Escapes are those of `serde_json`: the short forms where they
/// exist, `\u00xx` for the other control characters; everything else is copied.
#[inline]
pub fn string(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    escaped(out, text);
    out.push(b'"');
}

/// Appends `text` escaped for a JSON string, without the quotes.
#[inline]
pub fn escaped(out: &mut Vec<u8>, text: &str) {
    let mut rest = text.as_bytes();
    loop {
        let clean = unescaped_prefix_len(rest);
        out.extend_from_slice(&rest[..clean]);
        if clean == rest.len() {
            return;
        }
        rest = write_escapes(out, &rest[clean..]);
    }
}

/// Appends `text` byte by byte, until some of it in succession needs no escape: a text with one has
/// often many. Returns the rest.
#[cold]
fn write_escapes<'t>(out: &mut Vec<u8>, mut text: &'t [u8]) -> &'t [u8] {
    let mut clean = 0;
    while clean < WORD_BYTES && !text.is_empty() {
        let (part, rest) = text.split_at(text.len().min(BLOCK_BYTES));
        let (mut encoded, mut length) = ([0; ESCAPE_BYTES_MAX * BLOCK_BYTES], 0);
        for &byte in part {
            let escape = &ESCAPES[usize::from(byte)];
            clean = if escape.length == 1 { clean + 1 } else { 0 };
            encoded[length..][..ESCAPE_BYTES_MAX].copy_from_slice(&escape.bytes);
            length += escape.length;
        }
        out.extend_from_slice(&encoded[..length]);
        text = rest;
    }
    text
}

/// Appends the UTF-8 bytes `out[start..end]` as a JSON string, so that a value that was just
/// encoded can be embedded as text without a second buffer.
///
/// # Panics
///
/// Panics if the range lies outside `out`.
pub fn string_within(out: &mut Vec<u8>, start: usize, end: usize) {
    out.reserve(end - start + 2);
    out.push(b'"');
    let mut at = start;
    loop {
        let clean = unescaped_prefix_len(&out[at..end]);
        out.extend_from_within(at..at + clean);
        at += clean;
        if at == end {
            break;
        }
        let byte = out[at];
        write_escape(out, byte);
        at += 1;
    }
    out.push(b'"');
}

/// Appends the formatted `arguments` as a JSON string without an intermediate allocation.
pub fn formatted(out: &mut Vec<u8>, arguments: fmt::Arguments<'_>) {
    struct Escaped<'o>(&'o mut Vec<u8>);
    impl fmt::Write for Escaped<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            escaped(self.0, text);
            Ok(())
        }
    }
    out.push(b'"');
    // The sink cannot fail; a failing `Display` leaves a shorter, still well-formed string.
    let _shortened = fmt::Write::write_fmt(&mut Escaped(out), arguments).is_err();
    out.push(b'"');
}

/// Appends an unsigned integer.
#[inline]
pub fn unsigned(out: &mut Vec<u8>, number: u64) {
    if number < 10 {
        out.push(digit_pair(number)[1]);
        return;
    }
    let (digits, first) = decimal_digits(number);
    out.extend_from_slice(&digits[first..DIGITS_MAX]);
}

/// Appends `before`, an unsigned integer and `after`. Costs less than three calls: all but the last
/// copy have a constant length.
#[inline]
pub fn unsigned_between<const BEFORE: usize, const AFTER: usize>(
    out: &mut Vec<u8>,
    before: &[u8; BEFORE],
    number: u64,
    after: &[u8; AFTER],
) {
    const { assert!(BEFORE + DIGITS_MAX + AFTER <= BETWEEN_BYTES_MAX) }
    let (digits, first) = decimal_digits(number);
    let mut text = [0_u8; BETWEEN_BYTES_MAX];
    text[..BEFORE].copy_from_slice(before);
    text[BEFORE..BEFORE + DIGITS_MAX].copy_from_slice(&digits[first..first + DIGITS_MAX]);
    let end = BEFORE + DIGITS_MAX - first;
    text[end..end + AFTER].copy_from_slice(after);
    out.extend_from_slice(&text[..end + AFTER]);
}

/// Returns the decimal digits of `number`, which end at [`DIGITS_MAX`], and where they begin.
#[inline]
fn decimal_digits(number: u64) -> ([u8; 2 * DIGITS_MAX], usize) {
    let mut digits = [0_u8; 2 * DIGITS_MAX];
    let mut first = DIGITS_MAX;
    let mut rest = number;
    while rest >= 10_000 {
        let four = rest % 10_000;
        rest /= 10_000;
        first -= 4;
        digits[first..first + 2].copy_from_slice(digit_pair(four / 100));
        digits[first + 2..first + 4].copy_from_slice(digit_pair(four % 100));
    }
    if rest >= 100 {
        first -= 2;
        digits[first..first + 2].copy_from_slice(digit_pair(rest % 100));
        rest /= 100;
    }
    if rest >= 10 {
        first -= 2;
        digits[first..first + 2].copy_from_slice(digit_pair(rest));
    } else {
        first -= 1;
        digits[first] = digit_pair(rest)[1];
    }
    (digits, first)
}

/// Appends a signed integer.
#[inline]
pub fn signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    unsigned(out, number.unsigned_abs());
}

/// Appends a number with the fewest digits that read back as the same value; integers that a
/// double represents exactly are written without a fraction. Infinity and NaN become `null`.
pub fn float(out: &mut Vec<u8>, number: f64) {
    /// 2^53: every integer up to here is exactly representable as a double.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    let negative_zero = number == 0.0 && number.is_sign_negative();
    if number.fract() == 0.0 && number.abs() <= EXACT_MAX && !negative_zero {
        #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
        signed(out, number as i64);
    } else if serde_json::to_writer(&mut *out, &number).is_err() {
        // Writing a number into a vector cannot fail; this completes the token anyway.
        out.extend_from_slice(b"null");
    }
}

/// Appends `true` or `false`.
#[inline]
pub fn boolean(out: &mut Vec<u8>, value: bool) {
    out.extend_from_slice(if value { b"true" } else { b"false" });
}

/// Appends a [`serde_json::Value`].
pub fn json(out: &mut Vec<u8>, value: &serde_json::Value) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, value).is_err() {
        // Serializing a value in memory cannot fail; this completes the token anyway.
        out.truncate(start);
        out.extend_from_slice(b"null");
    }
}

/// Appends a [`serde_json::Map`] as an object.
pub fn map(out: &mut Vec<u8>, map: &serde_json::Map<String, serde_json::Value>) {
    let start = out.len();
    if serde_json::to_writer(&mut *out, map).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"{}");
    }
}

/// Returns the number of leading bytes that need no escape in a JSON string.
#[inline]
fn unescaped_prefix_len(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<BLOCK_BYTES>();
    let mut clean = blocks.iter().take_while(|block| is_unescaped(block)).count() * BLOCK_BYTES;
    let (words, tail) = bytes[clean..].as_chunks::<WORD_BYTES>();
    for word in words {
        if let Some(place) = first_escape(*word) {
            return clean + place;
        }
        clean += WORD_BYTES;
    }
    if tail.is_empty() {
        return clean;
    }
    // The last word overlaps the previous one; the repeated bytes are known to be clean.
    if let Some(last) = bytes.last_chunk::<WORD_BYTES>() {
        let place = first_escape(*last);
        return place.map_or(bytes.len(), |place| bytes.len() - WORD_BYTES + place);
    }
    let place = tail.iter().position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\');
    place.map_or(bytes.len(), |place| clean + place)
}

/// Returns whether no byte of `block` needs an escape. Branch-free per byte, so that the compiler
/// vectorizes it.
///
/// Flipping bit 1 maps the quote, 0x22, to 0x20, and the control characters to each other: one
/// comparison finds both.
#[inline]
fn is_unescaped(block: &[u8; BLOCK_BYTES]) -> bool {
    let marks = block
        .iter()
        .fold(0, |marks, byte| marks | u8::from(*byte ^ 0x02 <= 0x20) | u8::from(*byte == b'\\'));
    marks == 0
}

/// Returns the index of the first byte of `word` that needs an escape.
///
/// All eight bytes are tested in one register ("Determine if a word has a byte less than n", Bit
/// Twiddling Hacks). Marks above the lowest one may be wrong, since subtraction borrows upward;
/// only the lowest is used.
#[inline]
const fn first_escape(word: [u8; WORD_BYTES]) -> Option<usize> {
    const ONES: u64 = u64::from_le_bytes([1; WORD_BYTES]);
    const TOPS: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    let quote = word ^ (ONES * b'"' as u64);
    let quote = quote.wrapping_sub(ONES) & !quote;
    let backslash = word ^ (ONES * b'\\' as u64);
    let backslash = backslash.wrapping_sub(ONES) & !backslash;
    let marks = (control | quote | backslash) & TOPS;
    if marks == 0 { None } else { Some(marks.trailing_zeros() as usize / 8) }
}

/// How a byte is written in a string.
#[derive(Clone, Copy)]
struct Escape {
    bytes: [u8; ESCAPE_BYTES_MAX],
    length: usize,
}

/// That of each byte.
static ESCAPES: [Escape; 256] = {
    let mut escapes = [Escape { bytes: [0; ESCAPE_BYTES_MAX], length: 1 }; 256];
    let mut byte: u8 = 0;
    loop {
        escapes[byte as usize] = escape_of(byte);
        if byte == u8::MAX {
            break escapes;
        }
        byte += 1;
    }
};

const fn escape_of(byte: u8) -> Escape {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        0..0x20 => {
            let (high, low) = (HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]);
            let bytes = [b'\\', b'u', b'0', b'0', high, low, 0, 0];
            return Escape { bytes, length: 6 };
        }
        _ => return Escape { bytes: [byte, 0, 0, 0, 0, 0, 0, 0], length: 1 },
    };
    Escape { bytes: [b'\\', short, 0, 0, 0, 0, 0, 0], length: 2 }
}

/// Appends the escape of one byte that needs one.
fn write_escape(out: &mut Vec<u8>, byte: u8) {
    let Escape { bytes, length } = &ESCAPES[usize::from(byte)];
    out.extend_from_slice(&bytes[..*length]);
}

/// Bytes that are copied for an escape, of which the first ones count.
const ESCAPE_BYTES_MAX: usize = 8;

/// Bytes that [`first_escape`] tests in one step.
const WORD_BYTES: usize = 8;

/// Bytes that [`is_unescaped`] tests in one step: two of the smallest x86-64 vector registers.
const BLOCK_BYTES: usize = 32;

/// Digits of `u64::MAX`.
const DIGITS_MAX: usize = 20;

/// Size of the text of [`unsigned_between`].
const BETWEEN_BYTES_MAX: usize = 64;

/// "00" to "99": two digits cost one division.
const DIGIT_PAIRS: [u8; 200] = {
    let mut pairs = [b'0'; 200];
    let mut number = 0_u8;
    while number < 100 {
        pairs[number as usize * 2] = b'0' + number / 10;
        pairs[number as usize * 2 + 1] = b'0' + number % 10;
        number += 1;
    }
    pairs
};

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "below one hundred")]
fn digit_pair(number: u64) -> &'static [u8] {
    let at = number as usize * 2;
    &DIGIT_PAIRS[at..at + 2]
}

/// Appends `unix_ms`, milliseconds since 1970-01-01T00:00Z, as a JSON string:
/// `"2026-07-28T09:30:00.125Z"`. Times after the year 9999 are written as its last millisecond.
pub fn write_timestamp(out: &mut Vec<u8>, unix_ms: u64) {
    let unix_ms = unix_ms.min(LAST_MS);
    let (days, ms_of_day) = (unix_ms / DAY_MS, unix_ms % DAY_MS);
    let (year, month, day) = civil_date(days);
    let (seconds, millis) = (ms_of_day / 1000, ms_of_day % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    formatted(
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

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn number_is_written_between_texts() {
        for number in [0, 7, 10, 99, 100, 9_999, 10_000, 123_456_789, u64::MAX] {
            let text = written(|out| unsigned_between(out, b"id:", number, b",next"));
            assert_eq!(text, format!("id:{number},next"));
        }
    }

    #[test]
    fn string_escapes_match_serde_json() {
        let every_ascii: String = (0..=127_u8).map(char::from).collect();
        let mixed =
            "plain, then a run that is longer than one step \u{1} \"and\" \\ back\né😀\u{7f}";
        for text in ["", "a", "\"", "\\", "0123456789abcdef\n", &every_ascii, mixed] {
            let expected = serde_json::to_string(text).unwrap();
            assert_eq!(written(|out| string(out, text)), expected);
            let within = written(|out| {
                out.extend_from_slice(text.as_bytes());
                string_within(out, 0, text.len());
                out.drain(..text.len());
            });
            assert_eq!(within, expected);
            assert_eq!(written(|out| formatted(out, format_args!("{text}"))), expected);
        }
    }

    #[test]
    fn string_escape_is_found_at_every_position() {
        for length in 0..50 {
            for (place, escaped) in
                (0..length).flat_map(|place| "\n\"\\".chars().map(move |it| (place, it)))
            {
                let text: String =
                    (0..length).map(|at| if at == place { escaped } else { ' ' }).collect();
                let expected = serde_json::to_string(&text).unwrap();
                assert_eq!(written(|out| string(out, &text)), expected);
            }
        }
    }

    #[test]
    fn integers_are_written_like_std() {
        let mut numbers = vec![0, u64::MAX, u64::MAX - 1];
        for power in 0..20 {
            let tens = 10_u64.pow(power);
            numbers.extend([tens - 1, tens, tens + 1]);
        }
        for number in numbers {
            assert_eq!(written(|out| unsigned(out, number)), number.to_string());
            let with_sign = number.cast_signed();
            assert_eq!(written(|out| signed(out, with_sign)), with_sign.to_string());
        }
        assert_eq!(written(|out| signed(out, i64::MIN)), i64::MIN.to_string());
    }

    #[test]
    fn floats_round_trip_and_non_finite_is_null() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "-0.0"),
            (50.0, "50"),
            (-3.0, "-3"),
            (0.5, "0.5"),
            (f64::INFINITY, "null"),
            (f64::NAN, "null"),
        ] {
            assert_eq!(written(|out| float(out, number)), text);
        }
        for number in [1e300, 1e-300, 0.1, 1.0 / 3.0, 9_007_199_254_740_994.0] {
            let text = written(|out| float(out, number));
            assert_eq!(text.parse::<f64>().unwrap().to_bits(), number.to_bits());
        }
    }
}

#[cfg(test)]
mod timestamp_tests {
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
