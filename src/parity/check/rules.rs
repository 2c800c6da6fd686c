//! The rules that each message of a server keeps by itself: those of the JSON Schemas, and the
//! table of errors. A broken rule names the check that reports it.

use serde_json::{Map, Value};

/// A broken rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Violation {
    /// The check that fails.
    pub(crate) check: &'static str,
    pub(crate) reason: String,
}

/// Codes of errors, with the value of `retryable` where the table fixes it.
pub(crate) const ERRORS: [(&str, Option<bool>); 8] = [
    ("error.version_unsupported", Some(false)),
    ("error.feature_not_available", Some(false)),
    ("error.auth.unauthorized", None),
    ("error.auth.forbidden", None),
    ("error.rate_limited", Some(true)),
    ("error.payload_too_large", Some(false)),
    ("error.already_processed", Some(false)),
    ("error.internal", None),
];

/// Capabilities that are on or off.
pub(crate) const FLAGS: [&str; 6] =
    ["tools", "resources", "prompts", "streaming", "resume", "cancellation"];

/// Values of `chunkType`.
const CHUNK_TYPES: [&str; 6] = ["progress", "log", "partial", "result", "error", "eos"];
/// Values of `reason` of an `eos`.
const EOS_REASONS: [&str; 3] = ["completed", "cancelled", "error"];
/// Bytes of an id that is a string, at most.
const ID_BYTES_MAX: usize = 256;

/// The members of one object, with what is wrong with them.
struct Members<'a> {
    check: &'static str,
    name: &'a str,
    members: &'a Map<String, Value>,
    violations: Vec<Violation>,
}

impl Members<'_> {
    fn violate(&mut self, reason: &str) {
        let reason = format!("{}: {reason}", self.name);
        self.violations.push(Violation { check: self.check, reason });
    }

    /// Checks a member with `is_valid`; `wanted` says what it must be.
    fn check(&mut self, name: &str, wanted: &str, is_valid: impl Fn(&Value) -> bool) {
        match self.members.get(name) {
            None => self.violate(&format!("`{name}` is missing")),
            Some(value) if !is_valid(value) => {
                self.violate(&format!("`{name}` must be {wanted}, not {value}"));
            }
            Some(_) => {}
        }
    }

    /// Checks a member if it is there.
    fn check_optional(&mut self, name: &str, wanted: &str, is_valid: impl Fn(&Value) -> bool) {
        if self.members.contains_key(name) {
            self.check(name, wanted, is_valid);
        }
    }
}

/// Returns the rules that a message breaks.
pub(crate) fn check_message(message: &Value) -> Vec<Violation> {
    let Some(members) = message.as_object() else {
        return vec![violation("requests.response_schema", format!("not an object: {message}"))];
    };
    let kind = message["type"].as_str().unwrap_or_default();
    let checked = |check, name, rule: fn(&mut Members<'_>)| {
        let mut object = Members { check, name, members, violations: Vec::new() };
        rule(&mut object);
        object.violations
    };
    let mut violations = match kind {
        "handshakeAck" => checked("handshake.ack_schema", kind, check_ack),
        "capabilitiesAck" => checked("capabilities.ack_schema", kind, |object| {
            object.check("capabilities", "an object", Value::is_object);
        }),
        "response" => checked("requests.response_schema", kind, check_response),
        "stream.chunk" => checked("streams.chunk_schema", kind, check_chunk),
        "keepalive" => checked("keepalive.hint", kind, |object| {
            object.check("timeoutHintSec", "an integer of 1 or more", is_positive);
        }),
        "error" => checked("errors.schema", kind, |object| {
            object.check("error", "an object", Value::is_object);
            object.check_optional("id", "a string or an integer", is_id);
            object.check_optional("streamId", "a string", is_name);
        }),
        _ => {
            let reason = format!("`type` is not one of a server: {message}");
            vec![violation("requests.response_schema", reason)]
        }
    };
    if let Some(error) = message.get("error") {
        violations.extend(check_error(error));
    }
    if kind == "stream.chunk" && message["chunkType"] == "error" {
        violations.extend(check_error(&message["data"]));
    }
    if let Some(capabilities) = message.get("capabilities").filter(|value| value.is_object()) {
        violations.extend(check_capabilities(capabilities));
    }
    violations
}

fn violation(check: &'static str, reason: String) -> Violation {
    Violation { check, reason }
}

