//! JSON-RPC messages that clients send.

use serde_json::{Value, json};

/// The newest revision with a handshake.
pub(crate) const LEGACY: &str = "2025-11-25";

/// The revision with batches.
pub(crate) const BATCHED: &str = "2025-03-26";

/// The revision without a handshake.
pub(crate) const MODERN: &str = "2026-07-28";

/// The revisions with sessions over HTTP.
pub(crate) const SESSION_REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// Builds a request.
#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let id = id.into();
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Builds a request without `params`.
pub(crate) fn request_without_params(id: impl Into<Value>, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method})
}

/// Builds a notification without `params`.
pub(crate) fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

/// `initialize` of a client with the elicitation capability.
pub(crate) fn initialize(id: impl Into<Value>, revision: &str) -> Value {
    let client = json!({"name": "http", "version": "1"});
    let capabilities = json!({"elicitation": {}});
    let params =
        json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client});
    request(id, "initialize", params)
}

/// `tools/call`.
#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
pub(crate) fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

/// `tools/call` of `echo`.
pub(crate) fn echo(id: impl Into<Value>, message: &str) -> Value {
    call(id, "echo", json!({"message": message}))
}

/// Adds a progress token to a request.
pub(crate) fn with_progress(mut request: Value) -> Value {
    request["params"]["_meta"]["progressToken"] = json!("token");
    request
}

/// Adds the `_meta` of a modern request.
pub(crate) fn modern(mut request: Value) -> Value {
    let meta = &mut request["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "http", "version": "1"});
    request
}

/// `subscriptions/listen`.
#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
pub(crate) fn listen(id: impl Into<Value>, filter: Value) -> Value {
    modern(request(id, "subscriptions/listen", json!({"notifications": filter})))
}

/// `notifications/cancelled`.
pub(crate) fn cancelled(id: impl Into<Value>) -> Value {
    let params = json!({"requestId": id.into(), "reason": "changed my mind"});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

/// Returns the text of a tool result.
pub(crate) fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"))
}

/// Asserts an error with this code and id; `None` expects no id.
#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
pub(crate) fn expect_error(response: &Value, code: i64, id: Option<Value>) {
    assert_eq!(response["error"]["code"], code, "{response}");
    assert!(
        response["error"]["message"].as_str().is_some_and(|text| !text.is_empty()),
        "{response}"
    );
    assert_eq!(response.get("id"), id.as_ref(), "{response}");
    assert!(response.get("result").is_none(), "{response}");
}
