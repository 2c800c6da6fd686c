//! Params of the utilities: cancellation, progress, logging and tasks.

use super::{invalid_member, non_null, require_object, require_params, require_string};
use crate::eras::LoggingLevel;
use crate::error::Error;
use crate::json::Value;
use crate::jsonrpc::Id;

/// The params of `notifications/cancelled`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CancelledNotificationParams<'a> {
    /// The request to cancel.
    pub request_id: Id<'a>,
    /// Human-readable reason.
    pub reason: Option<&'a str>,
}

impl<'a> CancelledNotificationParams<'a> {
    /// Reads the params; returns `None` if `requestId` is missing or invalid. Invalid
    /// notifications are ignored because they have no response.
    ///
    /// MCP 2025-11-25 `basic/utilities/cancellation`, 2026-07-28 `basic/patterns/cancellation`.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Option<Self> {
        let [request, reason] = params?.as_object()?.find_unique(["requestId", "reason"]).ok()?;
        let request = Id::from_value(request?)?;
        Some(Self { request_id: request, reason: reason.and_then(Value::as_str) })
    }
}

/// The params of `notifications/progress` for a request that the server sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgressNotificationParams<'a> {
    /// The `progressToken` of the request.
    pub progress_token: Id<'a>,
    /// Progress so far, in a unit of the sender's choice.
    pub progress: f64,
    /// Total expected, in the same unit.
    pub total: Option<f64>,
}

impl<'a> ProgressNotificationParams<'a> {
    /// Reads the params; returns `None` if the token or `progress` is missing or invalid. Invalid
    /// notifications are ignored because they have no response.
    ///
    /// MCP `basic/utilities/progress`, 2024-11-05 to 2025-11-25.
    pub fn read(params: Option<Value<'a>>) -> Option<Self> {
        let keys = ["progressToken", "progress", "total"];
        let [token, progress, total] = params?.as_object()?.find_unique(keys).ok()?;
        let (token, progress) = (Id::from_value(token?)?, progress?.as_f64()?);
        Some(Self { progress_token: token, progress, total: total.and_then(Value::as_f64) })
    }
}

/// The params of `logging/setLevel`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SetLevelRequestParams {
    /// Minimum level of the log messages to send.
    pub level: LoggingLevel,
}

impl SetLevelRequestParams {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `level` is missing, duplicated or not one of the eight levels.
    ///
    /// MCP `server/utilities/logging`, 2024-11-05 to 2025-11-25.
    pub fn read(params: Option<Value<'_>>) -> Result<Self, Error> {
        let [level] = require_params(params)?.find_unique(["level"])?;
        let level = non_null(level).ok_or_else(|| invalid_member("params.level", "a log level"))?;
        Ok(Self { level: LoggingLevel::read(level)? })
    }
}

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
