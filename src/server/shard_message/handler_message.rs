//! Messages of handlers to the shard of their call or task.

use crate::base::slab::Key;
use crate::protocol::eras::LoggingLevel;
use crate::protocol::in_flight::CallId;
use crate::service::CatalogError;

/// A handler, by what it runs as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) enum Requester {
    /// A call, by its id.
    Call(Key),
    /// A task of this shard.
    Task(Key),
}

/// A log message of a call or a task.
#[derive(Debug)]
pub(in crate::server) struct LogMessage {
    pub(in crate::server) requester: Requester,
    pub(in crate::server) level: LoggingLevel,
    pub(in crate::server) logger: Option<String>,
    /// Any JSON value.
    pub(in crate::server) data: serde_json::Value,
}

/// The progress of a call (`notifications/progress`).
#[derive(Debug)]
pub(in crate::server) struct Progress {
    pub(in crate::server) call_id: CallId,
    pub(in crate::server) progress: f64,
    pub(in crate::server) total: Option<f64>,
    pub(in crate::server) message: Option<String>,
}

/// A part of the result of a call, ahead of it.
#[derive(Debug)]
pub(in crate::server) struct PartialResult {
    pub(in crate::server) call_id: CallId,
    /// Any JSON value.
    pub(in crate::server) data: serde_json::Value,
}

/// The result of an update; `None` if it panicked.
pub(in crate::server) type UpdateResult = Option<Result<(), CatalogError>>;
