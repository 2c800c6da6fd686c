//! Params of requests that concern a task or request one.

use super::members::{invalid_member, non_null, require_object, require_params, require_string};
use crate::error::Error;
use crate::json::Value;

/// The params of `tasks/get`, `tasks/result` and `tasks/cancel`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TaskIdParams<'a> {
    /// Id of the task.
    pub task_id: &'a str,
}

impl<'a> TaskIdParams<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `taskId` is missing, duplicated or not a string.
    ///
    /// MCP 2025-11-25 `basic/utilities/tasks`; the Tasks extension 2026-07-28.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [id] = require_params(params)?.find_unique(["taskId"])?;
        Ok(Self { task_id: require_string(id, "params.taskId")? })
    }
}

/// The params of `tasks/update`.
#[derive(Clone, Copy, Debug)]
pub struct UpdateTaskRequestParams<'a> {
    /// Id of the task.
    pub task_id: &'a str,
    /// Object of responses by the key of their input request.
    pub input_responses: Value<'a>,
}

impl<'a> UpdateTaskRequestParams<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if a member is missing, duplicated or has the wrong type.
    ///
    /// The Tasks extension 2026-07-28.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [id, responses] = require_params(params)?.find_unique(["taskId", "inputResponses"])?;
        let id = require_string(id, "params.taskId")?;
        require_object(responses, "params.inputResponses")?;
        let input_responses =
            responses.ok_or_else(|| invalid_member("params.inputResponses", "an object"))?;
        Ok(Self { task_id: id, input_responses })
    }
}

/// The `params.task` of a request: it asks for a task instead of the result (2025-11-25).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TaskMetadata {
    /// Requested lifetime in milliseconds from creation; `None` leaves it to the server.
    pub ttl_ms: Option<u64>,
}

impl TaskMetadata {
    /// Reads the member `task` of the params of a request; `None` if it is absent.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if it is duplicated or not an object, or its `ttl` is not a
    /// non-negative integer.
    ///
    /// MCP 2025-11-25 `basic/utilities/tasks`.
    pub fn from_params(params: Option<Value<'_>>) -> Result<Option<Self>, Error> {
        let Some(params) = params.and_then(Value::as_object) else { return Ok(None) };
        let [task] = params.find_unique(["task"])?;
        non_null(task).map(Self::read).transpose()
    }

    fn read(task: Value<'_>) -> Result<Self, Error> {
        let [ttl] = require_object(Some(task), "params.task")?.find_unique(["ttl"])?;
        let Some(ttl) = non_null(ttl) else { return Ok(Self::default()) };
        let ttl_ms = ttl.as_u64().ok_or_else(|| {
            invalid_member("params.task.ttl", "a non-negative integer (milliseconds)")
        })?;
        Ok(Self { ttl_ms: Some(ttl_ms) })
    }
}
