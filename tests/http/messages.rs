//! Messages as clients write them.

use serde_json::{Value, json};

/// The newest revision with a handshake.
pub(crate) const LEGACY: &str = "2025-11-25";

/// The revision with batches.
pub(crate) const BATCHED: &str = "2025-03-26";

/// The revision without a handshake.
pub(crate) const MODERN: &str = "2026-07-28";

/// The revisions that have sessions over HTTP.
pub(crate) const WITH_SESSIONS: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];

/// A request.
#[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    let id = id.into();
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A request without params.
pub(crate) fn bare(id: impl Into<Value>, method: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method})
}

/// A notification without params.
pub(crate) fn notification(method: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": method})
}

/// `initialize` of a client that can be asked by forms.
pub(crate) fn initialize(id: impl Into<Value>, revision: &str) -> Value {
    let client = json!({"name": "http", "version": "1"});
    let capabilities = json!({"elicitation": {}});
    let params =
        json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client});
    request(id, "initialize", params)
}

/// `tools/call`.
#[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
pub(crate) fn call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    request(id, "tools/call", json!({"name": tool, "arguments": arguments}))
}

/// `tools/call` of `echo`.
pub(crate) fn echo(id: impl Into<Value>, message: &str) -> Value {
    call(id, "echo", json!({"message": message}))
}

/// The same request by a client that wants to hear of its progress.
pub(crate) fn with_progress(mut request: Value) -> Value {
    request["params"]["_meta"]["progressToken"] = json!("token");
    request
}

/// The same request with the `_meta` of a modern one.
pub(crate) fn modern(mut request: Value) -> Value {
    let meta = &mut request["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    meta["io.modelcontextprotocol/clientInfo"] = json!({"name": "http", "version": "1"});
    request
}

/// `subscriptions/listen`.
#[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
pub(crate) fn listen(id: impl Into<Value>, wish: Value) -> Value {
    modern(request(id, "subscriptions/listen", json!({"notifications": wish})))
}

/// `notifications/cancelled`.
pub(crate) fn cancelled(id: impl Into<Value>) -> Value {
    let params = json!({"requestId": id.into(), "reason": "changed my mind"});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

/// What a tool said.
pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

/// The answer must be an error with this code and this id; `None` where none could be read.
#[expect(clippy::needless_pass_by_value, reason = "a literal stands in most calls")]
pub(crate) fn expect_error(answer: &Value, code: i64, id: Option<Value>) {
    assert_eq!(answer["error"]["code"], code, "{answer}");
    assert!(answer["error"]["message"].as_str().is_some_and(|text| !text.is_empty()), "{answer}");
    assert_eq!(answer.get("id"), id.as_ref(), "{answer}");
    assert!(answer.get("result").is_none(), "{answer}");
}
