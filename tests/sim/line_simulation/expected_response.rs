//! The expected response to a request.

use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

/// Content of one response, as far as a client can know it beforehand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExpectedResponse {
    /// A result with `inputRequests`.
    InputRequired,
    /// The result of `server/discover`.
    Discover,
    /// The result of the tool `echo` with this text.
    Echo(String),
    /// An empty result, as of `ping`.
    Empty,
    /// An error with this code.
    Error(i64),
    /// The result of `initialize`.
    Initialize(Revision),
    /// A result with `isError`.
    ToolError,
    /// The result of the tool `add`, as text and, if the revision has it, structured.
    Sum {
        sum: f64,
        /// Whether the revision has structured content.
        is_structured: bool,
    },
    /// A non-empty list of tools.
    ToolList,
    /// The result of the tool `slow`.
    Slow {
        /// Requested number of steps.
        steps: u32,
        /// Requested duration of each step.
        step_ms: u32,
    },
}

impl ExpectedResponse {
    /// Returns whether a message has this content, whatever its id.
    pub(crate) fn matches(&self, message: &Value) -> bool {
        let result = &message["result"];
        if message["jsonrpc"] != "2.0" || message.get("result").is_some() == self.is_error() {
            return false;
        }
        match self {
            Self::InputRequired => {
                result["resultType"] == "input_required"
                    && result["inputRequests"].as_object().is_some_and(|asked| !asked.is_empty())
                    && result["requestState"].is_string()
            }
            Self::Discover => result["supportedVersions"].is_array(),
            Self::Echo(text) => is_text_result(result, text),
            Self::Empty => *result == json!({}),
            Self::Error(code) => {
                message["error"]["code"] == *code && message["error"]["message"].is_string()
            }
            Self::ToolError => result["isError"] == true,
            Self::Initialize(revision) => result["protocolVersion"] == revision.as_str(),
            Self::Sum { sum, is_structured } => {
                let text = result["content"][0]["text"].as_str().unwrap_or_default();
                let parsed: Value = serde_json::from_str(text).unwrap_or_default();
                parsed["sum"].as_f64() == Some(*sum)
                    && result.get("structuredContent").is_some() == *is_structured
                    && (!is_structured || result["structuredContent"] == parsed)
            }
            Self::ToolList => result["tools"].as_array().is_some_and(|tools| !tools.is_empty()),
            Self::Slow { steps, step_ms } => {
                is_text_result(result, &format!("took {steps} steps of {step_ms} ms"))
            }
        }
    }

    const fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }
}

/// Returns whether a result is one text block with exactly this text.
fn is_text_result(result: &Value, text: &str) -> bool {
    result["content"] == json!([{"type": "text", "text": text}]) && result["isError"] != true
}

/// Duplicate id; JSON that is not a message; a request before the handshake.
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
/// Failure or timeout.
pub(crate) const INTERNAL: i64 = -32603;
/// Invalid JSON.
pub(crate) const PARSE: i64 = -32700;
/// The message exceeds the size limit.
pub(crate) const TOO_LARGE: i64 = -32012;
/// The connection limit is reached.
pub(crate) const CONNECTION_LIMIT: i64 = 1001;
