//! The connection from blocking handlers to the shard of their call.

use std::fmt;
use std::sync::{Arc, Weak};

use corelane_engine::mesh::{Sender, ShardId};
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::in_flight::CallId;

use super::local_context::LogFilter;
use crate::server::shard_message::{LogMessage, PartialResult, Progress, Requester, ShardMessage};
use crate::service::{BlockingHost, CatalogError, CatalogUpdate, RequestInfo};

/// Access of blocking handlers to the catalog and to all shards.
pub trait CatalogAccess: fmt::Debug + Send + Sync {
    /// Updates the catalog; see [`crate::service::BlockingContext`].
    fn update_catalog(&self, edit: CatalogUpdate) -> Result<(), CatalogError>;

    /// Notifies the subscribers of a resource that it has changed.
    fn notify_resource_updated(&self, uri: &str);
}

/// The connection from one blocking handler to the shard of its call.
#[derive(Debug)]
pub struct BlockingHandle {
    pub sender: Sender<ShardMessage>,
    pub shard: ShardId,
    pub call_id: CallId,
    /// Alive until the call is cancelled.
    pub alive: Weak<()>,
    pub request: Arc<RequestInfo>,
    pub log_filter: LogFilter,
    pub catalog: Arc<dyn CatalogAccess>,
}

impl BlockingHost for BlockingHandle {
    fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) {
        if !self.is_cancelled() {
            let message = message.map(str::to_owned);
            let progress = Progress { call_id: self.call_id, progress, total, message };
            // Progress is best effort: if the inbox is full, a later value will do.
            drop(self.sender.try_send(self.shard, ShardMessage::Progress(progress)));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.alive.strong_count() == 0
    }

    fn request(&self) -> &RequestInfo {
        &self.request
    }

    fn log(&self, level: LoggingLevel, logger: Option<&str>, data: serde_json::Value) {
        if self.log_filter.accepts(level) && !self.is_cancelled() {
            let logger = logger.map(str::to_owned);
            let message =
                LogMessage { requester: Requester::Call(self.call_id), level, logger, data };
            // Best effort: a log message is worthless after the response.
            drop(self.sender.try_send(self.shard, ShardMessage::Log(Box::new(message))));
        }
    }

    fn partial_result(&self, data: serde_json::Value) {
        if !self.is_cancelled() {
            let part = Box::new(PartialResult { call_id: self.call_id, data });
            // Best effort: the result is complete without its parts.
            drop(self.sender.try_send(self.shard, ShardMessage::Partial(part)));
        }
    }

    fn notify_resource_updated(&self, uri: &str) {
        self.catalog.notify_resource_updated(uri);
    }

    fn update_catalog(&self, update: CatalogUpdate) -> Result<(), CatalogError> {
        self.catalog.update_catalog(update)
    }
}
