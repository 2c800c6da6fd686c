//! The way from a blocking handler that runs as a task to its shard.
//!
//! What it keeps true: a task that was cancelled says nothing more. Where a task is no different
//! from a call (cancellation, changes of what is offered), the voice of a call speaks.

use crate::base::slab::Key;
use crate::protocol::era::LogLevel;
use crate::server::desk::LogMessage;
use crate::server::letter::{Letter, WorkerVoice};
use crate::server::questions::Asker;
use crate::server::tasks::{TaskLetter, TaskNote};
use crate::service::{CatalogError, Client, Edit, WorkerHost};

/// The way from one blocking handler.
#[derive(Debug)]
pub(super) struct TaskWorkerVoice {
    pub(super) call: WorkerVoice,
    pub(super) task: Key,
}

impl WorkerHost for TaskWorkerVoice {
    fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        if !self.is_cancelled() {
            let note = TaskNote::Progress { done, total, message: message.map(str::to_owned) };
            let letter = Letter::Task(Box::new(TaskLetter::Said { task: self.task, note }));
            // Progress is advice: where the box is full the next one will do.
            drop(self.call.post.try_send(self.call.shard, letter));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.call.is_cancelled()
    }

    fn client(&self) -> Client {
        self.call.client()
    }

    fn log(&self, level: LogLevel, logger: Option<&str>, data: serde_json::Value) {
        if self.call.logs.wants(level) && !self.is_cancelled() {
            let (from, logger) = (Asker::Task(self.task), logger.map(str::to_owned));
            let letter = Letter::Log(Box::new(LogMessage { from, level, logger, data }));
            // As those of a call: where the box is full nobody waits for it.
            drop(self.call.post.try_send(self.call.shard, letter));
        }
    }

    fn updated(&self, uri: &str) {
        self.call.updated(uri);
    }

    fn change(&self, edit: Edit) -> Result<(), CatalogError> {
        self.call.change(edit)
    }
}