fn check_ack(ack: &mut Members<'_>) {
    ack.check("protocolVersion", "\"1.0\"", |value| value == "1.0");
    ack.check("sessionId", "a string that is not empty", is_name);
    ack.check("capabilities", "an object", Value::is_object);
    ack.check("serverInfo", "an object with `name` and `version`", |info| {
        is_name(&info["name"]) && info["version"].is_string()
    });
    ack.check_optional("resumeToken", "a string that is not empty", is_name);
    ack.check_optional("resumed", "true or false", Value::is_boolean);
    ack.check_optional("advice", "\"restart\"", |value| value == "restart");
    ack.check_optional("reason", "a string that is not empty", is_name);
    ack.check_optional("streams", "a list of `streamId` and `nextSeq`", |streams| {
        let is_stream =
            |stream: &Value| is_name(&stream["streamId"]) && is_positive(&stream["nextSeq"]);
        streams.as_array().is_some_and(|streams| streams.iter().all(is_stream))
    });
}

fn check_response(response: &mut Members<'_>) {
    response.check("id", "a string or an integer", is_id);
    response.check_optional("result", "an object", Value::is_object);
    response.check_optional("error", "an object", Value::is_object);
}

fn check_chunk(chunk: &mut Members<'_>) {
    chunk.check("streamId", "a string that is not empty", is_name);
    chunk.check("seq", "an integer", Value::is_u64);
    chunk.check("chunkType", "one of the six", |kind| {
        kind.as_str().is_some_and(|kind| CHUNK_TYPES.contains(&kind))
    });
    if chunk.members.get("chunkType").is_some_and(|kind| kind == "eos") {
        chunk.check("reason", "completed, cancelled or error", |reason| {
            reason.as_str().is_some_and(|reason| EOS_REASONS.contains(&reason))
        });
    }
}

fn check_capabilities(capabilities: &Value) -> Vec<Violation> {
    let Some(members) = capabilities.as_object() else { return Vec::new() };
    let (check, name) = ("capabilities.ack_schema", "capabilities");
    let mut object = Members { check, name, members, violations: Vec::new() };
    for flag in FLAGS {
        object.check_optional(flag, "true or false", Value::is_boolean);
    }
    for number in ["maxConcurrent", "maxPayloadBytes"] {
        object.check_optional(number, "an integer of 1 or more", is_positive);
    }
    object.check_optional("resumeWindow", "an object with `chunks` and `seconds`", |window| {
        window["chunks"].is_u64() && window["seconds"].is_u64()
    });
    object.violations
}

/// Returns the rules that an error object breaks.
fn check_error(error: &Value) -> Vec<Violation> {
    let Some(members) = error.as_object() else {
        return vec![violation("errors.schema", format!("not an error object: {error}"))];
    };
    let (check, name) = ("errors.schema", "error");
    let mut object = Members { check, name, members, violations: Vec::new() };
    object.check("code", "a string", Value::is_string);
    object.check("message", "a string that is not empty", is_name);
    object.check("retryable", "true or false", Value::is_boolean);
    object.check_optional("details", "an object", Value::is_object);
    object.check_optional("retryAfter", "a number of seconds", |seconds| {
        seconds.as_f64().is_some_and(|seconds| seconds >= 0.0)
    });
    let mut violations = object.violations;
    let Some(code) = error["code"].as_str() else { return violations };
    match ERRORS.iter().find(|(known, _)| *known == code) {
        None => violations
            .push(violation("errors.codes", format!("`{code}` is not in the table of errors"))),
        Some((_, Some(retryable))) if error["retryable"] == !retryable => {
            let reason = format!("`{code}` must have `retryable` {retryable}");
            violations.push(violation("errors.retryable", reason));
        }
        Some(_) => {}
    }
    if code == "error.rate_limited" && error.get("retryAfter").is_none() {
        let reason = "`error.rate_limited` without `retryAfter`".to_owned();
        violations.push(violation("limits.retry_after", reason));
    }
    violations
}

fn is_name(value: &Value) -> bool {
    value.as_str().is_some_and(|text| !text.is_empty())
}

fn is_positive(value: &Value) -> bool {
    value.as_u64().is_some_and(|number| number >= 1)
}

fn is_id(value: &Value) -> bool {
    value.is_i64()
        || value.is_u64()
        || value.as_str().is_some_and(|text| text.len() <= ID_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        assert_eq!(broken(&json!({"type": "keepalive"})), ["keepalive.hint"]);
        assert_eq!(
            broken(&json!({"type": "response", "id": 1.5, "result": {}})),
            ["requests.response_schema"]
        );
        let chunk = json!({"type": "stream.chunk", "streamId": "s", "seq": 1, "chunkType": "eos"});
        assert_eq!(broken(&chunk), ["streams.chunk_schema"]);
        assert_eq!(broken(&json!({"type": "request"})), ["requests.response_schema"]);
    }
}
