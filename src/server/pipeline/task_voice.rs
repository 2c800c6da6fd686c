//! The ways from a handler that runs as a task to its shard.
//!
//! What they keep true: what a task asks is kept in its own [`Inquiries`] until somebody answers,
//! however many requests that takes; a task that was cancelled says nothing more. Where a task is
//! no different from a call (time, cancellation, changes of what is offered), the voice of a call
//! speaks.

use std::future::ready;
use std::rc::Rc;
use std::time::Duration;

use crate::base::slab::Key;
use crate::protocol::era::LogLevel;
use crate::protocol::message::{InputRequest, InputResponse};
use crate::server::desk::Note;
use crate::server::desk::voice::LocalVoice;
use crate::server::letter::{Letter, WorkerVoice};
use crate::server::tasks::{Inquiries, TaskLetter, TaskNote};
use crate::service::{AskError, CatalogError, Client, Edit, HostFuture, LiveHost, WorkerHost};

/// The way from one local handler.
#[derive(Debug)]
pub(super) struct TaskVoice {
    pub(super) call: LocalVoice,
    pub(super) task: Key,
    pub(super) inquiries: Rc<Inquiries>,
}

impl TaskVoice {
    fn say(&self, note: TaskNote) {
        if !self.is_cancelled() {
            self.call.desk.leave(Note::Task { task: self.task, note });
        }
    }
}

impl LiveHost for TaskVoice {
    fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        self.say(TaskNote::Progress { done, total, message: message.map(str::to_owned) });
    }

    fn is_cancelled(&self) -> bool {
        self.call.is_cancelled()
    }

    fn cancelled(&self) -> HostFuture<()> {
        self.call.cancelled()
    }

    fn sleep(&self, span: Duration) -> HostFuture<()> {
        self.call.sleep(span)
    }

    fn client(&self) -> Client {
        self.call.client()
    }

    fn ask(&self, key: &str, request: InputRequest) -> HostFuture<Result<InputResponse, AskError>> {
        if self.is_cancelled() {
            return Box::pin(ready(Err(AskError::Cancelled)));
        }
        if self.inquiries.ask(key, request) {
            self.say(TaskNote::Asked);
        }
        Box::pin(self.inquiries.answer_to(key))
    }

    /// Tasks have no log: 2026-07-28 forbids it, and 2025-11-25 has no place to tie it to.
    fn log(&self, _: LogLevel, _: Option<&str>, _: serde_json::Value) {}

    fn updated(&self, uri: &str) {
        self.call.updated(uri);
    }

    fn change(&self, edit: Edit) -> HostFuture<Result<(), CatalogError>> {
        self.call.change(edit)
    }
}

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

    /// Tasks have no log; see [`TaskVoice`].
    fn log(&self, _: LogLevel, _: Option<&str>, _: serde_json::Value) {}

    fn updated(&self, uri: &str) {
        self.call.updated(uri);
    }

    fn change(&self, edit: Edit) -> Result<(), CatalogError> {
        self.call.change(edit)
    }
}
