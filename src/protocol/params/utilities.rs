//! Params of the utilities: cancellation, progress and logging.

use super::members::{invalid_member, non_null, require_params};
use crate::eras::LoggingLevel;
use crate::error::Error;
use crate::json::Value;
use crate::jsonrpc::Id;

/// The params of `notifications/cancelled`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct CancelledNotificationParams<'a> {
    /// The request to cancel.
    pub request_id: Id<'a>,
    /// Human-readable reason.
    pub reason: Option<&'a str>,
}

impl<'a> CancelledNotificationParams<'a> {
    /// Reads the params; returns `None` if `requestId` is missing or invalid. Invalid
    /// notifications are ignored because they have no response.
    ///
    /// MCP 2025-11-25 `basic/utilities/cancellation`, 2026-07-28 `basic/patterns/cancellation`.
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Option<Self> {
        let [request, reason] = params?.as_object()?.find_unique(["requestId", "reason"]).ok()?;
        let request = Id::from_value(request?)?;
        Some(Self { request_id: request, reason: reason.and_then(Value::as_str) })
    }
}

/// The params of `notifications/progress` for a request that the server sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProgressNotificationParams<'a> {
    /// The `progressToken` of the request.
    pub progress_token: Id<'a>,
    /// Progress so far, in a unit of the sender's choice.
    pub progress: f64,
    /// Total expected, in the same unit.
    pub total: Option<f64>,
}

impl<'a> ProgressNotificationParams<'a> {
    /// Reads the params; returns `None` if the token or `progress` is missing or invalid. Invalid
    /// notifications are ignored because they have no response.
    ///
    /// MCP `basic/utilities/progress`, 2024-11-05 to 2025-11-25.
    pub fn read(params: Option<Value<'a>>) -> Option<Self> {
        let keys = ["progressToken", "progress", "total"];
        let [token, progress, total] = params?.as_object()?.find_unique(keys).ok()?;
        let (token, progress) = (Id::from_value(token?)?, progress?.as_f64()?);
        Some(Self { progress_token: token, progress, total: total.and_then(Value::as_f64) })
    }
}

/// The params of `logging/setLevel`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SetLevelRequestParams {
    /// Minimum level of the log messages to send.
    pub level: LoggingLevel,
}

impl SetLevelRequestParams {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) if `level` is missing, duplicated or not one of the eight levels.
    ///
    /// MCP `server/utilities/logging`, 2024-11-05 to 2025-11-25.
    pub fn read(params: Option<Value<'_>>) -> Result<Self, Error> {
        let [level] = require_params(params)?.find_unique(["level"])?;
        let level = non_null(level).ok_or_else(|| invalid_member("params.level", "a log level"))?;
        Ok(Self { level: LoggingLevel::read(level)? })
    }
}
