//! JSON-RPC messages of simulated clients, without terminators.

use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

/// `initialize` of a legacy revision.
pub(crate) fn initialize(id: &Value, revision: Revision) -> String {
    let params = json!({
        "protocolVersion": revision.as_str(),
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "sim", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params}).to_string()
}

/// A notification without `params`.
pub(crate) fn notification(method: &str) -> String {
    json!({"jsonrpc": "2.0", "method": method}).to_string()
}

/// `notifications/cancelled`.
pub(crate) fn cancelled(id: &Value) -> String {
    let params = json!({"requestId": id, "reason": "not wanted any more"});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).to_string()
}

/// A request in the form of its revision.
pub(crate) fn request(id: &Value, method: &str, params: Value, revision: Revision) -> String {
    let params = with_meta(params, revision);
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// `tools/call`, with a progress token if given.
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

/// Adds the `_meta` that modern revisions require.
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
