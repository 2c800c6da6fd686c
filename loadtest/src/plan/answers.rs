//! The `[answers]` section of a plan: what users answer to requests of the server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::mcp::Answers;

/// Results of requests of the server to its client. What has a result is declared as a capability.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct AnswersPlan {
    /// Result of `elicitation/create`, such as `{ action = "accept", content = { name = "Ada" } }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elicitation: Option<Map<String, Value>>,
    /// Result of `sampling/createMessage`, such as `{ role = "assistant", model = "m", content = {
    /// type = "text", text = "Paris" } }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Map<String, Value>>,
    /// Result of `roots/list`, such as `{ roots = [] }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub roots: Option<Map<String, Value>>,
}

impl AnswersPlan {
    /// Returns whether nothing is answered.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the answers.
    pub(super) fn build(&self) -> Answers {
        let value = |answer: &Option<Map<String, Value>>| answer.clone().map(Value::from);
        Answers {
            elicitation: value(&self.elicitation),
            sampling: value(&self.sampling),
            roots: value(&self.roots),
        }
    }
}
