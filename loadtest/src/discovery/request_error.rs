//! Reasons why a request before the run got no result.

use std::time::Duration;

use serde_json::Value;

use crate::mcp::HttpField;
use crate::plan::HumanDuration;

/// JSON-RPC error codes that only modern servers send (MCP 2026-07-28, basic).
const MODERN_CODES: std::ops::RangeInclusive<i64> = -32_099..=-32_020;
/// `UnsupportedProtocolVersion`.
const UNSUPPORTED_VERSION: i64 = -32_022;

/// Why a request got no result.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum RequestError {
    /// The address refuses connections.
    #[error("{0}")]
    Refused(String),
    /// No connection, for another reason.
    #[error("{0}")]
    Connect(String),
    /// The connection ended first.
    #[error("{0}")]
    Closed(String),
    /// No response in time.
    #[error("no response within {}", HumanDuration::from(*.0))]
    Timeout(Duration),
    /// The upgrade to WebSocket was refused.
    #[error("no upgrade to WebSocket: {0}")]
    Upgrade(String),
    /// HTTP status without a JSON-RPC message.
    #[error("HTTP status {status} {text}")]
    Status {
        /// The status.
        status: u16,
        /// Beginning of the body, quoted.
        text: String,
    },
    /// JSON-RPC error.
    #[error("{}error {code}: {message}", status_prefix(*.status))]
    Rpc {
        /// HTTP status, if it is not 200.
        status: Option<u16>,
        /// Code of the error.
        code: i64,
        /// Message of the error.
        message: String,
        /// Versions that the server supports, if the error names them.
        supported: Vec<String>,
    },
    /// Not a message of MCP.
    #[error("not a message of MCP: {0}")]
    Invalid(String),
}

fn status_prefix(status: Option<u16>) -> String {
    status.map_or_else(String::new, |status| format!("HTTP status {status}, "))
}

impl RequestError {
    /// Reads the `error` of a JSON-RPC response, without the secrets in `fields`.
    pub(super) fn from_error(error: &Value, fields: &[HttpField]) -> Self {
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
        let message = HttpField::redact_all(fields, message.to_owned());
        let supported = error.pointer("/data/supported").and_then(Value::as_array);
        let names = supported.into_iter().flatten().filter_map(Value::as_str);
        Self::Rpc {
            status: None,
            code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
            message: message.split_whitespace().collect::<Vec<_>>().join(" "),
            supported: names.map(String::from).collect(),
        }
    }

    /// Adds the HTTP status of the response.
    #[must_use]
    pub(super) fn with_status(mut self, code: u16) -> Self {
        if let Self::Rpc { status, .. } = &mut self {
            *status = (code >= 300).then_some(code);
        }
        self
    }

    /// Returns the versions that the server supports, if this is an error that names them.
    pub(super) fn supported_versions(&self) -> Option<&[String]> {
        match self {
            Self::Rpc { code: UNSUPPORTED_VERSION, supported, .. } => Some(supported),
            _ => None,
        }
    }

    /// Returns whether only a server of the modern era sends this error.
    pub(super) fn is_modern(&self) -> bool {
        matches!(self, Self::Rpc { code, .. } if MODERN_CODES.contains(code))
    }

    /// Returns whether there was no connection.
    pub(super) const fn is_unopened(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Connect(_))
    }

    /// Returns whether the server requires credentials, so that nothing else can be learned.
    pub(super) const fn is_unauthorized(&self) -> bool {
        matches!(
            self,
            Self::Status { status: 401 | 403, .. } | Self::Rpc { status: Some(401 | 403), .. }
        )
    }
}
