//! The rules that each message of a server keeps by itself: those of the JSON Schemas of the
//! dialect, which its specification publishes. A broken rule names the check that reports it.

use std::sync::LazyLock;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{ValidationError, Validator};
use serde_json::{Value, json};

/// A broken rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Violation {
    /// The check that fails.
    pub check: &'static str,
    pub reason: String,
}

/// Capabilities that are on or off.
pub const FLAGS: [&str; 6] =
    ["tools", "resources", "prompts", "streaming", "resume", "cancellation"];

/// Declares the table of schemas: name and text.
macro_rules! schemas {
    ($($name:literal,)+) => {
        [$(($name, include_str!(concat!("schemas/protocol.", $name, ".schema.json"))),)+]
    };
}

/// The schemas. Each file is a link to the published one, and a copy in the package of this crate.
pub const SCHEMAS: [(&str, &str); 8] = schemas! {
    "handshake",
    "capabilities",
    "request",
    "response",
    "stream.chunk",
    "keepalive",
    "cancel",
    "error",
};

/// A type of message that a server sends.
struct MessageKind {
    /// Its `type`.
    name: &'static str,
    /// The check of a message that does not match its schema.
    check: &'static str,
    validator: Validator,
}

/// The types of messages that a server sends.
static KINDS: LazyLock<[MessageKind; 6]> = LazyLock::new(|| {
    [
        MessageKind::new("handshakeAck", "handshake", "handshake.ack_schema"),
        MessageKind::new("capabilitiesAck", "capabilities", "capabilities.ack_schema"),
        MessageKind::new("response", "response", "requests.response_schema"),
        MessageKind::new("stream.chunk", "stream.chunk", "streams.chunk_schema"),
        MessageKind::new("keepalive", "keepalive", "keepalive.hint"),
        MessageKind::new("error", "error", "errors.schema"),
    ]
});

impl MessageKind {
    /// Creates the type `name`, whose schema is part of `file`.
    fn new(name: &'static str, file: &str, check: &'static str) -> Self {
        let mut schema = schema(file);
        if let Some(members) = schema.as_object_mut().filter(|_| name != file) {
            // The file also has the message of the client, which no error is about.
            members.remove("oneOf");
            members.insert("$ref".to_owned(), json!(format!("#/$defs/{name}")));
        }
        let validator = jsonschema::draft202012::new(&schema).expect("a published schema is valid");
        Self { name, check, validator }
    }

