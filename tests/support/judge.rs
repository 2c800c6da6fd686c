//! The judge of every message that Corelane emits: does it fit the revision's schema?
//!
//! Three instruments, from near to far. The envelope is looked at by hand (its members, no more
//! and no fewer). The whole is read with the `rust-mcp-schema` types of the revision. And where
//! `MCP_SCHEMA_DIR` names the folder of the official `schema.json` files, it is validated against
//! them, with the definition chosen the way the official conformance suite chooses it.
//!
//! What a schema does not express is not judged here: order, monotonic progress, one answer a
//! request. Use it with `#[path = "support/judge.rs"] mod judge;`.

#[path = "extension.rs"]
mod extension;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use jsonschema::{Draft, Validator};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use self::extension::Extended;

/// Judges one message of the server's. `answers` is the method of the request that a response
/// answers, where the caller knows it; without it a result is held against `Result` only.
///
/// # Errors
///
/// What is wrong, with the instrument that found it.
///
/// # Panics
///
/// On a revision that nobody knows, and where `MCP_SCHEMA_DIR` has no schema for it.
pub(crate) fn judge(revision: &str, message: &Value, answers: Option<&str>) -> Result<(), String> {
    let is_task = revision == "2025-11-25" && message["result"]["task"].is_object();
    let answers = if is_task { answers.map(|_| CREATES_TASK) } else { answers };
    let verdict = Shape::of(message).and_then(|shape| {
        let readable = with_readable_id(revision, message, &shape);
        by_types(revision, &readable, &shape, answers)?;
        by_schema(revision, &readable, &shape, answers)
    });
    verdict.map_err(|reason| format!("not {revision}: {reason}\n  message: {message}"))
}

/// Stands for the method of a request that was answered with a task (2025-11-25).
const CREATES_TASK: &str = "a task";

/// What kind of message it is, by the members of its envelope.
enum Shape<'a> {
    Request { method: &'a str },
    Notification { method: &'a str },
    Success { result: &'a Value },
    Failure { code: i64 },
}

impl<'a> Shape<'a> {
    fn of(message: &'a Value) -> Result<Self, String> {
        let envelope = message.as_object().ok_or("envelope: not an object")?;
        if envelope.get("jsonrpc") != Some(&json!("2.0")) {
            return Err("envelope: `jsonrpc` is not \"2.0\"".to_owned());
        }
        let method = || envelope["method"].as_str().ok_or("envelope: `method` is no string");
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
                (Self::Failure { code }, &["jsonrpc", "id", "error"])
            }
            _ => return Err("envelope: not one of `method`, `result` and `error`".to_owned()),
        };
        match envelope.keys().find(|member| !members.contains(&member.as_str())) {
            Some(member) => Err(format!("envelope: foreign member `{member}`")),
            None => Ok(shape),
        }
    }
}

