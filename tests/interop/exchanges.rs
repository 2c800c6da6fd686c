//! What passes over Streamable HTTP: sessions that begin and end, and a stream that is found again.

use serde_json::{Value, json};

use crate::stage::{Era, Sdk, Transport, run, text};

#[test]
fn python_finds_its_stream_again_and_ends_its_session() {
    expect_resumption(Sdk::Python);
}

#[test]
fn python_needs_no_session_in_the_modern_era() {
    expect_nothing_kept(Sdk::Python);
}

#[test]
fn rust_finds_its_stream_again_and_ends_its_session() {
    expect_resumption(Sdk::Rust);
}

#[test]
fn rust_needs_no_session_in_the_modern_era() {
    expect_nothing_kept(Sdk::Rust);
}

#[test]
fn typescript_finds_its_stream_again_and_ends_its_session() {
    expect_resumption(Sdk::TypeScript);
}

#[test]
fn typescript_needs_no_session_in_the_modern_era() {
    expect_nothing_kept(Sdk::TypeScript);
}

fn expect_resumption(sdk: Sdk) {
    let exchanges = exchanges(sdk, Era::Legacy);
    let session = &exchanges[0]["given_session"];
    assert!(session.is_string(), "the first answer names the session: {exchanges:#?}");
    for exchange in &exchanges[1..] {
        assert_eq!(exchange["session"], *session, "{exchange:#}");
        assert!(exchange["status"].as_u64().is_some_and(|status| status < 300), "{exchange:#}");
    }
    let resumed = exchanges.iter().find(|exchange| exchange["resumes"].is_string());
    let resumed = resumed.unwrap_or_else(|| panic!("no stream was resumed: {exchanges:#?}"));
    assert_eq!((&resumed["verb"], &resumed["media"]), (&json!("GET"), &json!("text/event-stream")));
    assert_eq!(exchanges.last().expect("there is one")["verb"], "DELETE");
}

fn expect_nothing_kept(sdk: Sdk) {
    for exchange in exchanges(sdk, Era::Modern) {
        assert_eq!(exchange["verb"], "POST");
        assert_eq!(exchange["status"], 200);
        for absent in ["given_session", "session", "resumes"] {
            assert!(exchange[absent].is_null(), "{exchange:#}");
        }
    }
}

/// The exchanges of a call that ends well.
fn exchanges(sdk: Sdk, era: Era) -> Vec<Value> {
    let mut summary = run(sdk, "exchanges", era.mode(), Transport::Http, &[]);
    assert_eq!(text(&summary["called"]), "Reconnection test completed successfully.");
    let Value::Array(exchanges) = summary["exchanges"].take() else {
        panic!("no exchanges: {summary:#}");
    };
    exchanges
}
