//! What a request must be answered with.

use corelane::protocol::revision::Revision;
use serde_json::{Value, json};

/// The content of one answer, as far as a client can know it beforehand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// A result that asks for more before the call can go on.
    Asks,
    /// The result of `server/discover`.
    Discovered,
    /// What was sent, sent back.
    Echo(String),
    /// Nothing: the result of `ping`.
    Empty,
    /// An error with this code.
    Error(i64),
    /// The result of `initialize`.
    Initialized(Revision),
    /// A result that says that the tool failed.
    Failed,
    /// A sum, as text and, where the revision has it, as structure.
    Sum {
        /// The sum.
        sum: f64,
        /// Whether the revision has structured content.
        is_structured: bool,
    },
    /// A page of tools.
    Tools,
    /// The result of `slow`.
    Took {
        /// How many steps it was asked for.
        steps: u32,
        /// How long each of them was to take.
        step_ms: u32,
    },
}

impl Answer {
    /// Whether a message says this, whatever its id.
    pub(crate) fn is_said_by(&self, message: &Value) -> bool {
        let result = &message["result"];
        if message["jsonrpc"] != "2.0" || message.get("result").is_some() == self.is_error() {
            return false;
        }
        match self {
            Self::Asks => {
                result["resultType"] == "input_required"
                    && result["inputRequests"].as_object().is_some_and(|asked| !asked.is_empty())
                    && result["requestState"].is_string()
            }
            Self::Discovered => result["supportedVersions"].is_array(),
            Self::Echo(text) => is_text(result, text),
            Self::Empty => *result == json!({}),
            Self::Error(code) => {
                message["error"]["code"] == *code && message["error"]["message"].is_string()
            }
            Self::Failed => result["isError"] == true,
            Self::Initialized(revision) => result["protocolVersion"] == revision.as_str(),
            Self::Sum { sum, is_structured } => {
                let text = result["content"][0]["text"].as_str().unwrap_or_default();
                let said: Value = serde_json::from_str(text).unwrap_or_default();
                said["sum"].as_f64() == Some(*sum)
                    && result.get("structuredContent").is_some() == *is_structured
                    && (!is_structured || result["structuredContent"] == said)
            }
            Self::Tools => result["tools"].as_array().is_some_and(|tools| !tools.is_empty()),
            Self::Took { steps, step_ms } => {
                is_text(result, &format!("took {steps} steps of {step_ms} ms"))
            }
        }
    }

    const fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// Whether a result is one block with exactly this text.
fn is_text(result: &Value, text: &str) -> bool {
    result["content"] == json!([{"type": "text", "text": text}]) && result["isError"] != true
}

/// An id was in flight already; JSON, but no message; a request before the handshake.
pub(crate) const INVALID_REQUEST: i64 = -32600;
/// The method is not known.
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
/// The params are not right.
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// Something broke, or took too long.
pub(crate) const INTERNAL: i64 = -32603;
/// Not JSON.
pub(crate) const PARSE: i64 = -32700;
/// Longer than a message may be.
pub(crate) const TOO_LARGE: i64 = -32012;
/// No room for another connection.
pub(crate) const CONNECTION_LIMIT: i64 = 1001;
