//! Consistency of headers and body: the examples of the specification and of its conformance suite.

use corelane_protocol::eras::Method;
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::json::{PADDING_BYTES, PaddedText, ParseLimits as JsonLimits, Parser};
use corelane_transport::http::head::{Head, RequestLimits};
use corelane_transport::http::header_consistency::{
    BodyValues, check_headers, check_param_headers, name_key,
};
use proptest::prelude::*;

const EXPECTED: BodyValues<'static> =
    BodyValues { method: "tools/call", name: Some("get_weather"), version: "2026-07-28" };

fn with_head<T>(fields: &[u8], inspect: impl FnOnce(&Head, &[u8]) -> T) -> T {
    let text = [b"POST /mcp HTTP/1.1\r\nHost: a\r\n", fields, b"\r\n"].concat();
    let head = Head::parse(&text, &RequestLimits::default()).unwrap().unwrap();
    inspect(&head, &text)
}

/// Compares header `lines` with `expected`.
fn compare_headers(lines: &[&str], expected: &BodyValues<'_>) -> Result<(), Error> {
    let fields = lines.join("\r\n") + "\r\n";
    with_head(fields.as_bytes(), |head, text| check_headers(head, text, expected))
}

/// Compares headers with arguments; `Region` repeats `region` and `Depth` repeats `at.depth`.
fn compare_params(fields: &[u8], arguments: &str) -> Result<(), Error> {
    let declared: [(&str, &[Box<str>]); 2] =
        [("Region", &["region".into()]), ("Depth", &["at".into(), "depth".into()])];
    let mut json = arguments.as_bytes().to_vec();
    json.resize(arguments.len() + PADDING_BYTES, b' ');
    let mut parser = Parser::new(JsonLimits::default());
    let document = parser.parse(PaddedText::new(&mut json, arguments.len())).unwrap();
    let result = with_head(fields, |head, text| {
        check_param_headers(head, text, declared, Some(document.root()))
    });
    if let Err(error) = &result {
        assert_eq!(error.kind, ErrorKind::HeaderMismatch);
    }
    result
}

/// Checks `fields` against `arguments` with `declared` headers.
fn check_declared(
    fields: &str,
    arguments: &str,
    declared: &[(String, Vec<Box<str>>)],
) -> Result<(), Error> {
    let mut json = arguments.as_bytes().to_vec();
    json.resize(arguments.len() + PADDING_BYTES, b' ');
    let mut parser = Parser::new(JsonLimits::default());
    let document = parser.parse(PaddedText::new(&mut json, arguments.len())).unwrap();
    let declared = declared.iter().map(|(name, path)| (&**name, &**path));
    with_head(fields.as_bytes(), |head, text| {
        check_param_headers(head, text, declared, Some(document.root()))
    })
}

#[test]
fn many_declared_headers_are_compared_like_few() {
    let mut declared: Vec<(String, Vec<Box<str>>)> =
        (0..10).map(|index| (format!("P{index}"), vec![format!("p{index}").into()])).collect();
    for path in ["a", "a/b", "a/b/c", "a/d", "e/b", "e/f"] {
        declared.push((path.replace('/', "-"), path.split('/').map(Into::into).collect()));
    }
    for arguments in [
        "{}",
        "7",
        r#"{"a":1,"e":2}"#,
        r#"{"a":{"b":1,"d":2},"e":{"f":3,"b":null}}"#,
        r#"{"a":{"b":{"c":4,"c":5},"d":6},"p3":7,"p1":"x","p3":8,"other":9}"#,
        r#"{"a":{"b":1,"d":2},"a":{"d":3},"e":{"b":4},"e":5}"#,
        r#"{"a":[{"b":1}],"p0":{"p1":1},"e":{"e":{"f":1}}}"#,
    ] {
        for fields in ["", "Mcp-Param-a-d: 2\r\n", "Mcp-Param-a-d: 3\r\nMcp-Param-e-b: 4\r\n"] {
            let one_by_one = declared
                .iter()
                .try_for_each(|one| check_declared(fields, arguments, std::slice::from_ref(one)));
            let together = check_declared(fields, arguments, &declared);
            assert_eq!(together, one_by_one, "{fields} {arguments}");
        }
    }
}

