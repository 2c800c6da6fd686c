//! HTTP exchanges of the clients: session id, resumed SSE stream, deleted session.

use serde_json::Value;

use crate::interop::sdk::{Era, Sdk, Transport, run, text};

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_resumes_sse_stream_and_deletes_session() {
    expect_resumption(Sdk::Python);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_modern_call_has_no_session() {
    expect_no_session(Sdk::Python);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn rust_resumes_sse_stream_and_deletes_session() {
    expect_resumption(Sdk::Rust);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn rust_modern_call_has_no_session() {
    expect_no_session(Sdk::Rust);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_resumes_sse_stream_and_deletes_session() {
    expect_resumption(Sdk::TypeScript);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_modern_call_has_no_session() {
    expect_no_session(Sdk::TypeScript);
}

fn expect_resumption(sdk: Sdk) {
    let exchanges = exchanges(sdk, Era::Legacy);
    let session = &exchanges[0]["assigned_session"];
    assert!(session.is_string(), "the first response has Mcp-Session-Id: {exchanges:#?}");
    for exchange in &exchanges[1..] {
        assert_eq!(exchange["session"], *session, "{exchange:#}");
        assert!(exchange["status"].as_u64().is_some_and(|status| status < 300), "{exchange:#}");
    }
    let resumed = exchanges.iter().find(|exchange| exchange["last_event_id"].is_string());
    let resumed = resumed.unwrap_or_else(|| panic!("no stream was resumed: {exchanges:#?}"));
    assert_eq!(resumed["method"], "GET");
    assert_eq!(resumed["content_type"], "text/event-stream");
    assert_eq!(exchanges.last().expect("there are exchanges")["method"], "DELETE");
}

fn expect_no_session(sdk: Sdk) {
    for exchange in exchanges(sdk, Era::Modern) {
        assert_eq!(exchange["method"], "POST");
        assert_eq!(exchange["status"], 200);
        for absent in ["assigned_session", "session", "last_event_id"] {
            assert!(exchange[absent].is_null(), "{exchange:#}");
        }
    }
}

/// Returns the HTTP exchanges of a successful call.
fn exchanges(sdk: Sdk, era: Era) -> Vec<Value> {
    let mut summary = run(sdk, "resumption", era.mode(), Transport::Http, &[]);
    assert_eq!(text(&summary["called"]), "Reconnection test completed successfully.");
    let Value::Array(exchanges) = summary["exchanges"].take() else {
        panic!("no exchanges: {summary:#}");
    };
    exchanges
}
