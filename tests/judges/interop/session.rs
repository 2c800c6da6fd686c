//! A first session: server info, tools, successful and failing calls.

use serde_json::{Value, json};

use crate::interop::sdk::{LEGACY, MODERN, Sdk, in_mode};

/// Message of `echo`: UTF-8 sequences of two, three and four bytes, and a line feed.
const ECHO: &str = "ünï ☃ \n 𝄞";

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_completes_legacy_session() {
    in_mode(Sdk::Python, "session", "legacy", |summary| expect_session(summary, LEGACY));
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_discovers_modern_era_in_auto_mode() {
    in_mode(Sdk::Python, "session", "auto", |summary| expect_session(summary, MODERN));
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_calls_pinned_revision_without_discovery() {
    in_mode(Sdk::Python, "session", MODERN, |summary| {
        expect_revision(summary, MODERN);
        expect_calls(summary);
    });
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn rust_completes_legacy_session() {
    in_mode(Sdk::Rust, "session", "legacy", |summary| expect_session(summary, LEGACY));
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn rust_discovers_modern_era_in_auto_mode() {
    in_mode(Sdk::Rust, "session", "auto", |summary| expect_session(summary, MODERN));
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn rust_completes_session_of_pinned_revision() {
    in_mode(Sdk::Rust, "session", MODERN, |summary| expect_session(summary, MODERN));
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_completes_legacy_session() {
    in_mode(Sdk::TypeScript, "session", "legacy", |summary| expect_session(summary, LEGACY));
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_discovers_modern_era_in_auto_mode() {
    in_mode(Sdk::TypeScript, "session", "auto", |summary| expect_session(summary, MODERN));
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_completes_session_of_pinned_revision() {
    in_mode(Sdk::TypeScript, "session", MODERN, |summary| expect_session(summary, MODERN));
}

/// Asserts a whole session with the demo services.
pub(crate) fn expect_session(summary: &Value, revision: &str) {
    expect_revision(summary, revision);
    assert_eq!(summary["server"], "corelane");
    assert_eq!(summary["has_tools"], true);
    expect_calls(summary);
}

fn expect_revision(summary: &Value, revision: &str) {
    assert_eq!(summary["revision"], revision, "{summary:#}");
}

fn expect_calls(summary: &Value) {
    let tools: Vec<&str> =
        summary["tools"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for tool in ["echo", "add", "slow", "hash"] {
        assert!(tools.contains(&tool), "`{tool}` is not listed: {tools:?}");
    }
    let schemas = summary["schemas"].as_array().expect("the schemas are listed");
    assert!(schemas.iter().all(|kind| kind == "object"), "{schemas:?}");

    assert_eq!(summary["echo"]["text"], json!([ECHO]));
    assert_eq!(summary["afterwards"]["text"], json!(["still here"]));
    expect_add(&summary["add"]);
    expect_slow(&summary["slow"]);
    assert_eq!(summary["hash"]["is_error"], false, "{}", summary["hash"]);
    assert_eq!(summary["cancelled"], true);
    assert_eq!(summary["unknown_tool"]["code"], -32602, "{}", summary["unknown_tool"]);
    let bad_argument = &summary["bad_argument"];
    assert_eq!(bad_argument["is_error"], true, "not a tool error: {bad_argument}");
}

/// The sum is in the structured content and, as JSON, in a text block.
fn expect_add(add: &Value) {
    assert_eq!(add["is_error"], false, "{add}");
    let text = add["text"][0].as_str().expect("the first block is text");
    let from_text: Value = serde_json::from_str(text).expect("the text is JSON");
    for result in [&add["structured"], &from_text] {
        assert_eq!(result["sum"].as_f64(), Some(42.0), "{add}");
    }
}

/// Progress grows strictly up to its total. The list may be incomplete: the TypeScript client drops
/// progress that arrives together with the result.
fn expect_slow(slow: &Value) {
    assert_eq!(slow["is_error"], false, "{slow}");
    let reports: Vec<(f64, f64)> =
        serde_json::from_value(slow["progress"].clone()).expect("progress is a list of pairs");
    assert!(!reports.is_empty(), "{slow}");
    assert!(reports.windows(2).all(|pair| pair[0].0 < pair[1].0), "{slow}");
    assert!(reports.iter().all(|&(done, total)| done <= total), "{slow}");
}
