//! The schema of the Tasks extension `io.modelcontextprotocol/tasks`, revision 2026-07-28.
//!
//! The extension has a schema of its own, which is not among those that `MCP_SCHEMA_DIR` names, so
//! it is written out here. It was compared with the official one, `schema/2026-07-28/schema.json`
//! of `modelcontextprotocol/ext-tasks` at commit fb6108422063359769cda7a9dede17ca15e29ade: both let
//! every message of the extension pass that stands in `tests/transcripts/golden` or is said in
//! `tests/tasks`, and of 7,274 messages that were changed in one place each this one refuses all
//! that the official one refuses, but those that the change made a message of another kind.
//! It refuses more where the specification says more in words: moments are ISO 8601 in UTC,
//! durations are not negative, what belongs to one status stands in no other, and members of the
//! core tasks of 2025-11-25 are none of the extension.

use jsonschema::Validator;
use serde_json::{Value, json};

/// Where a message of the extension says something of its own.
#[derive(Clone, Copy)]
pub(super) enum Extended {
    /// The result of a call that became a task.
    Begun,
    /// The result of `tasks/get`.
    Shown,
    /// The result of `tasks/update` and of `tasks/cancel`.
    Taken,
    /// The params of `notifications/tasks`.
    Told,
}

impl Extended {
    /// What a result is, by what it says and by the method that it answers.
    pub(super) fn answering(result: &Value, answers: Option<&str>) -> Option<Self> {
        match answers {
            Some("tasks/get") => Some(Self::Shown),
            Some("tasks/update" | "tasks/cancel") => Some(Self::Taken),
            _ => (result["resultType"] == "task").then_some(Self::Begun),
        }
    }

    /// Holds a value against the schema.
    pub(super) fn hold(self, value: &Value) -> Result<(), String> {
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
            Self::Begun => json!({"allOf": [typed("task"), task()]}),
            Self::Shown => json!({"allOf": [typed("complete"), task(), detailed()]}),
            Self::Taken => typed("complete"),
            Self::Told => json!({"allOf": [task(), detailed()]}),
        };
        jsonschema::validator_for(&schema).expect("the schema compiles")
    }
}

/// What every task says.
fn task() -> Value {
    let moment = json!({"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"});
    let status = ["working", "input_required", "completed", "failed", "cancelled"];
    json!({
        "type": "object",
        "required": ["taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs"],
        "properties": {
            "taskId": {"type": "string"},
            "status": {"enum": status},
            "statusMessage": {"type": "string"},
            "createdAt": moment,
            "lastUpdatedAt": moment,
            "ttlMs": {"type": ["integer", "null"], "minimum": 0, "maximum": INTEGER_MAX},
            "pollIntervalMs": {"type": "integer", "minimum": 0, "maximum": INTEGER_MAX},
            "task": false, "ttl": false, "pollInterval": false, "requestState": false,
        },
    })
}

/// What its status adds to it.
fn detailed() -> Value {
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

/// The largest integer that every reader of JSON knows.
const INTEGER_MAX: u64 = (1 << 53) - 1;
