//! The handle of a blocking handler that runs as a task.
//!
//! Invariants: a cancelled task sends nothing more. Cancellation and catalog access are those of a
//! call.

use corelane_base::slab::Key;
use corelane_protocol::eras::LoggingLevel;

use crate::server::handlers::BlockingHandle;
use crate::server::shard_message::{LogMessage, Requester, ShardMessage, TaskEvent, TaskMessage};
use crate::service::{BlockingHost, CatalogError, CatalogUpdate, RequestInfo};

#[derive(Debug)]
pub(super) struct TaskBlockingHandle {
    pub(super) call: BlockingHandle,
    pub(super) task: Key,
}

impl BlockingHost for TaskBlockingHandle {
    fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        if !self.is_cancelled() {
            let event =
                TaskEvent::Progress { progress: done, total, message: message.map(str::to_owned) };
            let shard_message =
                ShardMessage::Task(Box::new(TaskMessage::HandlerEvent { task: self.task, event }));
            // Progress is best effort: if the inbox is full, a later value will do.
            drop(self.call.sender.try_send(self.call.shard, shard_message));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.call.is_cancelled()
    }

    fn request(&self) -> &RequestInfo {
        self.call.request()
    }

    fn log(&self, level: LoggingLevel, logger: Option<&str>, data: serde_json::Value) {
        if self.call.log_filter.accepts(level) && !self.is_cancelled() {
            let (requester, logger) = (Requester::Task(self.task), logger.map(str::to_owned));
            let message =
                ShardMessage::Log(Box::new(LogMessage { requester, level, logger, data }));
            // Best effort, as for calls.
            drop(self.call.sender.try_send(self.call.shard, message));
        }
    }

    fn notify_resource_updated(&self, uri: &str) {
        self.call.notify_resource_updated(uri);
    }

    fn update_catalog(&self, update: CatalogUpdate) -> Result<(), CatalogError> {
        self.call.update_catalog(update)
    }
}
