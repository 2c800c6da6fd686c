//! The JSON Schemas of the parity dialect: the examples of its specification are valid, wrong
//! messages are not, and its transitions are those of the code.

#![expect(clippy::unwrap_used, reason = "files of the repository")]

use std::fs;
use std::path::{Path, PathBuf};

use corelane_parity::machine::{State, TRANSITIONS};
use jsonschema::Validator;
use serde_json::{Value, json};

/// Types of messages with the schema that holds each.
pub(crate) const TYPES: [(&str, &str); 10] = [
    ("handshake", "handshake"),
    ("handshakeAck", "handshake"),
    ("capabilities", "capabilities"),
    ("capabilitiesAck", "capabilities"),
    ("request", "request"),
    ("response", "response"),
    ("stream.chunk", "stream.chunk"),
    ("keepalive", "keepalive"),
    ("cancel", "cancel"),
    ("error", "error"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/parity")
}

fn schema(name: &str) -> Value {
    let path = folder().join(format!("protocol.{name}.schema.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn validator(name: &str) -> Validator {
    jsonschema::draft202012::new(&schema(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns whether a message matches the schema of its type.
fn is_valid(message: &Value) -> bool {
    let name = TYPES.iter().find(|(kind, _)| message["type"] == *kind);
    name.is_some_and(|(_, name)| validator(name).is_valid(message))
}

/// The messages of the examples of the specification.
fn examples() -> Vec<Value> {
    let text = fs::read_to_string(folder().join("README.md")).unwrap();
    let mut is_code = false;
    let mut messages = Vec::new();
    for line in text.lines() {
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let message = line.trim_start_matches("> ").trim_start_matches("< ");
        let message = message.trim_start_matches("data: ");
        if is_code && message.starts_with('{') {
            let parsed = serde_json::from_str(message);
            messages.push(parsed.unwrap_or_else(|error| panic!("{error}: {line}")));
        }
    }
    messages
}

/// A message of each type with every member.
fn full_messages() -> Vec<Value> {
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let capabilities = json!({
        "tools": true, "resources": true, "prompts": true, "streaming": true, "resume": true,
        "cancellation": true, "maxConcurrent": 1, "maxPayloadBytes": 1,
        "resumeWindow": {"chunks": 0, "seconds": 0},
    });
    let info = json!({"name": "n", "version": "1"});
    let error = json!({
        "code": "error.internal", "message": "m", "retryable": true, "retryAfter": 0.5,
        "details": {},
    });
    vec![
        json!({
            "type": "handshake", "protocolVersion": "1.0", "capabilities": capabilities,
            "clientInfo": info, "capabilitiesExchange": true, "auth_token": "t",
            "resumeToken": "r", "lastAckSeq": {"s": 0}, "traceparent": trace,
        }),
        json!({
            "type": "handshakeAck", "protocolVersion": "1.0", "sessionId": "s",
            "capabilities": capabilities, "serverInfo": info, "resumeToken": "r", "resumed": true,
            "streams": [{"streamId": "s", "nextSeq": 1}],
        }),
        json!({"type": "capabilities", "capabilities": capabilities}),
        json!({"type": "capabilitiesAck", "capabilities": capabilities}),
        json!({
            "type": "request", "id": "i", "method": "m", "params": {}, "stream": true,
            "idempotencyKey": "k", "auth_token": "t", "traceparent": trace,
        }),
        json!({"type": "response", "id": 1, "error": error}),
        json!({"type": "stream.chunk", "streamId": "s", "seq": 1, "chunkType": "log", "data": 1}),
        json!({"type": "keepalive", "timeoutHintSec": 1}),
        json!({"type": "cancel", "id": 1, "reason": "r"}),
        json!({"type": "error", "id": 1, "streamId": "s", "error": error}),
    ]
}

/// The members that each type cannot do without.
fn required_members(kind: &str) -> &'static [&'static str] {
    match kind {
        "handshake" => &["type", "protocolVersion", "capabilities"],
        "handshakeAck" => &["type", "protocolVersion", "sessionId", "capabilities", "serverInfo"],
        "capabilities" | "capabilitiesAck" => &["type", "capabilities"],
        "request" => &["type", "id", "method"],
        "response" => &["type", "id", "error"],
        "stream.chunk" => &["type", "streamId", "seq", "chunkType", "data"],
        "keepalive" => &["type"],
        "cancel" => &["type", "id"],
        "error" => &["type", "error"],
        _ => panic!("unknown type {kind}"),
    }
}

#[test]
fn schemas_are_valid_and_named() {
    let mut names: Vec<String> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("protocol."))
        .collect();
    names.sort();
    assert_eq!(names.len(), 8);
    for name in names {
        let name = name.strip_prefix("protocol.").unwrap();
        let schema = schema(name.strip_suffix(".schema.json").unwrap());
        assert!(jsonschema::draft202012::meta::is_valid(&schema), "{name}");
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        let id = schema["$id"].as_str().unwrap();
        assert!(id.contains(name.strip_suffix(".schema.json").unwrap()), "{id}");
    }
}

#[test]
fn examples_of_specification_are_valid() {
    let examples = examples();
    for example in &examples {
        assert!(is_valid(example), "{example}");
    }
    for (kind, _) in TYPES {
        assert!(examples.iter().any(|example| example["type"] == kind), "no example of {kind}");
    }
}

#[test]
fn message_matches_schema_of_its_type_only() {
    for message in full_messages() {
        for (kind, name) in TYPES {
            let is_own = TYPES.contains(&(message["type"].as_str().unwrap(), name));
            assert_eq!(validator(name).is_valid(&message), is_own, "{kind}: {message}");
        }
    }
}

#[test]
fn missing_required_member_is_rejected() {
    for message in full_messages() {
        for member in required_members(message["type"].as_str().unwrap()) {
            let mut wrong = message.clone();
            wrong.as_object_mut().unwrap().remove(*member).unwrap();
            let name = TYPES.iter().find(|(kind, _)| message["type"] == *kind).unwrap().1;
            assert!(!validator(name).is_valid(&wrong), "without {member}: {wrong}");
        }
    }
}

#[test]
fn member_of_wrong_type_is_rejected() {
    for message in full_messages() {
        for (member, value) in message.as_object().unwrap() {
            if message["type"] == "stream.chunk" && member == "data" {
                continue;
            }
            let mut wrong = message.clone();
            wrong[member] = if value.is_array() { json!({}) } else { json!([]) };
            assert!(!is_valid(&wrong), "{member}: {wrong}");
        }
    }
}

#[test]
fn unknown_members_are_ignored() {
    for mut message in full_messages() {
        message["extension"] = json!({"a": [1]});
        assert!(is_valid(&message), "{message}");
    }
}

#[test]
fn values_outside_of_rules_are_rejected() {
    let error = |members: &Value| {
        let mut error = json!({"code": "error.internal", "message": "m", "retryable": false});
        for (name, value) in members.as_object().unwrap() {
            error[name] = value.clone();
        }
        json!({"type": "error", "error": error})
    };
    assert!(is_valid(&error(&json!({}))));
    let wrong = [
        error(&json!({"code": "error.unknown"})),
        error(&json!({"message": ""})),
        error(&json!({"retryAfter": -1})),
        error(&json!({"code": "error.rate_limited", "retryable": true})),
        error(&json!({"code": "error.rate_limited", "retryAfter": 1})),
        error(&json!({"code": "error.payload_too_large", "retryable": true})),
        json!({"type": "response", "id": 1}),
        json!({"type": "response", "id": 1.5, "result": {}}),
        json!({"type": "response", "id": null, "result": {}}),
        json!({"type": "response", "id": 1, "result": {}, "error": error(&json!({}))["error"]}),
        json!({"type": "request", "id": "x".repeat(257), "method": "ping"}),
        json!({"type": "request", "id": 1, "method": ""}),
        json!({"type": "request", "id": 1, "method": "ping", "idempotencyKey": ""}),
        json!({"type": "request", "id": 1, "method": "ping", "idempotencyKey": "k".repeat(129)}),
        json!({"type": "stream.chunk", "streamId": "s", "seq": 0, "chunkType": "log", "data": 1}),
        json!({"type": "stream.chunk", "streamId": "s", "seq": 1, "chunkType": "other", "data": 1}),
        json!({"type": "stream.chunk", "streamId": "s", "seq": 1, "chunkType": "eos"}),
        json!({
            "type": "stream.chunk", "streamId": "s", "seq": 1, "chunkType": "eos",
            "reason": "other",
        }),
        json!({
            "type": "stream.chunk", "streamId": "s", "seq": 1, "chunkType": "error", "data": {},
        }),
        json!({"type": "cancel"}),
        json!({"type": "cancel", "id": 1, "streamId": "s"}),
        json!({"type": "keepalive", "timeoutHintSec": 0}),
        json!({"type": "capabilities", "capabilities": {"maxConcurrent": 0}}),
        json!({"type": "capabilities", "capabilities": {"tools": "yes"}}),
        json!({
            "type": "handshake", "protocolVersion": "1.0", "capabilities": {},
            "lastAckSeq": {"s": 1},
        }),
        json!({
            "type": "handshakeAck", "protocolVersion": "1.0", "sessionId": "s",
            "capabilities": {}, "serverInfo": {"name": "n", "version": "1"}, "resumed": false,
        }),
    ];
    for message in wrong {
        assert!(!is_valid(&message), "{message}");
    }
}

#[test]
fn specification_has_the_transitions_of_the_code() {
    let text = fs::read_to_string(folder().join("README.md")).unwrap();
    let (_, section) = text.split_once("\n## Transitions\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows: Vec<&str> = section.lines().filter(|line| line.starts_with("| ")).skip(2).collect();
    let written = TRANSITIONS.map(|row| {
        let from = row.from.map_or("any", State::as_str);
        format!("| {from} | {} | {} | {} |", row.event.as_str(), row.action, row.to.as_str())
    });
    assert_eq!(rows, written);
}
