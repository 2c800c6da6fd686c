//! What is checked of a JSON text before it is parsed: its limits, before memory is allocated, and
//! its long string.
//!
//! The parser allocates up to 32 bytes for each token of a text: eight for its position and 24 for
//! its node. A 16 MiB message of `[` would need 512 MiB. Texts up to [`PRESCAN_BYTES_MIN`] are
//! bounded by their size; longer ones are prescanned and rejected by nesting or by tokens.
//!
//! The parser classifies every byte of a text, also those inside of strings. A string of kilobytes
//! without escapes, such as base64, takes half of that time if it is only checked: for UTF-8 and
//! control characters (RFC 8259, section 7). The rest of the text then has an empty string in its
//! place.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr2, memrchr2};

/// Texts up to this length in bytes are parsed without a prescan; they cost at most 2 MiB.
pub(super) const PRESCAN_BYTES_MIN: usize = 64 * 1024;

/// Highest value of [`ParseLimits::nesting_max`]. Values are encoded and deserialized recursively
/// on the stack of a shard.
pub(super) const NESTING_LIMIT_MAX: usize = 512;

/// Limits of a [`super::Parser`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ParseLimits {
    /// Nesting depth of arrays and objects. Default 64, at most 512; costs 24 bytes of parser
    /// memory per level.
    pub nesting_max: usize,
    /// Tokens of one text: keys, scalars, brackets, commas and colons. Default 2,097,152; costs up
    /// to 32 bytes each while such a text is parsed.
    pub tokens_max: usize,
    /// Length of a text, in bytes, above which the parser frees its memory instead of retaining it
    /// for the next one. Default 65,536 bytes; costs up to 30 times as much per parser.
    pub retained_text_bytes_max: usize,
}

/// Length of a text, in bytes, above which it counts as large: it takes long, and much memory.
pub const LARGE_TEXT_BYTES: usize = 64 * 1024;

impl Default for ParseLimits {
    fn default() -> Self {
        Self {
            nesting_max: 64,
            tokens_max: 2 * 1024 * 1024,
            retained_text_bytes_max: LARGE_TEXT_BYTES,
        }
    }
}

/// Why a prescan rejects a text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum PrescanError {
    /// More levels than [`ParseLimits::nesting_max`].
    Nesting,
    /// A byte that is invalid at its place; reported here because the token count would be
    /// unreliable after it.
    Syntax,
    /// More tokens than [`ParseLimits::tokens_max`].
    Tokens,
}

/// Checks `text` in one pass without allocating. An accepted text has at most
/// [`ParseLimits::tokens_max`] tokens by the parser's own count, whether or not it is valid.
///
/// Returns the contents of the string that is at least half of the text, if there is one and it has
/// neither escapes nor control characters.
pub(crate) fn prescan(
    text: &[u8],
    limits: &ParseLimits,
) -> Result<Option<Range<usize>>, PrescanError> {
    let (mut depth, mut tokens) = (0_usize, 0_usize);
    let mut long_string = None;
    let mut inside_scalar = false;
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' => {
                inside_scalar = false;
                continue;
            }
            b'[' | b'{' => {
                depth += 1;
                if depth > limits.nesting_max {
                    return Err(PrescanError::Nesting);
                }
                inside_scalar = false;
            }
            b']' | b'}' => {
                // The parser reports an unmatched closing bracket.
                depth = depth.saturating_sub(1);
                inside_scalar = false;
            }
            b',' | b':' => inside_scalar = false,
            b'"' => {
                let string = scan_string(text.get(at..).unwrap_or_default());
                let string = string.ok_or(PrescanError::Syntax)?;
                let end = at + string.length;
                if string.is_plain && string.length >= text.len() / 2 {
                    long_string = Some(at..end);
                }
                at = end + 1;
                inside_scalar = false;
            }
            // Outside of strings a backslash hides the next quote from the parser's stage 1.
            b'\\' => return Err(PrescanError::Syntax),
            _ if inside_scalar => continue,
            _ => inside_scalar = true,
        }
        tokens += 1;
        if tokens > limits.tokens_max {
            return Err(PrescanError::Tokens);
        }
    }
    Ok(long_string)
}

/// The contents of a string.
struct ScannedString {
    length: usize,
    /// It is long and has neither escapes nor control characters.
    is_plain: bool,
}

/// Bytes that are searched and checked together, while they are in the cache.
const CHUNK_BYTES: usize = 16 << 10;

/// Scans the string contents in `rest`, which follows an opening quote; `None` if the closing quote
/// is missing.
fn scan_string(rest: &[u8]) -> Option<ScannedString> {
    let (mut at, mut is_plain) = (0, true);
    loop {
        let chunk = rest.get(at..)?;
        let chunk = &chunk[..chunk.len().min(CHUNK_BYTES)];
        match memchr2(b'"', b'\\', chunk) {
            None if chunk.is_empty() => return None,
            None => {
                is_plain = is_plain && !has_control_character(chunk);
                at += chunk.len();
            }
            Some(found) if chunk[found] == b'"' => {
                let length = at + found;
                is_plain = is_plain
                    && length >= STRING_BYTES_MIN
                    && !has_control_character(&chunk[..found]);
                return Some(ScannedString { length, is_plain });
            }
            Some(found) => {
                is_plain = false;
                at += found + 2;
            }
        }
    }
}

