//! JSON-RPC messages that clients send, and checks of responses.

use serde_json::{Value, json};

/// Every revision, oldest first.
pub const REVISIONS: [&str; 5] =
    ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// The revisions with a handshake, oldest first.
pub const LEGACY_REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// The newest revision with a handshake.
pub const LEGACY: &str = "2025-11-25";

/// The revision with batches.
pub const BATCHED: &str = "2025-03-26";

/// The revision without a handshake.
pub const MODERN: &str = "2026-07-28";

/// The revisions with sessions over HTTP.
pub const SESSION_REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// Builds a request.
#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let id = id.into();
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Builds a request without `params`.
pub fn request_without_params(id: impl Into<Value>, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method})
}

/// Builds a notification without `params`.
pub fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

/// `initialize` of a client without capabilities.
pub fn initialize(id: impl Into<Value>, revision: &str) -> Value {
    let client = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": client});
    request(id, "initialize", params)
}

/// `initialize` of a client with the elicitation capability.
pub fn initialize_with_elicitation(id: impl Into<Value>, revision: &str) -> Value {
    let mut request = initialize(id, revision);
    request["params"]["capabilities"] = json!({"elicitation": {}});
    request
}

/// `tools/call`.
#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
pub fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

/// `tools/call` of `echo`.
pub fn echo(id: impl Into<Value>, message: &str) -> Value {
    call(id, "echo", json!({"message": message}))
}

/// `tools/call` of `slow` that takes longer than any test.
pub fn endless(id: impl Into<Value>) -> Value {
    call(id, "slow", json!({"steps": 1000, "step_ms": 60_000}))
}

/// `subscriptions/listen`.
#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
pub fn listen(id: impl Into<Value>, filter: Value) -> Value {
    modern(request(id, "subscriptions/listen", json!({"notifications": filter})))
}

/// `notifications/cancelled`.
pub fn cancelled(id: impl Into<Value>) -> Value {
    let params = json!({"requestId": id.into(), "reason": "changed my mind"});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

/// Adds a progress token to a request.
pub fn with_progress(mut request: Value) -> Value {
    request["params"]["_meta"]["progressToken"] = json!("token");
    request
}

/// Adds the `_meta` of a modern request.
pub fn modern(mut request: Value) -> Value {
    add_modern_meta(&mut request["params"]["_meta"], MODERN);
    request
}

/// Returns the `_meta` of a modern request in this revision.
pub fn modern_meta(revision: &str) -> Value {
    let mut meta = Value::Null;
    add_modern_meta(&mut meta, revision);
    meta
}

fn add_modern_meta(meta: &mut Value, revision: &str) {
    meta["io.modelcontextprotocol/protocolVersion"] = json!(revision);
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "test", "version": "1"});
}

/// Joins messages to lines.
pub fn join_lines(messages: impl IntoIterator<Item = Value>) -> String {
    messages.into_iter().fold(String::new(), |lines, message| lines + &message.to_string() + "\n")
}

/// Returns the text of a tool result.
#[track_caller]
pub fn result_text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"))
}

/// Asserts an error with this code and id; `None` expects no id.
#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
#[track_caller]
pub fn expect_error(response: &Value, code: i64, id: Option<Value>) {
    assert_eq!(response["error"]["code"], code, "{response}");
    assert!(
        response["error"]["message"].as_str().is_some_and(|text| !text.is_empty()),
        "{response}"
    );
    assert_eq!(response.get("id"), id.as_ref(), "{response}");
    assert!(response.get("result").is_none(), "{response}");
}
