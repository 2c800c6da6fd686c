//! Checks that a message of the server conforms to the MCP schema of a protocol version.
//!
//! Three checks: the members of the JSON-RPC envelope; the `rust-mcp-schema` types of the version;
//! and, where `MCP_SCHEMA_DIR` names a directory of the official `schema.json` files, validation
//! against them. The definition is chosen as in the official conformance suite.
//!
//! Properties across messages (order, monotonic progress, one response per request) are not
//! checked.

mod tasks_extension;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use jsonschema::{Draft, Validator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use self::tasks_extension::ExtensionValue;

/// Checks one message of the server. `request_method` is the method of the request that a
/// response belongs to; without it a result is checked against `Result` only.
///
/// # Errors
///
/// The reason with the check that failed.
///
/// # Panics
///
/// For an unknown protocol version, and if `MCP_SCHEMA_DIR` has no schema for it.
pub fn check_message(
    revision: &str,
    message: &Value,
    request_method: Option<&str>,
) -> Result<(), String> {
    let is_task = revision == "2025-11-25" && message["result"]["task"].is_object();
    let request_method =
        if is_task { request_method.map(|_| CREATES_TASK) } else { request_method };
    let result = Shape::of(message).and_then(|shape| {
        let normalized = with_non_null_id(revision, message, &shape);
        check_types(revision, &normalized, &shape, request_method)?;
        check_schema(revision, &normalized, &shape, request_method)
    });
    result.map_err(|reason| format!("not {revision}: {reason}\n  message: {message}"))
}

/// Like [`check_message`]; panics with the reason.
#[track_caller]
pub fn expect_valid(revision: &str, message: &Value, request_method: Option<&str>) {
    check_message(revision, message, request_method).unwrap_or_else(|reason| panic!("{reason}"));
}

/// Used as the method of a request whose result is a task (2025-11-25).
const CREATES_TASK: &str = "a task";

/// The kind of a message, derived from the members of its envelope.
enum Shape<'a> {
    Request { method: &'a str },
    Notification { method: &'a str },
    Success { result: &'a Value },
    Error { code: i64 },
}

impl<'a> Shape<'a> {
    fn of(message: &'a Value) -> Result<Self, String> {
        let envelope = message.as_object().ok_or("envelope: not an object")?;
        if envelope.get("jsonrpc") != Some(&json!("2.0")) {
            return Err("envelope: `jsonrpc` is not \"2.0\"".to_owned());
        }
        let method = || envelope["method"].as_str().ok_or("envelope: `method` is not a string");
        let has = |member| envelope.contains_key(member);
        let (shape, members): (_, &[_]) = match (has("method"), has("result"), has("error")) {
            (true, false, false) if has("id") => {
                (Self::Request { method: method()? }, &["jsonrpc", "id", "method", "params"])
            }
            (true, false, false) => {
                (Self::Notification { method: method()? }, &["jsonrpc", "method", "params"])
            }
            (false, true, false) => {
                (Self::Success { result: &envelope["result"] }, &["jsonrpc", "id", "result"])
            }
            (false, false, true) => {
                let code = envelope["error"]["code"].as_i64().ok_or("envelope: no error code")?;
                (Self::Error { code }, &["jsonrpc", "id", "error"])
            }
            _ => return Err("envelope: not one of `method`, `result` and `error`".to_owned()),
        };
        match envelope.keys().find(|member| !members.contains(&member.as_str())) {
            Some(member) => Err(format!("envelope: unexpected member `{member}`")),
            None => Ok(shape),
        }
    }
}

/// Returns the message with a string instead of a null id. Up to 2025-06-18 the schemas require a
/// string or number id in every error, while JSON-RPC 2.0 (section 5) requires null for an
/// unreadable id. Later revisions omit the id.
fn with_non_null_id(revision: &str, message: &Value, shape: &Shape<'_>) -> Value {
    let mut normalized = message.clone();
    let failed = matches!(shape, Shape::Error { .. });
    if failed && revision <= "2025-06-18" && message.get("id") == Some(&Value::Null) {
        normalized["id"] = json!("unreadable");
    }
    normalized
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
    serde_json::from_value::<T>(value.clone()).map(drop).map_err(|error| format!("types: {error}"))
}

/// Defines the type check of one crate version. The rows are common to all versions;
/// `$method => $result` adds those of one version.
macro_rules! types_of {
    (
        $origin:ident::$types:ident, $success:ident, $failure:ident,
        { $($method:pat => $result:ident),* }
    ) => {
        fn $types(
            message: &Value,
            shape: &Shape<'_>,
            request_method: Option<&str>,
        ) -> Result<(), String> {
            use $origin::$types as types;
            match shape {
                Shape::Request { .. } => read::<types::JsonrpcRequest>(message),
                Shape::Error { .. } => read::<types::$failure>(message),
                Shape::Notification { method } => {
                    read::<types::JsonrpcNotification>(message)?;
                    match *method {
                        "notifications/cancelled" => read::<types::CancelledNotification>(message),
                        "notifications/message" => {
                            read::<types::LoggingMessageNotification>(message)
                        }
                        "notifications/progress" => read::<types::ProgressNotification>(message),
                        _ => Ok(()),
                    }
                }
                Shape::Success { result } => {
                    read::<types::$success>(message)?;
                    // A task or an input request has a type of its own.
                    let request_method =
                        request_method.filter(|_| !is_task_or_input_request(result));
                    match request_method.unwrap_or("") {
                        "completion/complete" => read::<types::CompleteResult>(result),
                        "prompts/get" => read::<types::GetPromptResult>(result),
                        "prompts/list" => read::<types::ListPromptsResult>(result),
                        "resources/list" => read::<types::ListResourcesResult>(result),
                        "resources/read" => read::<types::ReadResourceResult>(result),
                        "resources/templates/list" => {
                            read::<types::ListResourceTemplatesResult>(result)
                        }
                        "tools/call" => read::<types::CallToolResult>(result),
                        "tools/list" => read::<types::ListToolsResult>(result),
                        $($method => read::<types::$result>(result),)*
                        _ => read::<types::Result>(result),
                    }
                }
            }
        }
    };
}

types_of!(schema_2024_11_05::mcp_2024_11_05, JsonrpcResponse, JsonrpcError, {
    "initialize" => InitializeResult
});
types_of!(schema_2025_03_26::mcp_2025_03_26, JsonrpcResponse, JsonrpcError, {
    "initialize" => InitializeResult
});
types_of!(schema_2025_06_18::mcp_2025_06_18, JsonrpcResponse, JsonrpcError, {
    "initialize" => InitializeResult
});
types_of!(schema_2025_11_25::mcp_2025_11_25, JsonrpcResultResponse, JsonrpcErrorResponse, {
    "initialize" => InitializeResult,
    "tasks/cancel" => CancelTaskResult,
    "tasks/get" => GetTaskResult,
    "tasks/list" => ListTasksResult,
    "tasks/result" => CallToolResult,
    CREATES_TASK => CreateTaskResult
});
types_of!(schema_2026_07_28::mcp_2026_07_28, JsonrpcResultResponse, JsonrpcErrorResponse, {
    "server/discover" => DiscoverResult,
    // Sent instead of the result of any method.
    "input_required" => InputRequiredResult,
    "subscriptions/listen" => SubscriptionsListenResult
});

/// Returns whether `result` is an input request or a task instead of the result itself.
fn is_task_or_input_request(result: &Value) -> bool {
    matches!(result["resultType"].as_str(), Some("input_required" | "task"))
        || (result.get("resultType").is_none() && result["task"].is_object())
}

fn check_types(
    revision: &str,
    message: &Value,
    shape: &Shape<'_>,
    request_method: Option<&str>,
) -> Result<(), String> {
    match revision {
        "2024-11-05" => mcp_2024_11_05(message, shape, request_method),
        "2025-03-26" => mcp_2025_03_26(message, shape, request_method),
        "2025-06-18" => mcp_2025_06_18(message, shape, request_method),
        "2025-11-25" => mcp_2025_11_25(message, shape, request_method),
        "2026-07-28" => {
            let result_type = message["result"]["resultType"].as_str();
            let input_required = result_type.filter(|kind| *kind == "input_required");
            mcp_2026_07_28(message, shape, input_required.or(request_method))
        }
        _ => panic!("unknown protocol version {revision}"),
    }
}

fn check_schema(
    revision: &str,
    message: &Value,
    shape: &Shape<'_>,
    request_method: Option<&str>,
) -> Result<(), String> {
    #[expect(clippy::disallowed_methods, reason = "configured by an environment variable")]
    let Ok(directory) = std::env::var("MCP_SCHEMA_DIR") else { return Ok(()) };
    OFFICIAL_SCHEMAS.with_borrow_mut(|official| {
        let schema = official
            .entry(revision.to_owned())
            .or_insert_with(|| OfficialSchema::load(&PathBuf::from(directory), revision));
        schema.validate(message, shape, request_method)
    })
}

thread_local! {
    /// Schemas by protocol version: compiling one takes longer than checking many messages.
    static OFFICIAL_SCHEMAS: RefCell<HashMap<String, OfficialSchema>> =
        RefCell::new(HashMap::new());
}

/// The official schema of one protocol version.
struct OfficialSchema {
    document: Value,
    /// Key of the definitions: `definitions` in draft 7, `$defs` in 2020-12.
    definitions_key: &'static str,
    compiled: HashMap<String, Validator>,
}

impl OfficialSchema {
    fn load(directory: &std::path::Path, revision: &str) -> Self {
        let path = directory.join(revision).join("schema.json");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; MCP_SCHEMA_DIR must hold REVISION/schema.json", path.display())
        });
        let document: Value = serde_json::from_str(&text).expect("official schema is JSON");
        let definitions_key = if document.get("$defs").is_some() { "$defs" } else { "definitions" };
        Self { document, definitions_key, compiled: HashMap::new() }
    }

    fn validate(
        &mut self,
        message: &Value,
        shape: &Shape<'_>,
        request_method: Option<&str>,
    ) -> Result<(), String> {
        match shape {
            Shape::Request { method } => {
                let known = self.definition_of(method, "Request");
                let name = known.unwrap_or("JSONRPCRequest").to_owned();
                self.validate_value(message, &name)
            }
            Shape::Notification { method } => {
                let known = self.definition_of(method, "Notification");
                let name = known.unwrap_or("JSONRPCNotification").to_owned();
                self.validate_value(message, &name)?;
                if *method != "notifications/tasks" {
                    return Ok(());
                }
                self.validate_value(&message["params"], "NotificationParams")?;
                self.validate_extension(ExtensionValue::Notification, &message["params"])
            }
            Shape::Error { code } => {
                let name = self.error_definition(*code);
                self.validate_value(message, name)
            }
            Shape::Success { result } => {
                let envelope = self.first_defined(&["JSONRPCResultResponse", "JSONRPCResponse"]);
                self.validate_value(message, envelope)?;
                let name = self.result_definition(result, request_method);
                self.validate_value(result, &name)?;
                let extended =
                    self.is_modern().then(|| ExtensionValue::of_result(result, request_method));
                match extended.flatten() {
                    Some(part) => self.validate_extension(part, result),
                    None => Ok(()),
                }
            }
        }
    }

    fn is_modern(&self) -> bool {
        self.definitions().contains_key("DiscoverRequest")
    }

    /// Checks a value of the Tasks extension against the extension's schema, and its core parts
    /// against the schema of the protocol version.
    fn validate_extension(&mut self, part: ExtensionValue, value: &Value) -> Result<(), String> {
        part.validate_value(value)?;
        for (member, definition) in [("inputRequests", "InputRequests"), ("error", "Error")] {
            if let Some(value) = value.get(member) {
                self.validate_value(value, definition)?;
            }
        }
        Ok(())
    }

    /// Returns the definition whose `method` is the constant `method`.
    fn definition_of(&self, method: &str, kind: &str) -> Option<&str> {
        let (name, _) = self.definitions().iter().find(|(name, definition)| {
            name.ends_with(kind)
                && !name.starts_with("Client")
                && definition["properties"]["method"]["const"] == method
        })?;
        Some(name)
    }

    fn error_definition(&self, code: i64) -> &'static str {
        let special = match code {
            -32020 => "HeaderMismatchError",
            -32021 => "MissingRequiredClientCapabilityError",
            -32022 => "UnsupportedProtocolVersionError",
            -32042 => "URLElicitationRequiredError",
            _ => "JSONRPCErrorResponse",
        };
        self.first_defined(&[special, "JSONRPCErrorResponse", "JSONRPCError"])
    }

