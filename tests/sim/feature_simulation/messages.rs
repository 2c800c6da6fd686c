//! Messages of clients that use client requests, tasks and subscriptions.
//!
//! They declare every client capability, so that no tool refuses them.

use corelane_base::random::Random;
use corelane_protocol::revision::Revision;
use serde_json::{Map, Value, json};

/// `initialize` with all client capabilities.
pub(crate) fn initialize(id: u64, revision: Revision) -> Value {
    let params = json!({
        "protocolVersion": revision.as_str(),
        "capabilities": {"elicitation": {}, "roots": {}, "sampling": {}},
        "clientInfo": {"name": "sim", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params})
}

/// A request in the form of its revision.
pub(crate) fn request(id: u64, method: &str, mut params: Value, revision: Revision) -> Value {
    if revision.is_modern() {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": revision.as_str(),
            "io.modelcontextprotocol/clientCapabilities": {
                "elicitation": {},
                "roots": {},
                "sampling": {},
                "extensions": {"io.modelcontextprotocol/tasks": {}},
            },
        });
    }
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// `notifications/cancelled`.
pub(crate) fn cancelled(id: u64) -> Value {
    let params = json!({"requestId": id});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

/// How a client responds to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ReplyKind {
    /// With what was requested.
    Accept,
    /// With an invalid result.
    Invalid,
    /// By declining, or with an error.
    Decline,
}

/// The result for a client request, in which every requested text is `word`.
pub(crate) fn client_result(question: &Value, reply: ReplyKind, word: &str) -> Value {
    if reply == ReplyKind::Invalid {
        return json!({"nonsense": 7});
    }
    match question["method"].as_str() {
        Some("elicitation/create") if reply == ReplyKind::Decline => json!({"action": "decline"}),
        Some("elicitation/create") => {
            let properties = question["params"]["requestedSchema"]["properties"].as_object();
            let properties = properties.into_iter().flatten();
            let content: Map<String, Value> = properties
                .map(|(name, property)| {
                    let is_text = property["type"] == "string";
                    (name.clone(), if is_text { json!(word) } else { json!(true) })
                })
                .collect();
            json!({"action": "accept", "content": content})
        }
        Some("roots/list") => json!({"roots": [{"uri": "file:///a"}]}),
        _ => json!({
            "role": "assistant",
            "content": {"type": "text", "text": "good day"},
            "model": "none",
        }),
    }
}

/// Returns whether a client request asks for a text, which the result of the call then contains.
pub(crate) fn requests_text(question: &Value) -> bool {
    let properties = &question["params"]["requestedSchema"]["properties"];
    properties
        .as_object()
        .is_some_and(|properties| properties.values().any(|property| property["type"] == "string"))
}

/// The response to a client request.
pub(crate) fn client_response(question: &Value, reply: ReplyKind, word: &str) -> Value {
    let id = &question["id"];
    if reply == ReplyKind::Decline && question["method"] != "elicitation/create" {
        let error = json!({"code": -1, "message": "no"});
        return json!({"jsonrpc": "2.0", "id": id, "error": error});
    }
    json!({"jsonrpc": "2.0", "id": id, "result": client_result(question, reply, word)})
}

/// The `inputResponses` to all `inputRequests`, by key.
pub(crate) fn input_responses(questions: &Value, reply: ReplyKind, word: &str) -> Value {
    let questions = questions.as_object().into_iter().flatten();
    let answers = questions.map(|(key, asked)| (key.clone(), client_result(asked, reply, word)));
    Value::Object(answers.collect())
}

/// Draws the filter of a subscription stream that includes `tasks`.
pub(crate) fn draw_filter(random: &mut Random, tasks: &[&String]) -> Value {
    let mut filter = json!({});
    for key in ["toolsListChanged", "promptsListChanged", "resourcesListChanged"] {
        if random.chance(2, 3) {
            filter[key] = json!(true);
        }
    }
    if random.chance(2, 3) {
        filter["resourceSubscriptions"] = json!(RESOURCES[..=random.below(2)]);
    }
    if !tasks.is_empty() {
        filter["taskIds"] = json!(tasks);
    }
    filter
}

/// Resources that can be subscribed to.
pub(crate) const RESOURCES: [&str; 2] = ["test://watched-resource", "test://static-text"];
