//! The schemas of the dialect, for every message in both directions.

use jsonschema::Validator;
use serde_json::Value;

/// Declares the schemas: types of messages, and the name of the schema.
macro_rules! schemas {
    ($($name:literal: $types:expr,)+) => {
        [$(($types, include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"), "/docs/parity/protocol.", $name, ".schema.json"
        )))),+]
    };
}

const SCHEMAS: [(&[&str], &str); 8] = schemas! {
    "handshake": &["handshake", "handshakeAck"],
    "capabilities": &["capabilities", "capabilitiesAck"],
    "request": &["request"],
    "response": &["response"],
    "stream.chunk": &["stream.chunk"],
    "keepalive": &["keepalive"],
    "cancel": &["cancel"],
    "error": &["error"],
};

/// Types of messages that only servers send.
const OF_SERVER: [&str; 6] =
    ["handshakeAck", "capabilitiesAck", "response", "stream.chunk", "keepalive", "error"];

/// The compiled schemas.
#[derive(Debug)]
struct Schemas(Vec<(&'static [&'static str], Validator)>);

impl Schemas {
    fn compile() -> Self {
        let compile = |(types, text): (_, &str)| {
            let schema: Value = serde_json::from_str(text).expect("a schema is JSON");
            (types, jsonschema::draft202012::new(&schema).expect("a valid schema"))
        };
        Self(SCHEMAS.into_iter().map(compile).collect())
    }
}

thread_local! {
    static COMPILED: Schemas = Schemas::compile();
}

/// Checks a message of the server.
///
/// # Errors
///
/// It is not valid, or only clients send it.
pub(crate) fn check_of_server(message: &Value) -> Result<(), String> {
    let kind = message["type"].as_str().unwrap_or_default();
    if !OF_SERVER.contains(&kind) {
        return Err(format!("a server does not send {message}"));
    }
    check(message)
}

/// Checks a message.
///
/// # Errors
///
/// It does not match the schema of its type.
pub(crate) fn check(message: &Value) -> Result<(), String> {
    let kind = message["type"].as_str().unwrap_or_default();
    COMPILED.with(|Schemas(schemas)| {
        let found = schemas.iter().find(|(types, _)| types.contains(&kind));
        let (_, validator) = found.ok_or_else(|| format!("no message: {message}"))?;
        validator.validate(message).map_err(|error| format!("{error}: {message}"))
    })
}