/// A scan of the arguments for each header would take more than ten minutes.
#[test]
fn arguments_of_many_declared_headers_are_found() {
    let declared: Vec<(String, Vec<Box<str>>)> = (0..100_000)
        .map(|index| (format!("P{index}"), vec!["at".into(), format!("p{index}").into()]))
        .collect();
    let members: Vec<_> = (0..200_000).map(|index| format!(r#""o{index}":0"#)).collect();
    let arguments = format!(r#"{{"at":{{{},"p70000":7}}}}"#, members.join(","));
    let check = |fields| check_declared(fields, &arguments, &declared);
    assert_eq!(check("Mcp-Param-P70000: 7\r\n"), Ok(()));
    assert!(check("").unwrap_err().message.contains("Mcp-Param-P70000 is missing"));
}

/// Returns whether the header `Mcp-Param-Region: value` matches the JSON `argument`.
fn region_matches(value: impl AsRef<[u8]>, argument: &str) -> bool {
    let fields = [b"Mcp-Param-Region: ", value.as_ref(), b"\r\n"].concat();
    compare_params(&fields, &format!("{{\"region\":{argument}}}")).is_ok()
}

#[test]
fn modern_request_requires_version_method_and_name_headers() {
    let right =
        ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: get_weather"];
    assert_eq!(compare_headers(&right, &EXPECTED), Ok(()));
    for missing in 0..right.len() {
        let mut lines = right.to_vec();
        lines.remove(missing);
        assert_eq!(
            compare_headers(&lines, &EXPECTED).unwrap_err().kind,
            ErrorKind::HeaderMismatch,
            "{lines:?}"
        );
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
        assert_eq!(compare_headers(&lines, &EXPECTED).unwrap_err().code, -32020, "{wrong}");
    }
}

#[test]
fn header_names_ignore_case_and_white_space() {
    let lines = [
        "MCP-PROTOCOL-VERSION:2026-07-28",
        "mcp-method:   tools/call  ",
        "mCP-nAME:\tget_weather\t",
    ];
    assert_eq!(compare_headers(&lines, &EXPECTED), Ok(()));
}

#[test]
fn mcp_name_is_required_only_for_named_methods() {
    let expected = BodyValues { method: "tools/list", name: None, ..EXPECTED };
    let lines =
        ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/list", "Mcp-Name: anything"];
    assert_eq!(compare_headers(&lines[..2], &expected), Ok(()));
    assert_eq!(compare_headers(&lines, &expected), Ok(()));
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
fn mcp_name_outside_ascii_is_base64() {
    let expected = BodyValues { name: Some("Wetter für 世界"), ..EXPECTED };
    let lines = |name| ["MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", name];
    let encoded = "Mcp-Name: =?base64?V2V0dGVyIGbDvHIg5LiW55WM?=";
    assert_eq!(compare_headers(&lines(encoded), &expected), Ok(()));
    assert!(compare_headers(&lines("Mcp-Name: Wetter für 世界"), &expected).is_err());
}

#[test]
fn param_header_examples_of_specification_match() {
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
        assert!(region_matches(value, argument), "{value}");
    }
}

#[test]
fn non_canonical_base64_header_does_not_match() {
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
        assert!(!region_matches(value, r#""Hello""#), "{value}");
    }
}

#[test]
fn header_without_base64_markers_is_literal() {
    for text in ["SGVsbG8=", "=?base64?SGVsbG8=", "SGVsbG8=?=", "=?base64?="] {
        assert!(region_matches(text, &format!("{text:?}")), "{text}");
    }
    assert!(!region_matches("=?base64?literal?=", r#""=?base64?literal?=""#));
    assert!(!region_matches("世界".as_bytes(), r#""世界""#));
}

#[test]
fn numeric_headers_compare_by_exact_value() {
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
        assert!(region_matches(value, argument), "{value} {argument}");
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
        assert!(!region_matches(value, argument), "{value} {argument}");
    }
}

#[test]
fn boolean_headers_are_true_or_false() {
    assert!(region_matches("true", "true"));
    assert!(region_matches("false", "false"));
    for (value, argument) in [("True", "true"), ("1", "true"), ("false", "true"), ("", "false")] {
        assert!(!region_matches(value, argument), "{value}");
    }
}

#[test]
fn argument_requires_its_header_and_vice_versa() {
    let both = b"Mcp-Param-Region: eu\r\nmcp-param-DEPTH: 3\r\n";
    assert_eq!(compare_params(both, r#"{"region":"eu","at":{"depth":3}}"#), Ok(()));
    for arguments in ["{}", r#"{"region":null,"at":null}"#, r#"{"at":{"depth":null}}"#, "[]"] {
        assert_eq!(compare_params(b"", arguments), Ok(()), "{arguments}");
        assert!(compare_params(both, arguments).is_err(), "{arguments}");
    }
    let missing = compare_params(&both[..22], r#"{"region":"eu","at":{"depth":3}}"#).unwrap_err();
    assert!(missing.message.contains("Mcp-Param-Depth is missing"), "{missing}");
    assert!(missing.message.contains("at.depth"), "{missing}");
}

#[test]
fn param_header_repeated_with_different_values_is_rejected() {
    let arguments = r#"{"region":"eu","at":{"depth":3}}"#;
    let equal = b"Mcp-Param-Region: eu\r\nMcp-Param-region: eu\r\nMcp-Param-Depth: 3, 3.0\r\n";
    assert!(compare_params(equal, arguments).is_err());
    let equal = b"Mcp-Param-Region: eu\r\nMcp-Param-region: eu\r\nMcp-Param-Depth: 3, 3\r\n";
    assert_eq!(compare_params(equal, arguments), Ok(()));
    let twice = b"Mcp-Param-Region: eu\r\nMcp-Param-region: us\r\n";
    let error = compare_params(twice, r#"{"region":"eu"}"#).unwrap_err();
    assert!(error.message.contains("repeated"), "{error}");
}

#[test]
fn undeclared_param_headers_are_ignored() {
    let fields = b"Mcp-Param-Other: x\r\nMcp-Param-Other: y\r\nMcp-Param-: z\r\n";
    assert_eq!(compare_params(fields, "{}"), Ok(()));
}

#[test]
fn composite_argument_needs_no_header() {
    for composed in ["[1]", "{}"] {
        assert_eq!(compare_params(b"", &format!("{{\"region\":{composed}}}")), Ok(()));
        assert!(!region_matches("[1]", composed));
    }
}

proptest! {
    #[test]
    fn base64_header_matches_its_text(text in ".{0,120}", other in ".{0,120}") {
        use base64::Engine;
        let encoded = base64::prelude::BASE64_STANDARD.encode(&text);
        let value = format!("=?base64?{encoded}?=");
        let argument = serde_json::to_string(&text).unwrap();
        prop_assert!(region_matches(&value, &argument));
        let argument = serde_json::to_string(&other).unwrap();
        prop_assert_eq!(region_matches(&value, &argument), text == other);
    }
}
