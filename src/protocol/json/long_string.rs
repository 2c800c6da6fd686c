//! The long string of a text, checked apart from the rest.
//!
//! The parser classifies every byte of a text, also those inside of strings. A string of kilobytes
//! without escapes, such as base64, takes half of that time if it is only checked: for UTF-8 and
//! control characters (RFC 8259, section 7). The rest of the text then has an empty string in its
//! place.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memchr2, memrchr2};

/// Length of a text, in bytes, from which its long string is searched.
pub(super) const TEXT_BYTES_MIN: usize = 1024;

/// Length of a string, in bytes, from which it is worth to be checked on its own.
const STRING_BYTES_MIN: usize = 512;

/// Returns the contents of the string in the middle of `text`, if it is long and has neither
/// escapes nor control characters. The text need not be valid.
///
/// Cost: beyond the contents, a search for the nearest quotes.
pub(super) fn find(text: &[u8]) -> Option<Range<usize>> {
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

    fn found(text: &str) -> Option<&str> {
        find(text.as_bytes()).map(|range| &text[range])
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
}
