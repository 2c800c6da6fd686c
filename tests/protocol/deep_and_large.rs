//! Depth and size: hostile nesting is refused before it costs anything.

use crate::counting::peak_bytes;
use crate::stage::{padded, reencoded};
use corelane::protocol::json::{Limits, PADDING_BYTES, ParseError, Parser};

const MEBIBYTE: usize = 1024 * 1024;
const LARGEST_MESSAGE: usize = 16 * MEBIBYTE;

/// Parses `text` and says how it ended and how much memory that took at most.
fn cost_of(text: &[u8]) -> (Result<(), ParseError>, usize) {
    let mut bytes = padded(text);
    let mut parser = Parser::new(Limits::default());
    peak_bytes(|| parser.parse(&mut bytes, text.len()).map(drop))
}

#[test]
fn sixteen_mebibytes_of_brackets_cost_nothing() {
    for opening in [&b"["[..], b"{\"a\":", b"[[],", b"{\"a\":[", b"[ "] {
        let text = opening.repeat(LARGEST_MESSAGE / opening.len());
        let (outcome, bytes) = cost_of(&text);
        assert_eq!(outcome, Err(ParseError::Depth), "{}", opening.escape_ascii());
        assert!(bytes < 4096, "{bytes} bytes for {}", opening.escape_ascii());
    }
}

#[test]
fn sixteen_mebibytes_of_tiny_values_are_refused_for_nothing() {
    for item in [&b"1,"[..], b"[],", b"\"\",", b"1 ", b":", b"{},"] {
        let text = [b"[", &item.repeat(LARGEST_MESSAGE / item.len() - 1)[..]].concat();
        let (outcome, bytes) = cost_of(&text);
        assert_eq!(outcome, Err(ParseError::Tokens), "{}", item.escape_ascii());
        assert!(bytes < 4096, "{bytes} bytes for {}", item.escape_ascii());
    }
}

#[test]
fn a_large_text_costs_what_the_limits_say() {
    // The most tokens that are allowed: two per item, the last item and the brackets.
    let limits = Limits::default();
    let items = limits.tokens_max / 2 - 2;
    let text = format!("[{}1]", "1,".repeat(items));
    let (outcome, bytes) = cost_of(text.as_bytes());
    assert_eq!(outcome, Ok(()));
    assert!(bytes < limits.tokens_max * 32 + 2 * text.len(), "{bytes} bytes");

    let text = format!("{{\"a\":\"{}\"}}", "x".repeat(LARGEST_MESSAGE - 8));
    let (outcome, bytes) = cost_of(text.as_bytes());
    assert_eq!(outcome, Ok(()));
    assert!(bytes < 2 * LARGEST_MESSAGE, "{bytes} bytes");
}

#[test]
fn a_long_string_of_quotes_and_escapes_is_read_in_full() {
    let text = format!("\"{}\"", "\\\"[{\\\\".repeat(100_000));
    let decoded: String = serde_json::from_str(&text).unwrap();
    assert_eq!(reencoded(&text).unwrap(), serde_json::to_string(&decoded).unwrap());
}

#[test]
fn depth_counts_the_same_in_small_and_in_surveyed_texts() {
    for space in [0, 70_000] {
        let space = " ".repeat(space);
        for (depth, outcome) in [(64, Ok(())), (65, Err(ParseError::Depth))] {
            let arrays = format!("{space}{}{}", "[".repeat(depth), "]".repeat(depth));
            assert_eq!(cost_of(arrays.as_bytes()).0, outcome, "{depth} arrays");
            let objects = format!("{space}{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
            assert_eq!(cost_of(objects.as_bytes()).0, outcome, "{depth} objects");
        }
    }
}

#[test]
fn the_refusal_of_one_text_does_not_touch_the_next() {
    let mut parser = Parser::new(Limits::default());
    let hostile = b"[".repeat(MEBIBYTE);
    for _ in 0..3 {
        let mut bytes = padded(&hostile);
        assert!(parser.parse(&mut bytes, hostile.len()).is_err());
        let mut bytes = padded(b"[1]");
        assert!(parser.parse(&mut bytes, 3).is_ok());
    }
}

#[test]
#[should_panic(expected = "padding")]
fn a_buffer_without_padding_is_a_mistake_of_the_caller() {
    let mut parser = Parser::new(Limits::default());
    let mut bytes = vec![b' '; PADDING_BYTES];
    let _document = parser.parse(&mut bytes, 1);
}
