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
            weight: weight(),
        }
    }

    /// The request.
    pub(super) fn call(&self, speech: &Speech) -> Result<Call, Wrong> {
        match (&self.tool, &self.method) {
            (Some(tool), None) if tool == "echo" && self.arguments.is_none() => {
                Ok(Call::echo(speech, self.bytes.unwrap_or(BYTES)))
            }
            (Some(_), None) if self.bytes.is_some() => {
                Err(Wrong::new("bytes is for the tool echo without arguments"))
            }
            (Some(tool), None) => {
                let arguments = self.arguments.clone().unwrap_or_default();
                let params = json!({ "name": tool, "arguments": arguments });
                let params = params.as_object().cloned();
                Ok(Call::new(speech, ("tools/call", params), self.expect.clone()))
            }
            (None, Some(method)) => {
                Ok(Call::new(speech, (method, self.params.clone()), self.expect.clone()))
            }
            _ => Err(Wrong::new("a call names either a tool or a method")),
        }
    }
}