/// The message as the schemas can read it. Up to 2025-06-18 they ask for an id in every error and
/// know none that is null, while JSON-RPC 2.0 (section 5) demands null where the id could not be
/// read; so a null there stands in as a string. Later revisions leave the id out.
fn with_readable_id(revision: &str, message: &Value, shape: &Shape<'_>) -> Value {
    let mut readable = message.clone();
    let failed = matches!(shape, Shape::Failure { .. });
    if failed && revision <= "2025-06-18" && message.get("id") == Some(&Value::Null) {
        readable["id"] = json!("unreadable");
    }
    readable
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<(), String> {
    serde_json::from_value::<T>(value.clone()).map(drop).map_err(|error| format!("types: {error}"))
}

/// Reads messages with the types of one crate version. The rows are what all revisions share;
/// `$method => $result` adds what one has of its own.
macro_rules! types_of {
    (
        $origin:ident::$types:ident, $success:ident, $failure:ident,
        { $($method:pat => $result:ident),* }
    ) => {
        fn $types(message: &Value, shape: &Shape<'_>, answers: Option<&str>) -> Result<(), String> {
            use $origin::$types as types;
            match shape {
                Shape::Request { .. } => read::<types::JsonrpcRequest>(message),
                Shape::Failure { .. } => read::<types::$failure>(message),
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
                    // What stands in for the result that was asked for has a shape of its own.
                    let answers = answers.filter(|_| !is_in_place_of_a_result(result));
                    match answers.unwrap_or("") {
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
    // Whatever was asked for: the answer asks in return.
    "input_required" => InputRequiredResult,
    "subscriptions/listen" => SubscriptionsListenResult
});

/// Whether it is no result but a question, or a task that will have the result.
fn is_in_place_of_a_result(result: &Value) -> bool {
    matches!(result["resultType"].as_str(), Some("input_required" | "task"))
        || (result.get("resultType").is_none() && result["task"].is_object())
}

fn by_types(
    revision: &str,
    message: &Value,
    shape: &Shape<'_>,
    answers: Option<&str>,
) -> Result<(), String> {
    match revision {
        "2024-11-05" => mcp_2024_11_05(message, shape, answers),
        "2025-03-26" => mcp_2025_03_26(message, shape, answers),
        "2025-06-18" => mcp_2025_06_18(message, shape, answers),
        "2025-11-25" => mcp_2025_11_25(message, shape, answers),
        "2026-07-28" => {
            let result_type = message["result"]["resultType"].as_str();
            let asks = result_type.filter(|kind| *kind == "input_required");
            mcp_2026_07_28(message, shape, asks.or(answers))
        }
        _ => panic!("no revision is called {revision}"),
    }
}

fn by_schema(
    revision: &str,
    message: &Value,
    shape: &Shape<'_>,
    answers: Option<&str>,
) -> Result<(), String> {
    #[expect(clippy::disallowed_methods, reason = "tests find the schemas by the environment")]
    let Ok(folder) = std::env::var("MCP_SCHEMA_DIR") else { return Ok(()) };
    OFFICIAL.with_borrow_mut(|official| {
        let schema = official
            .entry(revision.to_owned())
            .or_insert_with(|| Official::load(&PathBuf::from(folder), revision));
        schema.validate(message, shape, answers)
    })
}

thread_local! {
    /// Schemas by revision: loading and compiling one takes longer than many messages do.
    static OFFICIAL: RefCell<HashMap<String, Official>> = RefCell::new(HashMap::new());
}

/// The official schema of one revision.
struct Official {
    document: Value,
    /// Where the definitions stand: `definitions` in draft 7, `$defs` in 2020-12.
    place: &'static str,
    compiled: HashMap<String, Validator>,
}

impl Official {
    fn load(folder: &std::path::Path, revision: &str) -> Self {
        let path = folder.join(revision).join("schema.json");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
            panic!("{}: {error}; MCP_SCHEMA_DIR must hold REVISION/schema.json", path.display())
        });
        let document: Value = serde_json::from_str(&text).expect("the official schema is JSON");
        let place = if document.get("$defs").is_some() { "$defs" } else { "definitions" };
        Self { document, place, compiled: HashMap::new() }
    }

    fn validate(
        &mut self,
        message: &Value,
        shape: &Shape<'_>,
        answers: Option<&str>,
    ) -> Result<(), String> {
        match shape {
            Shape::Request { method } => {
                let known = self.definition_of(method, "Request");
                let name = known.unwrap_or("JSONRPCRequest").to_owned();
                self.hold(message, &name)
            }
            Shape::Notification { method } => {
                let known = self.definition_of(method, "Notification");
                let name = known.unwrap_or("JSONRPCNotification").to_owned();
                self.hold(message, &name)?;
                if *method != "notifications/tasks" {
                    return Ok(());
                }
                self.hold(&message["params"], "NotificationParams")?;
                self.hold_extended(Extended::Told, &message["params"])
            }
            Shape::Failure { code } => {
                let name = self.failure(*code);
                self.hold(message, name)
            }
            Shape::Success { result } => {
                let envelope = self.known(&["JSONRPCResultResponse", "JSONRPCResponse"]);
                self.hold(message, envelope)?;
                let name = self.result(result, answers);
                self.hold(result, &name)?;
                let extended = self.is_modern().then(|| Extended::answering(result, answers));
                match extended.flatten() {
                    Some(part) => self.hold_extended(part, result),
                    None => Ok(()),
                }
            }
        }
    }

    fn is_modern(&self) -> bool {
        self.definitions().contains_key("DiscoverRequest")
    }

    /// Holds what a message of the Tasks extension says against the extension, and the parts that
    /// it has from the core against the schema of the revision.
    fn hold_extended(&mut self, part: Extended, value: &Value) -> Result<(), String> {
        part.hold(value)?;
        for (member, definition) in [("inputRequests", "InputRequests"), ("error", "Error")] {
            if let Some(value) = value.get(member) {
                self.hold(value, definition)?;
            }
        }
        Ok(())
    }

    /// The definition whose `method` is a constant with this text.
    fn definition_of(&self, method: &str, kind: &str) -> Option<&str> {
        let (name, _) = self.definitions().iter().find(|(name, definition)| {
            name.ends_with(kind)
                && !name.starts_with("Client")
                && definition["properties"]["method"]["const"] == method
        })?;
        Some(name)
    }

    fn failure(&self, code: i64) -> &'static str {
        let special = match code {
            -32020 => "HeaderMismatchError",
            -32021 => "MissingRequiredClientCapabilityError",
            -32022 => "UnsupportedProtocolVersionError",
            -32042 => "URLElicitationRequiredError",
            _ => "JSONRPCErrorResponse",
        };
        self.known(&[special, "JSONRPCErrorResponse", "JSONRPCError"])
    }

    /// The definition of a result: of the request that it answers, or of what it says it is.
    fn result(&self, result: &Value, answers: Option<&str>) -> String {
        match result["resultType"].as_str() {
            Some("input_required") => return "InputRequiredResult".to_owned(),
            Some("task") => return "Result".to_owned(),
            None if result["task"].is_object() && !self.is_modern() => {
                return "CreateTaskResult".to_owned();
            }
            _ => {}
        }
        if answers == Some(CREATES_TASK) {
            return "CreateTaskResult".to_owned();
        }
        let request = answers.and_then(|method| self.definition_of(method, "Request"));
        let own = request.and_then(|name| name.strip_suffix("Request"));
        let own = own.map_or_else(|| "Result".to_owned(), |name| format!("{name}Result"));
        match own {
            own if self.definitions().contains_key(&own) => own,
            // A known request without a result of its own (`ping`) is answered by an empty one.
            _ if request.is_some() => "EmptyResult".to_owned(),
            _ => "Result".to_owned(),
        }
    }

    fn definitions(&self) -> &Map<String, Value> {
        self.document[self.place].as_object().expect("the schema has definitions")
    }

    /// The first of these names that the revision has.
    fn known(&self, names: &[&'static str]) -> &'static str {
        let known = names.iter().find(|&&name| self.definitions().contains_key(name));
        known.expect("every revision defines its envelope")
    }

    /// Holds a value against one definition.
    fn hold(&mut self, value: &Value, name: &str) -> Result<(), String> {
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
        let draft = if self.place == "$defs" { Draft::Draft202012 } else { Draft::Draft7 };
        let schema = json!({
            "$schema": self.document["$schema"],
            self.place: self.document[self.place],
            "$ref": format!("#/{}/{name}", self.place),
        });
        jsonschema::options()
            .with_draft(draft)
            .should_validate_formats(true)
            .should_ignore_unknown_formats(true)
            .build(&schema)
            .expect("the official schema compiles")
    }
}
