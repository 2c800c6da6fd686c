//! One kind of request of a plan.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::Wrong;
use crate::dialogue::{Call, Speech};

/// Bytes that the tool `echo` is asked to say back where nothing else is said.
pub const BYTES: usize = 32;

/// One kind of request: a call of a tool, or any method.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CallPlan {
    /// The tool to call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Map<String, Value>>,
    /// For the tool `echo` without arguments: the length of its message, which a right answer says
    /// back. Default 32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<usize>,
    /// The method, where it is no call of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Its params.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub params: Option<Map<String, Value>>,
    /// The text that the first content of a right answer has; without it every result that is no
    /// error is right.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect: Option<String>,
    /// The server is asked to tell how far it has come, so that it answers by a stream of events
    /// over HTTP. Default no.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub progress: bool,
    /// How often it is sent, compared with the others. Default 1.
    #[serde(default = "weight")]
    pub weight: u32,
}

const fn weight() -> u32 {
    1
}

impl CallPlan {
    /// A call of a tool without arguments.
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

    /// The request.
    pub(super) fn call(&self, speech: &Speech) -> Result<Call, Wrong> {
        let (method, params, expected) = match (&self.tool, &self.method) {
            (Some(tool), None) if tool == "echo" && self.arguments.is_none() => {
                let (params, message) = Call::echo_params(self.bytes.unwrap_or(BYTES));
                ("tools/call", params, Some(message))
            }
            (Some(_), None) if self.bytes.is_some() => {
                return Err(Wrong::new("bytes is for the tool echo without arguments"));
            }
            (Some(tool), None) => {
                let arguments = self.arguments.clone().unwrap_or_default();
                let params = json!({ "name": tool, "arguments": arguments });
                ("tools/call", params.as_object().cloned(), self.expect.clone())
            }
            (None, Some(method)) => (method.as_str(), self.params.clone(), self.expect.clone()),
            _ => return Err(Wrong::new("a call names either a tool or a method")),
        };
        let params = if self.progress { Some(Call::with_progress(params)) } else { params };
        Ok(Call::new(speech, (method, params), expected))
    }
}
