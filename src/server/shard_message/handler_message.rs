//! Messages of handlers to the shard of their call or task.

use corelane_base::slab::Key;
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::in_flight::CallId;

use crate::service::CatalogError;

/// A handler, by what it runs as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Requester {
    /// A call, by its id.
    Call(Key),
    /// A task of this shard.
    Task(Key),
}

/// A log message of a call or a task.
#[derive(Debug)]
pub struct LogMessage {
    pub requester: Requester,
    pub level: LoggingLevel,
    pub logger: Option<String>,
    /// Any JSON value.
    pub data: serde_json::Value,
}

/// The progress of a call (`notifications/progress`).
#[derive(Debug)]
pub struct Progress {
    pub call_id: CallId,
    pub progress: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// A part of the result of a call, ahead of it.
#[derive(Debug)]
pub struct PartialResult {
    pub call_id: CallId,
    /// Any JSON value.
    pub data: serde_json::Value,
}

/// The result of an update; `None` if it panicked.
pub type UpdateResult = Option<Result<(), CatalogError>>;
