//! What a retry of `tools/call`, `prompts/get` or `resources/read` brings beside its own params.

use super::fields::{members, present, text_if};
use crate::protocol::error::Error;
use crate::protocol::json::Value;

/// The answers of a retry, and what the server gave along with the questions (2026-07-28).
#[derive(Clone, Copy, Debug, Default)]
pub struct Retry<'a> {
    /// Answers by the key of their question, an object.
    pub input_responses: Option<Value<'a>>,
    /// What the server sealed into the result that asked. Anybody may have made it up.
    pub request_state: Option<&'a str>,
}

impl<'a> Retry<'a> {
    /// Reads the params. Cost: one pass over their keys.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where a member is twice or not what it should be.
    ///
    /// Source: 2026-07-28 `basic/patterns/mrtr`.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let Some(params) = params.and_then(Value::as_object) else {
            return Ok(Self::default());
        };
        let [responses, state] = params.once(["inputResponses", "requestState"])?;
        if responses.is_none() && state.is_none() {
            return Ok(Self::default());
        }
        let input_responses = present(responses);
        if input_responses.is_some() {
            members(input_responses, "params.inputResponses")?;
        }
        Ok(Self { input_responses, request_state: text_if(state, "params.requestState")? })
    }

    /// Whether there is nothing: the first request of a plain kind.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.input_responses.is_none() && self.request_state.is_none()
    }
}
