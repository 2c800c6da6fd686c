//! Headers held against the body: the examples of the specification, and what its conformance
//! suite and a reader in front of the server would trip over.

use corelane::protocol::era::Method;
use corelane::protocol::error::{Error, Kind};
use corelane::protocol::json::{Limits as JsonLimits, PADDING_BYTES, Parser};
use corelane::transport::http::head::Head;
use corelane::transport::http::limits::Limits;
use corelane::transport::http::mirror::{Mirrored, check, check_params, name_key};
use proptest::prelude::*;

const ASKED: Mirrored<'static> =
    Mirrored { method: "tools/call", name: Some("get_weather"), version: "2026-07-28" };

fn with_head<T>(fields: &[u8], look: impl FnOnce(&Head, &[u8]) -> T) -> T {
    let text = [b"POST /mcp HTTP/1.1\r\nHost: a\r\n", fields, b"\r\n"].concat();
    let head = Head::parse(&text, &Limits::default()).unwrap().unwrap();
    look(&head, &text)
}

/// Holds `lines` against `asked`.
fn held(lines: &[&str], asked: &Mirrored<'_>) -> Result<(), Error> {
    let fields = lines.join("\r\n") + "\r\n";
    with_head(fields.as_bytes(), |head, text| check(head, text, asked))
}

/// Holds `fields` against arguments, where `Region` repeats `region` and `Depth` what is deeper.
fn held_params(fields: &[u8], arguments: &str) -> Result<(), Error> {
    let declared: [(&str, &[Box<str>]); 2] =
        [("Region", &["region".into()]), ("Depth", &["at".into(), "depth".into()])];
    let mut json = arguments.as_bytes().to_vec();
    json.resize(arguments.len() + PADDING_BYTES, b' ');
    let mut parser = Parser::new(JsonLimits::default());
    let document = parser.parse(&mut json, arguments.len()).unwrap();
    let result =
        with_head(fields, |head, text| check_params(head, text, declared, Some(document.root())));
    if let Err(error) = &result {
        assert_eq!(error.kind, Kind::HeaderMismatch);
    }
    result
}

/// Whether the header `Mcp-Param-Region: value` says what the JSON `argument` does.
fn says(value: impl AsRef<[u8]>, argument: &str) -> bool {
    let fields = [b"Mcp-Param-Region: ", value.as_ref(), b"\r\n"].concat();
    held_params(&fields, &format!("{{\"region\":{argument}}}")).is_ok()
}

#[test]
fn every_request_repeats_its_revision_its_method_and_its_name() {
    let right =
        ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: get_weather"];
    assert_eq!(held(&right, &ASKED), Ok(()));
    for missing in 0..right.len() {
        let mut lines = right.to_vec();
        lines.remove(missing);
        assert_eq!(held(&lines, &ASKED).unwrap_err().kind, Kind::HeaderMismatch, "{lines:?}");
    }
    for (place, wrong) in [
        (0, "MCP-Protocol-Version: 2025-11-25"),
        (0, "MCP-Protocol-Version: v2026-07-28"),
        (1, "Mcp-Method: tools/list"),
        (1, "Mcp-Method: TOOLS/CALL"),
        (1, "Mcp-Method: =?base64?dG9vbHMvY2FsbA==?="),
        (2, "Mcp-Name: Get_Weather"),
        (2, "Mcp-Name:"),
    ] {
        let mut lines = right;
        lines[place] = wrong;
        assert_eq!(held(&lines, &ASKED).unwrap_err().code, -32020, "{wrong}");
    }
}

#[test]
fn names_of_headers_know_no_case_and_space_around_values_is_nothing() {
    let lines = [
        "MCP-PROTOCOL-VERSION:2026-07-28",
        "mcp-method:   tools/call  ",
        "mCP-nAME:\tget_weather\t",
    ];
    assert_eq!(held(&lines, &ASKED), Ok(()));
}

#[test]
fn only_methods_that_are_about_something_name_it() {
    let asked = Mirrored { method: "tools/list", name: None, ..ASKED };
    let lines =
        ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list", "Mcp-Name: anything"];
    assert_eq!(held(&lines[..2], &asked), Ok(()));
    assert_eq!(held(&lines, &asked), Ok(()));
    let named: Vec<_> = Method::ALL
        .into_iter()
        .filter_map(|method| Some((method.as_str(), name_key(method)?)))
        .collect();
    assert_eq!(
        named,
        [
            ("tools/call", "name"),
            ("resources/read", "uri"),
            ("prompts/get", "name"),
            ("tasks/get", "taskId"),
            ("tasks/update", "taskId"),
            ("tasks/cancel", "taskId"),
        ]
    );
}

#[test]
fn a_name_that_a_header_cannot_carry_comes_as_base64() {
    let asked = Mirrored { name: Some("Wetter für 世界"), ..ASKED };
    let lines = |name| ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", name];
    let encoded = "Mcp-Name: =?base64?V2V0dGVyIGbDvHIg5LiW55WM?=";
    assert_eq!(held(&lines(encoded), &asked), Ok(()));
    assert!(held(&lines("Mcp-Name: Wetter für 世界"), &asked).is_err());
}

