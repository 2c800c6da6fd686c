//! What clients say that are asked, keep tasks and listen, and how they answer questions.
//!
//! They declare everything that a client can do, so that no tool refuses them.

use corelane::base::random::Random;
use corelane::protocol::revision::Revision;
use serde_json::{Map, Value, json};

/// `initialize` of a client that can be asked anything.
pub(crate) fn initialize(id: u64, revision: Revision) -> Value {
    let params = json!({
        "protocolVersion": revision.as_str(),
        "capabilities": {"elicitation": {}, "roots": {}, "sampling": {}},
        "clientInfo": {"name": "sim", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": params})
}

/// A request in the words of its revision.
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

/// `notifications/cancelled` for a request.
pub(crate) fn cancelled(id: u64) -> Value {
    let params = json!({"requestId": id});
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
}

/// How a question is answered.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Manner {
    /// With what was asked for.
    Well,
    /// With what is no answer.
    Badly,
    /// With a refusal: a user who declines, an error.
    No,
}

/// The result that answers a question, in which every text that is asked for is `word`.
pub(crate) fn answer(question: &Value, manner: Manner, word: &str) -> Value {
    if manner == Manner::Badly {
        return json!({"nonsense": 7});
    }
    match question["method"].as_str() {
        Some("elicitation/create") if manner == Manner::No => json!({"action": "decline"}),
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

/// Whether the text of a question's answer comes back in the result of the call that asked.
pub(crate) fn asks_for_a_word(question: &Value) -> bool {
    let properties = &question["params"]["requestedSchema"]["properties"];
    properties
        .as_object()
        .is_some_and(|properties| properties.values().any(|property| property["type"] == "string"))
}

/// The response to a question of the server's.
pub(crate) fn response(question: &Value, manner: Manner, word: &str) -> Value {
    let id = &question["id"];
    if manner == Manner::No && question["method"] != "elicitation/create" {
        let error = json!({"code": -1, "message": "no"});
        return json!({"jsonrpc": "2.0", "id": id, "error": error});
    }
    json!({"jsonrpc": "2.0", "id": id, "result": answer(question, manner, word)})
}

/// The answers to all questions of a round, by their keys.
pub(crate) fn answers(questions: &Value, manner: Manner, word: &str) -> Value {
    let questions = questions.as_object().into_iter().flatten();
    let answers = questions.map(|(key, asked)| (key.clone(), answer(asked, manner, word)));
    Value::Object(answers.collect())
}

/// What somebody wants to hear of on a stream, these tasks included.
pub(crate) fn wish(random: &mut Random, tasks: &[&String]) -> Value {
    let mut wish = json!({});
    for key in ["toolsListChanged", "promptsListChanged", "resourcesListChanged"] {
        if random.chance(2, 3) {
            wish[key] = json!(true);
        }
    }
    if random.chance(2, 3) {
        wish["resourceSubscriptions"] = json!(RESOURCES[..=random.below(2)]);
    }
    if !tasks.is_empty() {
        wish["taskIds"] = json!(tasks);
    }
    wish
}

/// What can be subscribed to.
pub(crate) const RESOURCES: [&str; 2] = ["test://watched-resource", "test://static-text"];
