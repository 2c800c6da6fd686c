//! Requests that clients send, and their results.

use serde_json::{Value, json};

use crate::parity_simulation::server::{RESOURCE, emitted};

/// What a request asks for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Work {
    Ping,
    /// The tool `echo` with a text of this length, which names the request.
    Echo(usize),
    /// The tool `emit`.
    Emit {
        count: u32,
        log_every: u32,
        pause_us: u32,
    },
    /// The tool `wait`, which ends by cancellation or timeout.
    Wait,
    ListTools,
    ReadResource,
    /// The server has no prompts.
    ListPrompts,
    UnknownTool,
    UnknownMethod,
}

impl Work {
    /// Returns the method.
    pub(crate) const fn method(self) -> &'static str {
        match self {
            Self::Ping => "ping",
            Self::Echo(_) | Self::Emit { .. } | Self::Wait | Self::UnknownTool => "tools/call",
            Self::ListTools => "tools/list",
            Self::ReadResource => "resources/read",
            Self::ListPrompts => "prompts/list",
            Self::UnknownMethod => "no/such",
        }
    }

    /// Returns the capability that it needs; `None` for none.
    pub(crate) const fn capability(self) -> Option<&'static str> {
        match self {
            Self::Ping | Self::UnknownMethod => None,
            Self::Echo(_)
            | Self::Emit { .. }
            | Self::Wait
            | Self::UnknownTool
            | Self::ListTools => Some("tools"),
            Self::ReadResource => Some("resources"),
            Self::ListPrompts => Some("prompts"),
        }
    }

    /// Returns the params of the request `id`.
    pub(crate) fn params(self, id: &Value) -> Value {
        let call = |name: &str, arguments: Value| json!({"name": name, "arguments": arguments});
        match self {
            Self::Echo(length) => call("echo", json!({"text": echoed(id, length)})),
            Self::Emit { count, log_every, pause_us } => {
                let arguments =
                    json!({"count": count, "log_every": log_every, "pause_us": pause_us});
                call("emit", arguments)
            }
            Self::Wait => call("wait", json!({})),
            Self::UnknownTool => call("none", json!({})),
            Self::ReadResource => json!({"uri": RESOURCE}),
            Self::Ping | Self::ListTools | Self::ListPrompts | Self::UnknownMethod => json!({}),
        }
    }

    /// Returns whether `result` is that of the request `id`.
    pub(crate) fn is_result(self, id: &Value, result: &Value) -> bool {
        let text = &result["content"][0]["text"];
        match self {
            Self::Ping => *result == json!({}),
            Self::Echo(length) => *text == echoed(id, length),
            Self::Emit { count, .. } => *text == emitted(count),
            Self::Wait => *text == "cancelled",
            Self::ListTools => result["tools"].as_array().is_some_and(|tools| tools.len() == 3),
            Self::ReadResource => result["contents"][0]["text"] == "text",
            Self::ListPrompts | Self::UnknownTool | Self::UnknownMethod => false,
        }
    }
}

fn echoed(id: &Value, length: usize) -> String {
    format!("{id} {}", "x".repeat(length))
}