#[test]
fn the_examples_of_the_specification_are_read_as_it_reads_them() {
    for (argument, value) in [
        (r#""us-west1""#, "us-west1"),
        (r#""Hello, 世界""#, "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (r#"" padded ""#, "=?base64?IHBhZGRlZCA=?="),
        (r#""line1\nline2""#, "=?base64?bGluZTEKbGluZTI=?="),
        (r#""=?base64?literal?=""#, "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        (r#""""#, ""),
        (r#""""#, "=?base64??="),
        (r#""Hello""#, "=?base64?SGVsbG8=?="),
    ] {
        assert!(says(value, argument), "{value}");
    }
}

#[test]
fn base64_of_another_shape_says_nothing() {
    for value in [
        "=?base64?SGVsbG8?=",
        "=?base64?SGVsbG9=?=",
        "=?base64?SGVs!!!bG8=?=",
        "=?base64?SGVsbG8==?=",
        "=?base64?SGVs bG8=?=",
        "=?BASE64?SGVsbG8=?=",
        "=?base64?SGVsbG8=",
        "SGVsbG8=?=",
        "SGVsbG8=",
    ] {
        assert!(!says(value, r#""Hello""#), "{value}");
    }
}

#[test]
fn a_value_without_both_marks_means_what_it_says() {
    for text in ["SGVsbG8=", "=?base64?SGVsbG8=", "SGVsbG8=?=", "=?base64?="] {
        assert!(says(text, &format!("{text:?}")), "{text}");
    }
    assert!(!says("=?base64?literal?=", r#""=?base64?literal?=""#));
    assert!(!says("世界".as_bytes(), r#""世界""#));
}

#[test]
fn numbers_are_compared_as_numbers_and_digit_by_digit() {
    for (value, argument) in [
        ("42", "42"),
        ("42.0", "42"),
        ("42", "42.0"),
        ("-7", "-7"),
        ("-0", "0"),
        ("007", "7"),
        ("9007199254740993", "9007199254740993"),
        ("18446744073709551615", "18446744073709551615"),
        ("=?base64?NDI=?=", "42"),
    ] {
        assert!(says(value, argument), "{value} {argument}");
    }
    for (value, argument) in [
        ("43", "42"),
        ("42.5", "42"),
        ("9007199254740992", "9007199254740993"),
        ("+42", "42"),
        ("4.2e1", "42"),
        ("0x2a", "42"),
        ("42.", "42"),
        (".0", "0"),
        ("-", "0"),
        ("", "0"),
        ("NaN", "42"),
        ("inf", "1e308"),
        ("4 2", "42"),
    ] {
        assert!(!says(value, argument), "{value} {argument}");
    }
}

#[test]
fn a_boolean_has_two_words() {
    assert!(says("true", "true"));
    assert!(says("false", "false"));
    for (value, argument) in [("True", "true"), ("1", "true"), ("false", "true"), ("", "false")] {
        assert!(!says(value, argument), "{value}");
    }
}

#[test]
fn an_argument_has_its_header_and_a_header_its_argument() {
    let both = b"Mcp-Param-Region: eu\r\nmcp-param-DEPTH: 3\r\n";
    assert_eq!(held_params(both, r#"{"region":"eu","at":{"depth":3}}"#), Ok(()));
    for arguments in ["{}", r#"{"region":null,"at":null}"#, r#"{"at":{"depth":null}}"#, "[]"] {
        assert_eq!(held_params(b"", arguments), Ok(()), "{arguments}");
        assert!(held_params(both, arguments).is_err(), "{arguments}");
    }
    let missing = held_params(&both[..22], r#"{"region":"eu","at":{"depth":3}}"#).unwrap_err();
    assert!(missing.message.contains("Mcp-Param-Depth is missing"), "{missing}");
    assert!(missing.message.contains("at.depth"), "{missing}");
}

#[test]
fn a_header_that_stands_twice_is_refused_even_if_it_says_the_same() {
    let twice = b"Mcp-Param-Region: eu\r\nMcp-Param-region: eu\r\n";
    let error = held_params(twice, r#"{"region":"eu"}"#).unwrap_err();
    assert!(error.message.contains("twice"), "{error}");
}

#[test]
fn headers_that_no_schema_declares_are_passed_over() {
    let fields = b"Mcp-Param-Other: x\r\nMcp-Param-Other: y\r\nMcp-Param-: z\r\n";
    assert_eq!(held_params(fields, "{}"), Ok(()));
}

#[test]
fn an_argument_that_no_header_can_say_is_left_to_its_schema() {
    for composed in ["[1]", "{}"] {
        assert_eq!(held_params(b"", &format!("{{\"region\":{composed}}}")), Ok(()));
        assert!(!says("[1]", composed));
    }
}

proptest! {
    #[test]
    fn what_a_client_encodes_is_what_it_said(text in ".{0,120}", other in ".{0,120}") {
        use base64::Engine;
        let encoded = base64::prelude::BASE64_STANDARD.encode(&text);
        let value = format!("=?base64?{encoded}?=");
        let argument = serde_json::to_string(&text).unwrap();
        prop_assert!(says(&value, &argument));
        let argument = serde_json::to_string(&other).unwrap();
        prop_assert_eq!(says(&value, &argument), text == other);
    }
}