    /// Returns the check that reports an error of the schema, or `None` if another rule does.
    fn check_of(&self, message: &Value, error: &ValidationError<'_>) -> Option<&'static str> {
        let path = error.instance_path().as_str();
        let error_path = match self.name {
            "stream.chunk" if message["chunkType"] == "error" => "/data",
            _ => "/error",
        };
        match (self.name, path, error.kind().keyword()) {
            // The order of messages has these rules.
            ("response", "", "oneOf") | ("stream.chunk", "/seq", "minimum") => None,
            ("handshakeAck", "", "required") if is_conditional(error) => {
                Some("resume.stale_advice")
            }
            _ if path.starts_with("/capabilities/") => Some("capabilities.ack_schema"),
            _ => match (path.strip_prefix(error_path), message.pointer(error_path)) {
                (Some(path), Some(object)) => check_of_error(object, path, error),
                _ => Some(self.check),
            },
        }
    }
}

/// Returns the check that reports an error at `path` of an error object, or `None` if it follows
/// from another one.
fn check_of_error(object: &Value, path: &str, error: &ValidationError<'_>) -> Option<&'static str> {
    let has_code = object["code"].is_string();
    match (path, error.kind().keyword()) {
        // Conditions on the code hold without one, too.
        _ if is_conditional(error) && !has_code => None,
        ("", "required") if is_conditional(error) => Some("limits.retry_after"),
        ("/retryable", "const") => object["retryable"].is_boolean().then_some("errors.retryable"),
        ("/code", "enum") if has_code => Some("errors.codes"),
        _ => Some("errors.schema"),
    }
}

/// Returns whether the broken part of the schema depends on another member.
fn is_conditional(error: &ValidationError<'_>) -> bool {
    error.schema_path().as_str().contains("/then/")
}

/// Returns the rules that a message breaks.
pub fn check_message(message: &Value) -> Vec<Violation> {
    let check = "requests.response_schema";
    if !message.is_object() {
        return vec![Violation { check, reason: format!("not an object: {message}") }];
    }
    let Some(kind) = KINDS.iter().find(|kind| message["type"] == kind.name) else {
        let reason = format!("`type` is not one of a server: {message}");
        return vec![Violation { check, reason }];
    };
    let violation = |error: ValidationError<'_>| {
        let (check, path) = (kind.check_of(message, &error)?, error.instance_path());
        let reason = format!("{}{path}: {}", kind.name, describe(&error));
        Some(Violation { check, reason })
    };
    kind.validator.iter_errors(message).filter_map(violation).collect()
}

/// Returns what is wrong; of alternatives, what is wrong with each.
fn describe(error: &ValidationError<'_>) -> String {
    match error.kind() {
        ValidationErrorKind::OneOfNotValid { context } => {
            let parts: Vec<String> = context.iter().flatten().map(ToString::to_string).collect();
            parts.join(", and ")
        }
        _ => error.to_string(),
    }
}

/// Returns whether the table of errors has a code.
pub fn is_error_code(code: &str) -> bool {
    let schema = schema("error");
    let codes = schema["$defs"]["error"]["properties"]["code"]["enum"].as_array();
    codes.is_some_and(|codes| codes.iter().any(|known| known == code))
}

fn schema(name: &str) -> Value {
    let found = SCHEMAS.iter().find(|(known, _)| *known == name);
    let text = found.map_or("null", |(_, text)| *text);
    serde_json::from_str(text).expect("a published schema is JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(message: &Value) -> Vec<&'static str> {
        check_message(message).into_iter().map(|violation| violation.check).collect()
    }

    #[test]
    fn broken_rule_names_its_check() {
        let error = json!({"code": "error.internal", "message": "m", "retryable": true});
        let wrong = |name: &str, value: Value| {
            let mut wrong = error.clone();
            wrong[name] = value;
            json!({"type": "response", "id": 1, "error": wrong})
        };
        assert!(broken(&json!({"type": "error", "error": error})).is_empty());
        assert_eq!(broken(&wrong("code", json!("error.other"))), ["errors.codes"]);
        assert_eq!(broken(&wrong("retryable", json!("no"))), ["errors.schema"]);
        assert_eq!(broken(&wrong("code", json!("error.payload_too_large"))), ["errors.retryable"]);
        assert_eq!(broken(&wrong("code", json!("error.rate_limited"))), ["limits.retry_after"]);
        let keepalive = json!({"type": "keepalive", "timeoutHintSec": 0});
        assert_eq!(broken(&keepalive), ["keepalive.hint"]);
        assert_eq!(
            broken(&json!({"type": "response", "id": 1.5, "result": {}})),
            ["requests.response_schema"]
        );
        let chunk = json!({"type": "stream.chunk", "streamId": "s", "seq": 1, "chunkType": "eos"});
        assert_eq!(broken(&chunk), ["streams.chunk_schema"]);
        assert_eq!(broken(&json!({"type": "request"})), ["requests.response_schema"]);
    }

    #[test]
    fn part_of_schema_with_own_check_names_it() {
        let error = json!({"message": "m", "retryable": "yes"});
        assert_eq!(broken(&json!({"type": "error", "error": error})), ["errors.schema"; 2]);
        let ack = json!({
            "type": "handshakeAck", "protocolVersion": "1.0", "sessionId": "s",
            "capabilities": {"tools": 1}, "serverInfo": {"name": "n", "version": "1"},
        });
        assert_eq!(broken(&ack), ["capabilities.ack_schema"]);
        let mut restarted = ack.clone();
        restarted["capabilities"] = json!({});
        restarted["resumed"] = json!(false);
        assert_eq!(broken(&restarted), ["resume.stale_advice"; 2]);
        let mut failed = json!({
            "type": "stream.chunk", "streamId": "s", "seq": 1, "chunkType": "error", "data": {},
        });
        assert_eq!(broken(&failed), ["errors.schema"; 3]);
        failed["data"] = json!({"code": "error.none", "message": "m", "retryable": false});
        assert_eq!(broken(&failed), ["errors.codes"]);
    }

    #[test]
    fn rule_of_order_is_no_rule_of_message() {
        let chunk = json!({
            "type": "stream.chunk", "streamId": "s", "seq": 0, "chunkType": "log", "data": 1,
        });
        assert!(broken(&chunk).is_empty());
        assert!(broken(&json!({"type": "response", "id": 1})).is_empty());
    }

    #[test]
    fn code_is_one_of_table() {
        assert!(is_error_code("error.internal"));
        assert!(!is_error_code("error.other"));
    }
}
