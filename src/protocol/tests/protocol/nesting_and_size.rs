//! Nesting and size: hostile text is rejected before it allocates memory.

use crate::parsing::{pad, reencode};
use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseError, ParseLimits, Parser};
use corelane_test_support::alloc_counter::peak_bytes;

const MEBIBYTE: usize = 1024 * 1024;
const MESSAGE_BYTES_MAX: usize = 16 * MEBIBYTE;

/// Parses `text` and returns the outcome and the peak of allocated bytes.
fn parse_with_peak(text: &[u8]) -> (Result<(), ParseError>, usize) {
    let mut bytes = pad(text);
    let mut parser = Parser::new(ParseLimits::default());
    peak_bytes(|| parser.parse(PaddedText::new(&mut bytes, text.len())).map(drop))
}

#[test]
fn deep_nesting_is_rejected_without_allocation() {
    for opening in [&b"["[..], b"{\"a\":", b"[[],", b"{\"a\":[", b"[ "] {
        let text = opening.repeat(MESSAGE_BYTES_MAX / opening.len());
        let (outcome, bytes) = parse_with_peak(&text);
        assert_eq!(outcome, Err(ParseError::Depth), "{}", opening.escape_ascii());
        assert!(bytes < 4096, "{bytes} bytes for {}", opening.escape_ascii());
    }
}

#[test]
fn too_many_tokens_are_rejected_without_allocation() {
    for item in [&b"1,"[..], b"[],", b"\"\",", b"1 ", b":", b"{},"] {
        let text = [b"[", &item.repeat(MESSAGE_BYTES_MAX / item.len() - 1)[..]].concat();
        let (outcome, bytes) = parse_with_peak(&text);
        assert_eq!(outcome, Err(ParseError::Tokens), "{}", item.escape_ascii());
        assert!(bytes < 4096, "{bytes} bytes for {}", item.escape_ascii());
    }
}

#[test]
fn large_text_memory_stays_within_limits() {
    // The highest number of tokens: two per item, plus the last item and the brackets.
    let limits = ParseLimits::default();
    let items = limits.tokens_max / 2 - 2;
    let text = format!("[{}1]", "1,".repeat(items));
    let (outcome, bytes) = parse_with_peak(text.as_bytes());
    assert_eq!(outcome, Ok(()));
    assert!(bytes < limits.tokens_max * 32 + 2 * text.len(), "{bytes} bytes");

    let text = format!("{{\"a\":\"{}\"}}", "x".repeat(MESSAGE_BYTES_MAX - 8));
    let (outcome, bytes) = parse_with_peak(text.as_bytes());
    assert_eq!(outcome, Ok(()));
    assert!(bytes < 2 * MESSAGE_BYTES_MAX, "{bytes} bytes");
}

#[test]
fn long_string_of_escapes_is_decoded() {
    let text = format!("\"{}\"", "\\\"[{\\\\".repeat(100_000));
    let decoded: String = serde_json::from_str(&text).unwrap();
    assert_eq!(reencode(&text).unwrap(), serde_json::to_string(&decoded).unwrap());
}

#[test]
fn nesting_limit_is_equal_with_and_without_prescan() {
    for space in [0, 70_000] {
        let space = " ".repeat(space);
        for (depth, outcome) in [(64, Ok(())), (65, Err(ParseError::Depth))] {
            let arrays = format!("{space}{}{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(parse_with_peak(arrays.as_bytes()).0, outcome, "{depth} arrays");
            let objects = format!("{space}{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
            assert_eq!(parse_with_peak(objects.as_bytes()).0, outcome, "{depth} objects");
        }
    }
}

#[test]
fn parser_accepts_text_after_rejecting_another() {
    let mut parser = Parser::new(ParseLimits::default());
    let hostile = b"[".repeat(MEBIBYTE);
    for _ in 0..3 {
        let mut bytes = pad(&hostile);
        assert!(parser.parse(PaddedText::new(&mut bytes, hostile.len())).is_err());
        let mut bytes = pad(b"[1]");
        assert!(parser.parse(PaddedText::new(&mut bytes, 3)).is_ok());
    }
}

#[test]
#[should_panic(expected = "padding")]
fn parse_without_padding_panics() {
    let mut parser = Parser::new(ParseLimits::default());
    let mut bytes = vec![b' '; PADDING_BYTES];
    let _document = parser.parse(PaddedText::new(&mut bytes, 1));
}
