//! Params that a retry of `tools/call`, `prompts/get` or `resources/read` adds to its own.

use super::members::{non_null, optional_string, require_object};
use crate::error::Error;
use crate::json::Value;

/// The input responses of a retry and the `requestState` of the server (2026-07-28).
#[derive(Clone, Copy, Debug, Default)]
pub struct InputResponseRequestParams<'a> {
    /// Object of responses by the key of their input request.
    pub input_responses: Option<Value<'a>>,
    /// Opaque state that the server sent with the input requests. Not trusted before decryption.
    pub request_state: Option<&'a str>,
}

impl<'a> InputResponseRequestParams<'a> {
    /// Reads the params. Cost: one pass over their keys.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if a member is duplicated or has the wrong type.
    ///
    /// MCP 2026-07-28 `basic/patterns/mrtr`.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Result<Self, Error> {
        let Some(params) = params.and_then(Value::as_object) else {
            return Ok(Self::default());
        };
        let [responses, state] = params.find_unique(["inputResponses", "requestState"])?;
        if responses.is_none() && state.is_none() {
            return Ok(Self::default());
        }
        let input_responses = non_null(responses);
        if input_responses.is_some() {
            require_object(input_responses, "params.inputResponses")?;
        }
        Ok(Self { input_responses, request_state: optional_string(state, "params.requestState")? })
    }

    /// Returns whether both members are absent: the request is not a retry.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.input_responses.is_none() && self.request_state.is_none()
    }
}
