//! One call of something declared: what it gets, and what it returns.
//!
//! The backends (commands, HTTP requests, SQL statements) know neither MCP nor the server: tools,
//! resources, prompts and `corelane try` use them alike.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};

/// One call of a backend. Dropping the future of the call cancels it.
#[derive(Clone, Default)]
pub struct Call {
    /// The arguments, valid by the schema of what is called.
    pub arguments: Map<String, Value>,
    /// Name of the authenticated caller, for `{principal}`; `None` without authentication.
    pub principal: Option<String>,
    /// Receives progress; `None` if the caller wants none.
    pub progress: Option<ProgressSink>,
}

/// Receives the number of steps that are done, and a message.
pub type ProgressSink = Arc<dyn Fn(u32, &str) + Send + Sync>;

impl fmt::Debug for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without arguments, which may be secrets of the caller.
        formatter.debug_struct("Call").finish_non_exhaustive()
    }
}

/// What a call returns.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Text.
    Text(String),
    /// A JSON value: the structured result of a tool.
    Json(Value),
    /// A JSON value, encoded already.
    JsonText(String),
    /// Bytes of a media type, such as `image/png`.
    Media {
        /// The media type.
        mime_type: String,
        /// The bytes.
        data: Bytes,
    },
}

/// Why a call has no output. Each text is one sentence that a model can act on, without secrets.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Failure {
    /// An argument is invalid in a way that its schema does not state.
    InvalidArgument(String),
    /// The call ran, or could not be started, and failed.
    Failed(String),
}

impl Failure {
    /// A failed call.
    pub fn failed(text: impl fmt::Display) -> Self {
        Self::Failed(text.to_string())
    }

    /// An invalid argument.
    pub fn invalid_argument(text: impl fmt::Display) -> Self {
        Self::InvalidArgument(text.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::InvalidArgument(text) | Self::Failed(text)) = self;
        formatter.write_str(text)
    }
}
