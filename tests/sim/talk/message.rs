//! The texts that simulated clients write.
//!
//! A text is complete but for its terminator. What it will be answered with is the business of
//! [`crate::talk::conversation`].

use corelane::protocol::revision::Revision;
use serde_json::{Value, json};

/// `initialize` for a legacy revision.
pub(crate) fn initialize(id: &Value, revision: Revision) -> String {
    let params = json!({
        "protocolVersion": revision.as_str(),
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "sim", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}).to_string()
}

/// A notification without params.
pub(crate) fn notification(method: &str) -> String {
    json!({"jsonrpc": "2.0", "method": method}).to_string()
}

/// `notifications/cancelled` for a request.
pub(crate) fn cancelled(id: &Value) -> String {
    let params = json!({"requestId": id, "reason": "not wanted any more"});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
}

/// A request in the words of its revision.
pub(crate) fn request(id: &Value, method: &str, params: Value, revision: Revision) -> String {
    let params = with_meta(params, revision);
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// `tools/call`, with a progress token where one is given.
pub(crate) fn call(
    id: &Value,
    tool: &str,
    arguments: &Value,
    token: Option<&Value>,
    revision: Revision,
) -> String {
    let mut params = json!({"name": tool, "arguments": arguments});
    if let Some(token) = token {
        params["_meta"] = json!({"progressToken": token});
    }
    request(id, "tools/call", params, revision)
}

/// Adds what every modern request says of itself.
fn with_meta(mut params: Value, revision: Revision) -> Value {
    if revision.is_modern() {
        if params.get("_meta").is_none() {
            params["_meta"] = json!({});
        }
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(revision.as_str());
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({"roots": {}});
    }
    params
}
