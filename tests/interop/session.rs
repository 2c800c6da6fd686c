//! A first session: who the server is, its tools, and calls that end well and that do not.

use serde_json::{Value, json};

use crate::stage::{LEGACY, MODERN, Sdk, in_mode};

/// What the scripts say in `echo`: two, three and four bytes of UTF-8 and a line feed.
const ECHO: &str = "ünï ☃ \n 𝄞";

#[test]
fn python_completes_a_legacy_session() {
    in_mode(Sdk::Python, "session", "legacy", |summary| expect_session(summary, LEGACY));
}

#[test]
fn python_discovers_the_modern_era_by_itself() {
    in_mode(Sdk::Python, "session", "auto", |summary| expect_session(summary, MODERN));
}

#[test]
fn python_speaks_the_modern_era_without_asking_first() {
    in_mode(Sdk::Python, "session", MODERN, |summary| {
        expect_revision(summary, MODERN);
        expect_calls(summary);
    });
}

#[test]
fn rust_completes_a_legacy_session() {
    in_mode(Sdk::Rust, "session", "legacy", |summary| expect_session(summary, LEGACY));
}

#[test]
fn rust_discovers_the_modern_era_by_itself() {
    in_mode(Sdk::Rust, "session", "auto", |summary| expect_session(summary, MODERN));
}

#[test]
fn rust_speaks_a_pinned_modern_era() {
    in_mode(Sdk::Rust, "session", MODERN, |summary| expect_session(summary, MODERN));
}

#[test]
fn typescript_completes_a_legacy_session() {
    in_mode(Sdk::TypeScript, "session", "legacy", |summary| expect_session(summary, LEGACY));
}

#[test]
fn typescript_discovers_the_modern_era_by_itself() {
    in_mode(Sdk::TypeScript, "session", "auto", |summary| expect_session(summary, MODERN));
}

#[test]
fn typescript_speaks_a_pinned_modern_era() {
    in_mode(Sdk::TypeScript, "session", MODERN, |summary| expect_session(summary, MODERN));
}

/// Everything that a session of the demo services must show.
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
        assert!(tools.contains(&tool), "`{tool}` is not offered: {tools:?}");
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
    assert_eq!(bad_argument["is_error"], true, "bad arguments fail in band: {bad_argument}");
}

/// The sum stands in the structured content and, as JSON, in a text block beside it.
fn expect_add(add: &Value) {
    assert_eq!(add["is_error"], false, "{add}");
    let text = add["text"][0].as_str().expect("the sum is told as text too");
    let from_text: Value = serde_json::from_str(text).expect("the text is JSON");
    for told in [&add["structured"], &from_text] {
        assert_eq!(told["sum"].as_f64(), Some(42.0), "{add}");
    }
}

/// Progress grows strictly and never passes its total. How much of it is heard is the client's
/// business: the TypeScript client drops what arrives together with the result.
fn expect_slow(slow: &Value) {
    assert_eq!(slow["is_error"], false, "{slow}");
    let reports: Vec<(f64, f64)> =
        serde_json::from_value(slow["progress"].clone()).expect("progress is a list of pairs");
    assert!(!reports.is_empty(), "{slow}");
    assert!(reports.windows(2).all(|pair| pair[0].0 < pair[1].0), "{slow}");
    assert!(reports.iter().all(|&(done, total)| done <= total), "{slow}");
}
