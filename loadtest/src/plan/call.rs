//! The `[[call]]` section of a plan: one kind of request.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::PlanError;
use crate::mcp::{RequestSettings, RequestTemplate};

/// Default length in bytes of the message of the tool `echo`.
pub const DEFAULT_ECHO_BYTES: usize = 32;

/// One kind of request: a tool call or any other method.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CallPlan {
    /// Name of the tool to call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Arguments of the tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// Length in bytes of the message sent to the tool `echo`, if `arguments` is absent. Default
    /// 32. The response has to contain the same message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// The method, if the request is not a tool call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Params of `method`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
    /// Expected text of the first content block of the response. If absent, every result that is
    /// not an error counts as correct.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// Sends a progress token, so that the server responds over HTTP with an event stream. Default
    /// false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub progress: bool,
    /// Relative frequency of this call among all calls. Default 1.
    #[serde(default = "weight")]
    pub weight: u32,
}

const fn weight() -> u32 {
    1
}

impl CallPlan {
    /// Returns a plan that calls `name` without arguments.
    pub fn tool(name: impl Into<String>) -> Self {
        Self {
            tool: Some(name.into()),
            arguments: None,
            bytes: None,
            method: None,
            params: None,
            expect: None,
            progress: false,
            weight: weight(),
        }
    }

    /// Builds the request. Fails if the call names both or neither of a tool and a method.
    pub(super) fn build(&self, speech: &RequestSettings) -> Result<RequestTemplate, PlanError> {
        let (method, params, expected) = match (&self.tool, &self.method) {
            (Some(tool), None) if tool == "echo" && self.arguments.is_none() => {
                let (params, message) =
                    RequestTemplate::echo_params(self.bytes.unwrap_or(DEFAULT_ECHO_BYTES));
                ("tools/call", params, Some(message))
            }
            (Some(_), None) if self.bytes.is_some() => {
                return Err(PlanError::new(
                    "bytes applies only to the tool echo without arguments",
                ));
            }
            (Some(tool), None) => {
                let arguments = self.arguments.clone().unwrap_or_default();
                let params = json!({ "name": tool, "arguments": arguments });
                ("tools/call", params.as_object().cloned(), self.expect.clone())
            }
            (None, Some(method)) => (method.as_str(), self.params.clone(), self.expect.clone()),
            _ => return Err(PlanError::new("a call needs exactly one of tool and method")),
        };
        let params =
            if self.progress { Some(RequestTemplate::with_progress(params)) } else { params };
        Ok(RequestTemplate::new(speech, (method, params), expected))
    }
}
