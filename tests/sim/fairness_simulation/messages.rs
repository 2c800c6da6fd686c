//! Messages of all clients.

use corelane::Transport;
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

use crate::feature_simulation::messages;
use crate::http_simulation::client::http_requests::{RequestStyle, http_request};

/// The dialect of a message, and the session that it belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Envelope<'a> {
    Modern,
    /// `None` for `initialize`, and over TCP.
    Legacy(Option<&'a str>),
    /// `None` for a handshake, and over TCP.
    Parity(Option<&'a str>),
}

/// Encodes a message for a transport, with the token of its client.
pub(crate) fn encode(
    mut message: Value,
    transport: Transport,
    envelope: Envelope<'_>,
    token: Option<&str>,
) -> Vec<u8> {
    if transport == Transport::Tcp {
        if let Some(token) = token {
            match envelope {
                Envelope::Parity(_) => message["auth_token"] = json!(token),
                Envelope::Modern | Envelope::Legacy(_) => {
                    message["params"]["_meta"]["auth_token"] = json!(token);
                }
            }
        }
        return format!("{message}\n").into();
    }
    let authorization = token.map(|token| format!("Bearer {token}"));
    let mut fields: Vec<(&str, &str)> = Vec::new();
    fields.extend(authorization.as_deref().map(|text| ("Authorization", text)));
    let method = message["method"].as_str().unwrap_or_default();
    let path = match envelope {
        Envelope::Modern => {
            fields.push(("MCP-Protocol-Version", Revision::LATEST.as_str()));
            fields.push(("Mcp-Method", method));
            fields.extend(message["params"]["name"].as_str().map(|name| ("Mcp-Name", name)));
            "/mcp"
        }
        Envelope::Legacy(session) => {
            fields.push(("MCP-Protocol-Version", Revision::LATEST_LEGACY.as_str()));
            fields.extend(session.map(|id| ("Mcp-Session-Id", id)));
            "/mcp"
        }
        Envelope::Parity(session) => {
            fields.extend(session.map(|id| ("Mcp-Session-Id", id)));
            "/parity"
        }
    };
    http_request("POST", path, &fields, Some(&message.to_string()), RequestStyle::default())
}

/// `initialize` of the last legacy revision.
pub(crate) fn initialize() -> Value {
    messages::initialize(0, Revision::LATEST_LEGACY)
}

/// `notifications/initialized`.
pub(crate) fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized", "params": {}})
}

/// A modern request.
pub(crate) fn modern(id: u64, method: &str, params: Value) -> Value {
    messages::request(id, method, params, Revision::LATEST)
}

/// A legacy request.
pub(crate) fn legacy(id: u64, method: &str, params: Value) -> Value {
    messages::request(id, method, params, Revision::LATEST_LEGACY)
}

/// A handshake of the parity dialect.
pub(crate) fn handshake() -> Value {
    let client = json!({"name": "sim", "version": "1"});
    let capabilities = json!({"tools": true});
    json!({
        "type": "handshake",
        "protocolVersion": "1.0",
        "capabilities": capabilities,
        "clientInfo": client,
    })
}

/// A request of the parity dialect.
pub(crate) fn parity(id: u64, method: &str, params: &Value) -> Value {
    json!({"type": "request", "id": id, "method": method, "params": params})
}

/// The params of a call of the tool `echo`.
pub(crate) fn echo(text: &str) -> Value {
    json!({"name": "echo", "arguments": {"text": text}})
}

/// The params of a call of the tool `wait`.
pub(crate) fn wait() -> Value {
    json!({"name": "wait", "arguments": {}})
}

/// The params of a call of the tool `task`, which ends at once unless it `waits`.
pub(crate) fn task(waits: bool) -> Value {
    json!({"name": "task", "arguments": {"waits": waits}})
}

/// The params of a stream about so many resources, whose names are of so many bytes and have a
/// number of their own.
pub(crate) fn listen(names: usize, bytes: usize, number: u64) -> Value {
    let name = |index| format!("note://{number}-{index}-{}", "n".repeat(bytes));
    let names: Vec<String> = (0..names).map(name).collect();
    json!({"notifications": {"toolsListChanged": true, "resourceSubscriptions": names}})
}
