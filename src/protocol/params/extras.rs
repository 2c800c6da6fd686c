//! What `tools/call`, `prompts/get` and `resources/read` may carry beside their own params.

use super::fields::{members, present, text_if};
use super::tasks::TaskMetadata;
use crate::protocol::error::Error;
use crate::protocol::json::Value;

/// The answers of a retry, and the wish for a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct CallExtras<'a> {
    /// Answers by the key of their question, an object (2026-07-28).
    pub input_responses: Option<Value<'a>>,
    /// What the server sealed into the result that asked (2026-07-28). Anybody may have made it up.
    pub request_state: Option<&'a str>,
    /// The caller wants a task (2025-11-25).
    pub task: Option<TaskMetadata>,
}

impl<'a> CallExtras<'a> {
    /// Reads the params. Cost: one pass over their keys.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where a member is twice or not what it should be.
    ///
    /// Source: 2026-07-28 `basic/patterns/mrtr`; 2025-11-25 `basic/utilities/tasks`.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let Some(params) = params.and_then(Value::as_object) else {
            return Ok(Self::default());
        };
        let [responses, state, task] = params.once(["inputResponses", "requestState", "task"])?;
        if responses.is_none() && state.is_none() && task.is_none() {
            return Ok(Self::default());
        }
        let input_responses = present(responses);
        if input_responses.is_some() {
            members(input_responses, "params.inputResponses")?;
        }
        Ok(Self {
            input_responses,
            request_state: text_if(state, "params.requestState")?,
            task: present(task).map(TaskMetadata::read).transpose()?,
        })
    }

    /// Whether there is nothing: the first call of a plain kind.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.input_responses.is_none() && self.request_state.is_none() && self.task.is_none()
    }
}
