//! JSON grammar of RFC 8259, as a table in the manner of `JSONTestSuite`.
//!
//! Each text is also tested inside an array and after enough whitespace to reach the second block
//! of the parser's stage 1. `serde_json` is the reference for every row.

use crate::parsing::reencode;
use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseError, ParseLimits, Parser};

/// Valid texts and their re-encoded form.
const ACCEPTED: &[(&[u8], &str)] = &[
    // Structure.
    (b"[]", "[]"),
    (b"{}", "{}"),
    (b"[[]]", "[[]]"),
    (b"[[],[]]", "[[],[]]"),
    (b"[{}]", "[{}]"),
    (b"[null]", "[null]"),
    (b"[true,false,null]", "[true,false,null]"),
    (b"[1,null,null,null,2]", "[1,null,null,null,2]"),
    (br#"{"a":"b"}"#, r#"{"a":"b"}"#),
    (br#"{"a":"b","a":"c"}"#, r#"{"a":"b","a":"c"}"#),
    (br#"{"a":"b","a":"b"}"#, r#"{"a":"b","a":"b"}"#),
    (br#"{"":0}"#, r#"{"":0}"#),
    (br#"{"a":[]}"#, r#"{"a":[]}"#),
    (br#"{"a":{"b":{"c":[{}]}}}"#, r#"{"a":{"b":{"c":[{}]}}}"#),
    (br#"{"min":-1.0e+28,"max":1.0e+28}"#, r#"{"min":-1e+28,"max":1e+28}"#),
    // Scalars alone.
    (b"null", "null"),
    (b"true", "true"),
    (b"false", "false"),
    (b"0", "0"),
    (b"-1", "-1"),
    (br#""""#, r#""""#),
    (br#""a""#, r#""a""#),
    // Space.
    (b" []", "[]"),
    (b"[] ", "[]"),
    (b"\t\n\r [] \t\n\r", "[]"),
    (b"[ 1 , 2 ]", "[1,2]"),
    (b"{ \"a\" : 1 , \"b\" : 2 }", r#"{"a":1,"b":2}"#),
    (b"[\n]", "[]"),
    (b"\n1\n", "1"),
    (b" \"a\" ", r#""a""#),
    // Numbers.
    (b"-0", "0"),
    (b"[0e1]", "[0]"),
    (b"[0e+1]", "[0]"),
    (b"[0E-1]", "[0]"),
    (b"[1E22]", "[1e+22]"),
    (b"[1E-2]", "[0.01]"),
    (b"[1E+2]", "[100]"),
    (b"[123e45]", "[1.23e+47]"),
    (b"[123.456e78]", "[1.23456e+80]"),
    (b"[1e-2]", "[0.01]"),
    (b"[1e+2]", "[100]"),
    (b"[123.456789]", "[123.456789]"),
    (b"[-0.1]", "[-0.1]"),
    (b"[1.5]", "[1.5]"),
    (b"[1.0]", "[1]"),
    (b"[20e1]", "[200]"),
    (b"[0.0000001]", "[1e-7]"),
    (b"[1e-400]", "[0]"),
    (b"[0e99999999999]", "[0]"),
    (b"[1e-99999999999]", "[0]"),
    (b"[9223372036854775807]", "[9223372036854775807]"),
    (b"[-9223372036854775808]", "[-9223372036854775808]"),
    (b"[18446744073709551615]", "[18446744073709551615]"),
    (b"[18446744073709551616]", "[1.8446744073709552e+19]"),
    (b"[-9223372036854775809]", "[-9.223372036854776e+18]"),
    (b"[123456789012345678901234567890]", "[1.2345678901234568e+29]"),
    (b"[100000000000000000000]", "[1e+20]"),
    (b"[1.7976931348623157e308]", "[1.7976931348623157e+308]"),
    (b"[5e-324]", "[5e-324]"),
    (b"[0.1e1]", "[1]"),
    // Strings and escapes.
    (br#"["\"\\\/\b\f\n\r\t"]"#, r#"["\"\\/\b\f\n\r\t"]"#),
    (br#"["\u0041"]"#, r#"["A"]"#),
    (br#"["\u00e9\u00E9"]"#, "[\"éé\"]"),
    (br#"["\u0000"]"#, r#"["\u0000"]"#),
    (br#"["\u001f"]"#, r#"["\u001f"]"#),
    (br#"["\u007f"]"#, "[\"\u{7f}\"]"),
    (br#"["\u2028\u2029"]"#, "[\"\u{2028}\u{2029}\"]"),
    (br#"["\uD83D\uDE00"]"#, "[\"😀\"]"),
    (br#"["\ud801\udc37"]"#, "[\"\u{10437}\"]"),
    (br#"["\uDBFF\uDFFF"]"#, "[\"\u{10ffff}\"]"),
    (br#"["\uD83D\uDE00\uD83D\uDE00"]"#, "[\"😀😀\"]"),
    (br#"["\uFFFF\uFFFE\uFDD0"]"#, "[\"\u{ffff}\u{fffe}\u{fdd0}\"]"),
    (br#"["\\u0041"]"#, r#"["\\u0041"]"#),
    (br#"["\\"]"#, r#"["\\"]"#),
    (br#"["\\\\"]"#, r#"["\\\\"]"#),
    (br#"["\""]"#, r#"["\""]"#),
    (br#"["a/*b*/c"]"#, r#"["a/*b*/c"]"#),
    (br#"["[{,:}]"]"#, r#"["[{,:}]"]"#),
    (br#"{"\u0061":1}"#, r#"{"a":1}"#),
    (br#"{"a\"b":1}"#, r#"{"a\"b":1}"#),
    // UTF-8 as it is.
    (
        "[\"é😀\u{10ffff}\u{80}\u{7ff}\u{800}\"]".as_bytes(),
        "[\"é😀\u{10ffff}\u{80}\u{7ff}\u{800}\"]",
    ),
    ("[\"\u{feff}\"]".as_bytes(), "[\"\u{feff}\"]"),
    ("[\"\u{7f}\"]".as_bytes(), "[\"\u{7f}\"]"),
    ("[\"\u{2028}\"]".as_bytes(), "[\"\u{2028}\"]"),
    ("{\"ключ\":\"値\"}".as_bytes(), "{\"ключ\":\"値\"}"),
];

/// Invalid texts, and valid ones that the parser rejects (see `protocol::json`).
const REJECTED: &[&[u8]] = &[
    // Structure.
    b"",
    b" ",
    b"\n",
    b"[",
    b"]",
    b"{",
    b"}",
    b"[[",
    b"[]]",
    b"[[]",
    b"{}}",
    b"{{}}",
    b"[}",
    b"{]",
    b"[{]}",
    b"[1,]",
    b"[,1]",
    b"[1,,2]",
    b"[,]",
    b"[1 2]",
    b"[1:2]",
    b"[\"a\" \"b\"]",
    b"[\"a\":1]",
    b"[\"\"",
    b"[\"\",",
    b"[1",
    b"[1,",
    b"[1,\n1\n,1",
    b"[][]",
    b"[] []",
    b"{} 1",
    b"1 2",
    b"[]1",
    b"[1]x",
    b",",
    b":",
    b"[:]",
    br#"{"a"}"#,
    br#"{"a":}"#,
    br#"{"a":1,}"#,
    br#"{,"a":1}"#,
    br#"{"a":1,,"b":2}"#,
    br#"{"a" "b"}"#,
    br#"{"a","b"}"#,
    br#"{"a"::1}"#,
    br#"{"a":1 "b":2}"#,
    br#"{"a":1:2}"#,
    br#"{"a":"b""#,
    br#"{"a":"b"#,
    br#"{"a":"#,
    br#"{"a"#,
    br#"{""#,
    b"{1:1}",
    b"{null:1}",
    b"{true:1}",
    b"{[]:1}",
    b"{a:1}",
    b"{'a':1}",
    br#"{"a":1}}"#,
    br#"{"a":1},"#,
    br#""a" "b""#,
    br#""a"x"#,
    // Literals.
    b"nul",
    b"nulll",
    b"NULL",
    b"[nul]",
    b"tru",
    b"truee",
    b"True",
    b"[tru]",
    b"fals",
    b"falsee",
    b"[fals]",
    b"[truefalse]",
    b"[true false]",
    b"undefined",
    b"NaN",
    b"[NaN]",
    b"Infinity",
    b"[-Infinity]",
    b"[inf]",
    b"[nan]",
    b"a",
    b"*",
    b"[*]",
    b"#",
    b"[1#]",
    b"<.>",
    // Comments and other dialects.
    b"/**/[]",
    b"[]/**/",
    b"[1]//",
    b"[/*a*/1]",
    b"['a']",
    b"[`a`]",
    b"[\"a\",]",
    b"\xef\xbb\xbf[]",
    b"[1]\x00",
    b"\x00",
    b"[\x00]",
    b"\x0c[]",
    b"[\x0b]",
    b"\xc2\xa0[]",
    b"\xe2\x80\xa8[]",
    br"\u005B1]",
    br"[\u000A1]",
    br"\[]",
    br#"\"a""#,
    br#"[\"a\"]"#,
    br"[1,\n1]",
    // Numbers.
    b"01",
    b"[-01]",
    b"[00]",
    b"[-]",
    b"[+1]",
    b"[++1]",
    b"[--1]",
    b"[-+1]",
    b"[- 1]",
    b"[1.]",
    b"[.1]",
    b"[-.1]",
    b"[.]",
    b"[0.]",
    b"[0.e1]",
    b"[1.e1]",
    b"[1e]",
    b"[1e+]",
    b"[1E-]",
    b"[0e]",
    b"[0e+]",
    b"[1e1.5]",
    b"[1e+-1]",
    b"[1ee1]",
    b"[1.2.3]",
    b"[1.2.]",
    b"[1 000]",
    b"[1,000.0,]",
    b"[0x1]",
    b"[0xff]",
    b"[0b1]",
    b"[1a]",
    b"[1-1]",
    b"[1+1]",
    b"[1_000]",
    b"[1f]",
    b"[1n]",
    b"[1e400]",
    b"[-1e400]",
    b"[1e99999999999]",
    b"[1.8e308]",
    b"1e",
    b"-",
    b"1.",
    b"[\xef\xbc\x91]",
    // Strings and escapes.
    b"\"",
    b"\"a",
    b"[\"a]",
    b"[\"a\nb\"]",
    b"[\"a\tb\"]",
    b"[\"a\rb\"]",
    b"[\"a\x00b\"]",
    b"[\"\x1f\"]",
    br#"["\"]"#,
    br#"["\\\"]"#,
    br#"["\a"]"#,
    br#"["\x41"]"#,
    br#"["\0"]"#,
    br#"["\'"]"#,
    br#"["\U0041"]"#,
    br#"["\u"]"#,
    br#"["\u0"]"#,
    br#"["\u00"]"#,
    br#"["\u004"]"#,
    br#"["\u004g"]"#,
    br#"["\u 041"]"#,
    br#"["\u-041"]"#,
    br#"["\u{41}"]"#,
    b"[\"\\\n\"]",
    b"\"\\",
    b"\"\\u004",
    // Lone surrogates.
    br#"["\uD83D"]"#,
    br#"["\uDE00"]"#,
    br#"["\uD83D\uD83D"]"#,
    br#"["\uDE00\uD83D"]"#,
    br#"["\uD83Dx"]"#,
    br#"["\uD83D\n"]"#,
    br#"["\uD83D\u0041"]"#,
    br#"["\uD83D\uDE0"]"#,
    br#"["\uD83D\\uDE00"]"#,
    br#"{"\uD83D":1}"#,
];

/// Invalid UTF-8.
const NOT_UTF8: &[&[u8]] = &[
    b"[\"\xff\"]",
    b"[\"\xfe\xff\"]",
    b"[\"\x80\"]",
    b"[\"a\xbfb\"]",
    b"[\"\xc3\"]",
    b"[\"\xc3\x28\"]",
    b"[\"\xc0\x80\"]",
    b"[\"\xc0\xaf\"]",
    b"[\"\xc1\xbf\"]",
    b"[\"\xe0\x80\x80\"]",
    b"[\"\xe0\x9f\xbf\"]",
    b"[\"\xe2\x82\"]",
    b"[\"\xed\xa0\x80\"]",
    b"[\"\xed\xbf\xbf\"]",
    b"[\"\xed\xa0\xbd\xed\xb8\x80\"]",
    b"[\"\xf0\x80\x80\x80\"]",
    b"[\"\xf0\x8f\xbf\xbf\"]",
    b"[\"\xf4\x90\x80\x80\"]",
    b"[\"\xf5\x80\x80\x80\"]",
    b"[\"\xf8\x88\x80\x80\x80\"]",
    b"[\"\xfc\x84\x80\x80\x80\x80\"]",
    b"{\"\xff\":1}",
    b"\xff",
    b"[\xff]",
    b"[1]\xff",
    b"\xff\xfe[\x00]\x00",
];

/// Returns `text` unchanged, inside an array, and at offsets around multiples of 64 bytes.
fn placements(text: &[u8]) -> Vec<Vec<u8>> {
    let mut placed = vec![text.to_vec(), [b"[", text, b"]"].concat()];
    for space in [1, 30, 31, 32, 33, 57, 58, 59, 60, 61, 62, 63, 64, 65, 127] {
        placed.push([&b" ".repeat(space), text].concat());
    }
    placed
}

#[test]
fn valid_json_is_accepted_at_every_offset() {
    for (text, encoded) in ACCEPTED {
        let shown = String::from_utf8_lossy(text);
        assert!(serde_json::from_slice::<serde_json::Value>(text).is_ok(), "{shown}");
        for (index, placed) in placements(text).into_iter().enumerate() {
            let expected = if index == 1 { format!("[{encoded}]") } else { (*encoded).to_owned() };
            assert_eq!(reencode(&placed), Ok(expected), "{shown}, placement {index}");
        }
    }
}

#[test]
fn invalid_json_is_rejected_at_every_offset() {
    for text in REJECTED {
        let shown = String::from_utf8_lossy(text);
        assert!(serde_json::from_slice::<serde_json::Value>(text).is_err(), "{shown}");
        for (index, placed) in placements(text).into_iter().enumerate() {
            // Inside an array the empty text is valid, and so are two items.
            if index == 1 && serde_json::from_slice::<serde_json::Value>(&placed).is_ok() {
                continue;
            }
            let outcome = reencode(&placed);
            let is_rejected = matches!(outcome, Err(ParseError::Syntax | ParseError::Structure));
            assert!(is_rejected, "{shown}, placement {index}: {outcome:?}");
        }
    }
}

#[test]
fn invalid_utf8_is_rejected_as_such() {
    for text in NOT_UTF8 {
        for placed in placements(text) {
            assert_eq!(reencode(&placed), Err(ParseError::Utf8), "{}", text.escape_ascii());
        }
    }
}

#[test]
fn rejected_text_was_utf8_or_is_unmodified() {
    let invalid = REJECTED.iter().chain(NOT_UTF8);
    // The prefix with escapes is decoded in place before the fault is found.
    for text in invalid.flat_map(|text| placements(text)) {
        for text in [text.clone(), [&b"[\"\\n\xc3\xa9\","[..], &text, b"]"].concat()] {
            let mut bytes = text.clone();
            bytes.resize(text.len() + PADDING_BYTES, b' ');
            let outcome = Parser::new(ParseLimits::default())
                .parse(PaddedText::new(&mut bytes, text.len()))
                .err();
            let shown = text.escape_ascii();
            match outcome {
                Some(ParseError::Syntax) => assert!(str::from_utf8(&text).is_ok(), "{shown}"),
                Some(ParseError::Structure) => assert_eq!(&bytes[..text.len()], text, "{shown}"),
                outcome => assert!(outcome != Some(ParseError::Depth), "{shown}"),
            }
        }
    }
}

#[test]
fn truncated_json_is_rejected() {
    let text = r#"{"jsonrpc":"2.0","id":"é\u00e9","method":"tools/call","params":[1.5e-3,true]}"#;
    assert!(reencode(text).is_ok());
    for end in 0..text.len() {
        assert!(reencode(&text.as_bytes()[..end]).is_err(), "cut at {end}");
    }
}
