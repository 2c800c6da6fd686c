//! What is said about requests in flight, and from which level on log messages are wanted.

use super::fields::{object, present, wrong};
use crate::protocol::era::LogLevel;
use crate::protocol::error::Error;
use crate::protocol::json::Value;
use crate::protocol::rpc::Id;

/// The params of `notifications/cancelled`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Cancelled<'a> {
    /// The request that is not wanted any more.
    pub request: Id<'a>,
    /// Why, for a human.
    pub reason: Option<&'a str>,
}

impl<'a> Cancelled<'a> {
    /// Reads the params; none where they name no request. Nobody is told: it is a notification.
    ///
    /// Source: `basic/utilities/cancellation` (2025-11-25), `basic/patterns/cancellation`
    /// (2026-07-28).
    #[inline]
    pub fn read(params: Option<Value<'a>>) -> Option<Self> {
        let [request, reason] = params?.as_object()?.once(["requestId", "reason"]).ok()?;
        let request = Id::from_value(request?)?;
        Some(Self { request, reason: reason.and_then(Value::as_str) })
    }
}

/// The params of `notifications/progress`, sent for a request of the server's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress<'a> {
    /// The token that the request carried.
    pub token: Id<'a>,
    /// How far it has come, in a unit of the sender's.
    pub progress: f64,
    /// How far it has to go, in the same unit.
    pub total: Option<f64>,
}

impl<'a> Progress<'a> {
    /// Reads the params; none where token or progress is missing. Nobody is told: it is a
    /// notification.
    ///
    /// Source: `basic/utilities/progress`, 2024-11-05 to 2025-11-25.
    pub fn read(params: Option<Value<'a>>) -> Option<Self> {
        let keys = ["progressToken", "progress", "total"];
        let [token, progress, total] = params?.as_object()?.once(keys).ok()?;
        let (token, progress) = (Id::from_value(token?)?, progress?.as_f64()?);
        Some(Self { token, progress, total: total.and_then(Value::as_f64) })
    }
}

/// The params of `logging/setLevel`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SetLevel {
    /// The least important message that is wanted.
    pub level: LogLevel,
}

impl SetLevel {
    /// Reads the params.
    ///
    /// # Errors
    ///
    /// Invalid params (-32602) where the level is missing, twice or none of the eight.
    ///
    /// Source: `server/utilities/logging`, 2024-11-05 to 2025-11-25.
    pub fn read(params: Option<Value<'_>>) -> Result<Self, Error> {
        let [level] = object(params)?.once(["level"])?;
        let level = present(level).ok_or_else(|| wrong("params.level", "a log level"))?;
        Ok(Self { level: LogLevel::read(level)? })
    }
}
