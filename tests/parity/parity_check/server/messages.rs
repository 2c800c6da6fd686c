//! Messages of the scripted server.

use serde_json::{Value, json};

use super::mutation::Mutation;

pub(crate) const FLAGS: [&str; 6] =
    ["tools", "resources", "prompts", "streaming", "resume", "cancellation"];

/// The message of the error without a token.
pub(crate) const NO_TOKEN: &str = "no token";

/// Capabilities of the server.
pub(crate) fn own_capabilities() -> Value {
    json!({
        "tools": true, "resources": true, "prompts": true, "streaming": true, "resume": true,
        "cancellation": true, "maxConcurrent": 64, "maxPayloadBytes": 1_048_576,
        "resumeWindow": {"chunks": 1000, "seconds": 60},
    })
}

/// What both sides have: flags of both, and the smaller numbers.
pub(crate) fn intersect(own: &Value, other: &Value) -> Value {
    let mut shared = json!({});
    for flag in FLAGS {
        shared[flag] = json!(own[flag] == true && other[flag] == true);
    }
    for number in ["maxConcurrent", "maxPayloadBytes"] {
        let numbers = [own[number].as_u64(), other[number].as_u64()];
        if let Some(least) = numbers.into_iter().flatten().min() {
            shared[number] = json!(least);
        }
    }
    if shared["resume"] == true {
        shared["resumeWindow"] = own["resumeWindow"].clone();
    }
    shared
}

pub(crate) fn has_feature(capabilities: &Value) -> bool {
    FLAGS[..3].iter().any(|flag| capabilities[*flag] == true)
}

/// An error object.
pub(crate) fn error(code: &str, message: &str) -> Value {
    let retryable = code == "rate_limited";
    json!({"code": format!("error.{code}"), "message": message, "retryable": retryable})
}

/// The error of a message that is invalid.
pub(crate) fn invalid(mcp_code: i64, message: &str) -> Value {
    let mut error = error("internal", message);
    error["details"] = json!({"mcpCode": mcp_code});
    error
}

/// The end of a session whose client is silent.
pub(crate) fn idle_timeout() -> Value {
    let mut error = error("internal", "the session was idle for too long");
    error["retryable"] = json!(true);
    error["details"] = json!({"reason": "idle_timeout"});
    error_message(&error)
}

pub(crate) fn unknown_session() -> Value {
    let mut error = error("internal", "unknown session");
    error["retryable"] = json!(true);
    error["details"] = json!({"reason": "unknown_session"});
    error_message(&error)
}

pub(crate) fn response(id: &Value, result: &Value) -> Value {
    json!({"type": "response", "id": id, "result": result})
}

pub(crate) fn error_response(id: &Value, error: &Value) -> Value {
    json!({"type": "response", "id": id, "error": error})
}

pub(crate) fn error_message(error: &Value) -> Value {
    json!({"type": "error", "error": error})
}

/// Status of a response of HTTP with this message.
pub(crate) fn status(message: &Value, mutation: Mutation) -> u16 {
    let error = &message["error"];
    match mutation {
        Mutation::StatusAlways200 => return 200,
        Mutation::MistakesAreFailures if error["details"]["mcpCode"].is_i64() => return 500,
        Mutation::CancelledIsFailure if error["details"]["reason"] == "cancelled" => return 500,
        Mutation::RateLimitedUnavailable if error["code"] == "error.rate_limited" => return 503,
        _ => {}
    }
    match error["code"].as_str() {
        None => 200,
        Some("error.version_unsupported" | "error.feature_not_available") => 400,
        Some("error.auth.unauthorized") => 401,
        Some("error.payload_too_large") => 413,
        Some("error.already_processed") => 409,
        Some("error.rate_limited") => 429,
        Some(_) if error["details"]["reason"] == "unknown_session" => 404,
        Some(_) if error["retryable"] == false => 400,
        Some(_) => 500,
    }
}

/// The result of a method that ends at once.
pub(crate) fn result_of(method: &str, params: &Value) -> Result<Value, Value> {
    match method {
        "ping" => Ok(json!({})),
        "tools/list" => Ok(json!({"tools": [
            {"name": "slow", "inputSchema": {"type": "object"}},
            {"name": "echo", "inputSchema": {"type": "object"}},
        ]})),
        "tools/call" if params["name"] == "echo" => {
            Ok(json!({"content": [{"type": "text", "text": "echo"}]}))
        }
        "tools/call" => Err(invalid(-32602, "no such tool")),
        "resources/list" => Ok(json!({"resources": [{"uri": "test:a", "name": "a"}]})),
        "prompts/list" => Ok(json!({"prompts": [{"name": "p"}]})),
        _ => Err(error("feature_not_available", "no such method")),
    }
}

/// The capability that a method needs.
pub(crate) fn feature_of(method: &str) -> Option<&'static str> {
    FLAGS[..3].iter().copied().find(|flag| method.starts_with(&format!("{flag}/")))
}
