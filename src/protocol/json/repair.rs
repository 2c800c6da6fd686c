//! Texts that the parser rejects although they can be read: what is changed in them before they are
//! parsed again.
//!
//! Invariants: a repaired text has the same length and, apart from what is repaired, the same
//! values; the work is linear in the text and happens only after a text was rejected.
//!
//! RFC 8259: section 8.1 (a byte order mark may be ignored), section 8.2 (lone surrogates).

use memchr::{memchr, memrchr};

/// UTF-8 of U+FEFF.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Length of the escape `\uXXXX`.
const ESCAPE_BYTES: usize = 6;

/// Replaces a byte order mark at the start of `text` by spaces, and each lone surrogate escape by
/// that of U+FFFD. Returns whether there was any.
pub(super) fn repair(text: &mut [u8]) -> bool {
    let has_mark = remove_byte_order_mark(text);
    replace_lone_surrogates(text) || has_mark
}

/// Replaces a byte order mark at the start of `text` by spaces. Returns whether there was one.
pub(super) fn remove_byte_order_mark(text: &mut [u8]) -> bool {
    let has_mark = text.starts_with(BYTE_ORDER_MARK);
    if has_mark {
        text[..BYTE_ORDER_MARK.len()].fill(b' ');
    }
    has_mark
}

/// Every backslash of a JSON text is in a string and begins an escape.
fn replace_lone_surrogates(text: &mut [u8]) -> bool {
    let (mut at, mut has_any) = (0, false);
    while let Some(found) = memchr(b'\\', &text[at..]) {
        at += found;
        let first = escaped_unit(&text[at..]);
        let second = first.and_then(|_| escaped_unit(&text[at + ESCAPE_BYTES..]));
        match (first, second) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 2 * ESCAPE_BYTES,
            (Some(0xd800..=0xdfff), _) => {
                text[at..at + ESCAPE_BYTES].copy_from_slice(br"\ufffd");
                has_any = true;
                at += ESCAPE_BYTES;
            }
            _ => at = (at + 2).min(text.len()),
        }
    }
    has_any
}

/// Returns the UTF-16 code unit of the escape `\uXXXX` at the start of `text`.
fn escaped_unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(br"\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit * 16 + char::from(*digit).to_digit(16)?))
}

/// Encodes the strings of `text` again that the parser has decoded in place before it gave up, so
/// that the text can be read. `structurals` are the places of its quotes, brackets, commas, colons
/// and scalars; `lengths` are the lengths of the decoded strings, in order.
///
/// The shortest encoding of a string fits into its place; spaces follow the closing quote.
pub(super) fn encode_decoded(text: &mut [u8], structurals: &[u32], lengths: &[u32]) {
    let mut lengths = lengths.iter();
    let mut encoded = Vec::new();
    for (index, &place) in structurals.iter().enumerate() {
        let quote = place as usize;
        if text.get(quote) != Some(&b'"') {
            continue;
        }
        let Some(&length) = lengths.next() else { return };
        let start = quote + 1;
        let next = structurals.get(index + 1).map_or(text.len(), |next| *next as usize);
        let next = if next > quote { next } else { text.len() };
        let Some(end) = memrchr(b'"', &text[start..next]).map(|found| start + found) else {
            return;
        };
        let decoded_end = start + length as usize;
        if decoded_end >= end {
            continue;
        }
        encoded.clear();
        encode(&mut encoded, &text[start..decoded_end]);
        encoded.push(b'"');
        encoded.resize((end + 1 - start).max(encoded.len()), b' ');
        text[start..=end].copy_from_slice(&encoded[..=end - start]);
    }
}

/// Appends the contents of a string in their shortest encoding.
fn encode(out: &mut Vec<u8>, contents: &[u8]) {
    for &byte in contents {
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            0x09 => b't',
            0x0a => b'n',
            0x0c => b'f',
            0x0d => b'r',
            0x00..=0x1f => {
                out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                continue;
            }
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', short]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repaired(text: &str) -> Option<String> {
        let mut bytes = text.as_bytes().to_vec();
        repair(&mut bytes).then(|| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        for (text, expected) in [
            (r#"{"a":"\ud83d"}"#, Some(r#"{"a":"\ufffd"}"#)),
            (r#"["\udE00\ud83d","\ud83d\ude00"]"#, Some(r#"["\ufffd\ufffd","\ud83d\ude00"]"#)),
            (r#"["\ud83d\ud83d\ude00x"]"#, Some(r#"["\ufffd\ud83d\ude00x"]"#)),
            (r#"["\\ud83d"]"#, None),
            (r#"["\\\ud83d"]"#, Some(r#"["\\\ufffd"]"#)),
            (r#"["\ud83d\ude00","\n\u00e9"]"#, None),
            (r#"["\ud83"]"#, None),
            (r"\", None),
            (r"\ud83d\", Some(r"\ufffd\")),
        ] {
            assert_eq!(repaired(text).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn byte_order_mark_is_ignored_at_start_only() {
        assert_eq!(repaired("\u{feff}{}").as_deref(), Some("   {}"));
        assert_eq!(repaired(" \u{feff}{}"), None);
        assert_eq!(repaired("[\"\u{feff}\"]"), None);
    }
}