    /// Returns the definition of a result, from its own members or from the request's method.
    fn result_definition(&self, result: &Value, request_method: Option<&str>) -> String {
        match result["resultType"].as_str() {
            Some("input_required") => return "InputRequiredResult".to_owned(),
            Some("task") => return "Result".to_owned(),
            None if result["task"].is_object() && !self.is_modern() => {
                return "CreateTaskResult".to_owned();
            }
            _ => {}
        }
        if request_method == Some(CREATES_TASK) {
            return "CreateTaskResult".to_owned();
        }
        let request = request_method.and_then(|method| self.definition_of(method, "Request"));
        let own = request.and_then(|name| name.strip_suffix("Request"));
        let own = own.map_or_else(|| "Result".to_owned(), |name| format!("{name}Result"));
        match own {
            own if self.definitions().contains_key(&own) => own,
            // A request without its own result definition (`ping`) has an empty result.
            _ if request.is_some() => "EmptyResult".to_owned(),
            _ => "Result".to_owned(),
        }
    }

    fn definitions(&self) -> &Map<String, Value> {
        self.document[self.definitions_key].as_object().expect("schema has definitions")
    }

    /// Returns the first of `names` that the schema defines.
    fn first_defined(&self, names: &[&'static str]) -> &'static str {
        let known = names.iter().find(|&&name| self.definitions().contains_key(name));
        known.expect("schema defines the envelope")
    }

    /// Validates a value against one definition.
    fn validate_value(&mut self, value: &Value, name: &str) -> Result<(), String> {
        if !self.compiled.contains_key(name) {
            let validator = self.compile(name);
            self.compiled.insert(name.to_owned(), validator);
        }
        let errors: Vec<String> = self.compiled[name]
            .iter_errors(value)
            .map(|error| format!("at `{}`: {error}", error.instance_path()))
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(format!("{name}: {}", errors.join("; "))) }
    }

    fn compile(&self, name: &str) -> Validator {
        let draft =
            if self.definitions_key == "$defs" { Draft::Draft202012 } else { Draft::Draft7 };
        let schema = json!({
            "$schema": self.document["$schema"],
            self.definitions_key: self.document[self.definitions_key],
            "$ref": format!("#/{}/{name}", self.definitions_key),
        });
        jsonschema::options()
            .with_draft(draft)
            .should_validate_formats(true)
            .should_ignore_unknown_formats(true)
            .build(&schema)
            .expect("official schema compiles")
    }
}
