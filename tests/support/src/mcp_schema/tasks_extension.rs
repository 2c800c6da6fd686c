//! The schema of the Tasks extension `io.modelcontextprotocol/tasks`, revision 2026-07-28.
//!
//! The extension has its own schema, outside the files of `MCP_SCHEMA_DIR`, so it is written here.
//! It was compared with the official `schema/2026-07-28/schema.json` of
//! `modelcontextprotocol/ext-tasks` at commit fb6108422063359769cda7a9dede17ca15e29ade: both accept
//! all extension messages of `tests/server/transcripts/golden` and `tests/server/tasks`; of 7,274
//! messages with one change, this schema rejects all that the official one rejects, except those
//! that the change turned into another kind of message. It also enforces rules that the
//! specification states in prose only: timestamps are ISO 8601 in UTC, durations are not negative,
//! members of one status are absent in all others, and members of the core tasks of 2025-11-25 are
//! not allowed.

use jsonschema::Validator;
use serde_json::{Value, json};

/// A value that the extension defines.
#[derive(Clone, Copy)]
pub(super) enum ExtensionValue {
    /// The result of a call that created a task.
    CreatedTask,
    /// The result of `tasks/get`.
    GetTaskResult,
    /// The result of `tasks/update` and `tasks/cancel`.
    Acknowledgement,
    /// The params of `notifications/tasks`.
    Notification,
}

impl ExtensionValue {
    /// Returns the kind of `result`, from its members and the request's method.
    pub(super) fn of_result(result: &Value, request_method: Option<&str>) -> Option<Self> {
        match request_method {
            Some("tasks/get") => Some(Self::GetTaskResult),
            Some("tasks/update" | "tasks/cancel") => Some(Self::Acknowledgement),
            _ => (result["resultType"] == "task").then_some(Self::CreatedTask),
        }
    }

    /// Validates a value against the schema of its kind.
    pub(super) fn validate_value(self, value: &Value) -> Result<(), String> {
        match self.validator().iter_errors(value).next() {
            Some(error) => Err(format!("tasks at `{}`: {error}", error.instance_path())),
            None => Ok(()),
        }
    }

    fn validator(self) -> Validator {
        let typed = |kind: &str| {
            let properties = json!({"resultType": {"const": kind}});
            json!({"required": ["resultType"], "properties": properties})
        };
        let schema = match self {
            Self::CreatedTask => json!({"allOf": [typed("task"), task()]}),
            Self::GetTaskResult => json!({"allOf": [typed("complete"), task(), status_members()]}),
            Self::Acknowledgement => typed("complete"),
            Self::Notification => json!({"allOf": [task(), status_members()]}),
        };
        jsonschema::validator_for(&schema).expect("extension schema compiles")
    }
}

/// The members of every task.
fn task() -> Value {
    let timestamp =
        json!({"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"});
    let status = ["working", "input_required", "completed", "failed", "cancelled"];
    json!({
        "type": "object",
        "required": ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"],
        "properties": {
            "taskId": {"type": "string"},
            "status": {"enum": status},
            "statusMessage": {"type": "string"},
            "createdAt": timestamp,
            "lastUpdatedAt": timestamp,
            "ttlMs": {"type": ["integer", "null"], "minimum": 0, "maximum": INTEGER_MAX},
            "pollIntervalMs": {"type": "integer", "minimum": 0, "maximum": INTEGER_MAX},
            "task": false, "ttl": false, "pollInterval": false, "requestState": false,
        },
    })
}

/// The members that depend on the status.
fn status_members() -> Value {
    let when = |status: &str, member: &str| {
        json!({
            "if": {"properties": {"status": {"const": status}}},
            "then": {"required": [member], "properties": {member: {"type": "object"}}},
            "else": {"properties": {member: false}},
        })
    };
    json!({
        "allOf": [
            when("input_required", "inputRequests"),
            when("completed", "result"),
            when("failed", "error"),
        ],
    })
}

/// The largest integer that all JSON implementations represent exactly (RFC 8259, section 6).
const INTEGER_MAX: u64 = (1 << 53) - 1;
