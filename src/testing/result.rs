//! What a test gets from a request.

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The result of a tool call, with the notifications of the call.
#[derive(Clone, Debug, PartialEq)]
pub struct CallResult {
    result: Value,
    notifications: Vec<Value>,
}

impl CallResult {
    pub(super) const fn new(result: Value, notifications: Vec<Value>) -> Self {
        Self { result, notifications }
    }

    /// Returns the text of all text blocks, one on each line.
    pub fn text(&self) -> String {
        let texts = self.content().iter().filter_map(|block| block["text"].as_str());
        texts.collect::<Vec<_>>().join("\n")
    }

    /// Returns the content blocks.
    pub fn content(&self) -> &[Value] {
        self.result["content"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns whether the tool failed (`isError`); the text says why.
    pub fn is_error(&self) -> bool {
        self.result["isError"] == true
    }

    /// Returns `structuredContent`.
    pub fn structured_content(&self) -> Option<&Value> {
        self.result.get("structuredContent")
    }

    /// Reads `structuredContent` as a `T`.
    ///
    /// # Errors
    ///
    /// If it is missing or of another type.
    pub fn structured<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_value(self.structured_content().cloned().unwrap_or_default())
    }

    /// Returns the member `key` of `_meta`.
    pub fn meta(&self, key: &str) -> Option<&Value> {
        self.result["_meta"].get(key)
    }

    pub(super) fn into_value(self) -> Value {
        self.result
    }

    /// Returns the whole `CallToolResult`.
    pub const fn value(&self) -> &Value {
        &self.result
    }

    /// Returns the params of the progress notifications of the call: `progress`, `total`,
    /// `message`.
    pub fn progress(&self) -> Vec<&Value> {
        self.params_of("notifications/progress")
    }

    /// Returns the params of the log messages during the call: `level`, `logger`, `data`.
    pub fn log_messages(&self) -> Vec<&Value> {
        self.params_of("notifications/message")
    }

    fn params_of(&self, method: &str) -> Vec<&Value> {
        let of_method = self.notifications.iter().filter(|it| it["method"] == method);
        of_method.map(|notification| &notification["params"]).collect()
    }
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum TestError {
    /// The server answered with a JSON-RPC error.
    #[non_exhaustive]
    Rpc {
        /// JSON-RPC code.
        code: i64,
        /// Message of the server.
        message: String,
        /// The member `data`, or null.
        data: Value,
    },
    /// The server has ended, because it was drained.
    Ended,
}

impl TestError {
    /// Reads the `error` object of a response.
    pub(super) fn from_object(error: &Value) -> Self {
        Self::Rpc {
            code: error["code"].as_i64().unwrap_or_default(),
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            data: error["data"].clone(),
        }
    }

    /// Returns the code of a JSON-RPC error.
    pub const fn code(&self) -> Option<i64> {
        match self {
            Self::Rpc { code, .. } => Some(*code),
            Self::Ended => None,
        }
    }
}

impl fmt::Display for TestError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rpc { code, message, data: Value::Null } => {
                write!(formatter, "error {code}: {message}")
            }
            Self::Rpc { code, message, data } => {
                write!(formatter, "error {code}: {message} ({data})")
            }
            Self::Ended => formatter.write_str("the server has ended"),
        }
    }
}

impl std::error::Error for TestError {}
