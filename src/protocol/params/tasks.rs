//! The params that name a task, or ask for one.

use super::fields::{members, object, present, text, wrong};
use crate::protocol::error::Error;
use crate::protocol::json::Value;

/// The params of `tasks/get`, `tasks/result` and `tasks/cancel`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Task<'a> {
    /// The task.
    pub id: &'a str,
}

impl<'a> Task<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where `taskId` is missing, twice or no string.
    ///
    /// Source: 2025-11-25 `basic/utilities/tasks`; the Tasks extension 2026-07-28.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [id] = object(params)?.once(["taskId"])?;
        Ok(Self { id: text(id, "params.taskId")? })
    }
}

/// The params of `tasks/update`.
#[derive(Clone, Copy, Debug)]
pub struct TaskUpdate<'a> {
    /// The task.
    pub id: &'a str,
    /// Answers by the key of their question, an object.
    pub input_responses: Value<'a>,
}

impl<'a> TaskUpdate<'a> {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where one of the two is missing, twice or not what it should be.
    ///
    /// Source: the Tasks extension 2026-07-28.
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let [id, responses] = object(params)?.once(["taskId", "inputResponses"])?;
        let id = text(id, "params.taskId")?;
        members(responses, "params.inputResponses")?;
        let input_responses =
            responses.ok_or_else(|| wrong("params.inputResponses", "an object"))?;
        Ok(Self { id, input_responses })
    }
}

/// What `params.task` says: the caller wants a task instead of the result (2025-11-25).
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct TaskMetadata {
    /// How long the task is to be kept, in milliseconds from its creation; the server decides
    /// without it.
    pub ttl_ms: Option<u64>,
}

impl TaskMetadata {
    /// Reads the member `task` of the params of a request; none where it is left out.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where it is twice, no object, or its `ttl` no whole number.
    ///
    /// Source: 2025-11-25 `basic/utilities/tasks`.
    pub fn wanted(params: Option<Value<'_>>) -> Result<Option<Self>, Error> {
        let Some(params) = params.and_then(Value::as_object) else { return Ok(None) };
        let [task] = params.once(["task"])?;
        present(task).map(Self::read).transpose()
    }

    fn read(task: Value<'_>) -> Result<Self, Error> {
        let [ttl] = members(Some(task), "params.task")?.once(["ttl"])?;
        let Some(ttl) = present(ttl) else { return Ok(Self::default()) };
        let whole = ttl.as_u64().ok_or_else(|| wrong("params.task.ttl", "milliseconds"))?;
        Ok(Self { ttl_ms: Some(whole) })
    }
}