/// Length of a text, in bytes, from which its long string is searched.
pub(super) const LONG_STRING_TEXT_BYTES_MIN: usize = 1024;

/// Length of a string, in bytes, from which it is worth to be checked on its own.
const STRING_BYTES_MIN: usize = 512;

/// Returns the contents of the string in the middle of `text`, if it is long and has neither
/// escapes nor control characters. The text need not be valid.
///
/// Cost: beyond the contents, a search for the nearest quotes.
pub(super) fn find_long_string(text: &[u8]) -> Option<Range<usize>> {
    let middle = text.len() / 2;
    let end = middle + memchr2(b'"', b'\\', text.get(middle..)?)?;
    let start = memrchr2(b'"', b'\\', text.get(..middle)?)? + 1;
    let (before, contents) = (text.get(..start)?, text.get(start..end)?);
    let is_long_string = contents.len() >= STRING_BYTES_MIN
        && (text[start - 1], text[end]) == (b'"', b'"')
        && ends_inside_string(before)
        && !has_control_character(contents);
    is_long_string.then_some(start..end)
}

/// Returns whether the last quote of `before` opens a string. Gives up on escapes.
fn ends_inside_string(before: &[u8]) -> bool {
    memchr(b'\\', before).is_none() && memchr_iter(b'"', before).count() % 2 == 1
}

/// Visits all bytes, so that the compiler vectorizes it.
fn has_control_character(contents: &[u8]) -> bool {
    contents.iter().fold(u8::MAX, |lowest, &byte| lowest.min(byte)) < 0x20
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(nesting_max: usize, tokens_max: usize) -> ParseLimits {
        ParseLimits { nesting_max, tokens_max, ..ParseLimits::default() }
    }

    #[test]
    fn prescan_nesting_ignores_brackets_in_strings() {
        assert_eq!(prescan(br#"[{"a":"[[[[\"[["}]"#, &limits(2, 100)), Ok(None));
        assert_eq!(prescan(br"[[[1]]]", &limits(2, 100)), Err(PrescanError::Nesting));
        assert_eq!(prescan(br"[[],[],[]]", &limits(2, 100)), Ok(None));
    }

    #[test]
    fn prescan_counts_every_token_once() {
        // [ "a" , 12 , { "b" : null } ]
        let text = br#" [ "a" , 12,{"b":null} ] "#;
        assert_eq!(prescan(text, &limits(9, 11)), Ok(None));
        assert_eq!(prescan(text, &limits(9, 10)), Err(PrescanError::Tokens));
    }

    #[test]
    fn prescan_rejects_unterminated_and_escaped_quotes() {
        for text in [&br#"[\"[[["#[..], br#"["open]"#, br#"["open\""#, br#"["open\"#] {
            assert_eq!(prescan(text, &limits(64, 100)), Err(PrescanError::Syntax));
        }
    }

    fn found(text: &str) -> Option<&str> {
        find_long_string(text.as_bytes()).map(|range| &text[range])
    }

    #[test]
    fn long_string_is_found_without_quotes() {
        let long = "é".repeat(400);
        for text in [
            format!(r#"{{"a":"{long}"}}"#),
            format!(r#"["{long}","b\n"]"#),
            format!(r#"{{"{long}":1}}"#),
            // Not JSON, which the parser rejects in the rest.
            format!(r#"a"{long}""#),
        ] {
            assert_eq!(found(&text), Some(&*long), "{text}");
        }
    }

    #[test]
    fn other_text_in_middle_is_not_found() {
        let long = "1,".repeat(400);
        for text in [
            // Between two strings.
            format!(r#"{{"a":[{long}1],"b":"c"}}"#),
            format!(r#"["\"",{long}"b"]"#),
            format!(r#"["\\"{long}"b"]"#),
            format!(r#"\"{long}""#),
            // Escapes, control characters, no end, short.
            format!(r#"["{long}\n{long}"]"#),
            format!("[\"{long}\n{long}\"]"),
            format!("[\"{long}\u{0}\"]"),
            format!(r#"["{long}"#),
            format!(r#"["a",{}]"#, r#""bc","#.repeat(400)),
            String::new(),
            "\"".to_owned(),
        ] {
            assert_eq!(found(&text), None, "{text}");
        }
    }

    #[test]
    fn prescan_finds_string_of_half_the_text() {
        let find = |text: &str| prescan(text.as_bytes(), &limits(9, 100)).unwrap();
        let long = "a".repeat(2 * CHUNK_BYTES);
        assert_eq!(find(&format!(r#"["b","{long}"]"#)), Some(6..6 + long.len()));
        assert_eq!(find(&format!(r#"["{long}","{long}"]"#)), None);
        let short = "a".repeat(STRING_BYTES_MIN - 1);
        assert_eq!(find(&format!(r#"["{short}"]"#)), None);
        for inside in ["\\\"", "\t", "\u{1f}"] {
            for at in [0, CHUNK_BYTES, long.len()] {
                let (start, end) = long.split_at(at);
                assert_eq!(find(&format!(r#"["{start}{inside}{end}"]"#)), None);
            }
        }
    }
}
