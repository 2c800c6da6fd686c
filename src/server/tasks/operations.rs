//! Operations on tasks: `tasks/get`, `tasks/update`, `tasks/result`, `tasks/list`, `tasks/cancel`.
//!
//! Invariants: a malformed, unknown or expired task id gets the same error, invalid params
//! (-32602), which does not reveal which of them it is.

use std::rc::Rc;

use corelane_base::principal::Principal;
use corelane_base::slab::Key;
use corelane_base::time::Instant;
use corelane_engine::mesh::ShardId;
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model;
use corelane_protocol::revision::Revision;

use super::{TaskOutcome, TaskWaiter, Tasks, cancel_handler, send_task_message};
use crate::server::client_requests::ClientRequests;
use crate::server::handlers::handler_state::RequestCarrier;
use crate::server::outbox::Outbox;
use crate::server::owner_id::TaskId;
use crate::server::reply_to::PeerId;
use crate::server::shard_message::{TaskMessage, TaskOp};
use crate::service::Catalog;

impl Tasks {
    /// Returns whether an operation has to wait for the end of the task. Fails if too many calls
    /// wait already.
    pub fn must_wait(&mut self, key: Key, op: &TaskOp, now: Instant) -> Result<bool, Error> {
        match self.table.get_mut(key) {
            Some(mut task) if matches!(op, TaskOp::Result) && !task.has_ended() => {
                if task.observers.has_waiter_capacity(now) {
                    return Ok(true);
                }
                Err(Error::new(
                    ErrorKind::TooManyRequests,
                    "too many requests wait for this task; use tasks/get",
                ))
            }
            _ => Ok(false),
        }
    }

    /// Registers a call that waits for the end of a task, after [`Tasks::must_wait`].
    pub fn wait(&mut self, key: Key, waiter: TaskWaiter) {
        if let Some(mut task) = self.table.get_mut(key) {
            task.observers.add_waiter(waiter);
        }
    }

    /// Runs an operation that need not wait; [`Tasks::write_result_of`] writes its result.
    pub fn apply(
        &mut self,
        key: Key,
        op: &TaskOp,
        client_requests: &mut ClientRequests,
        now: Instant,
        outbox: &mut Outbox,
    ) -> Result<(), Error> {
        match op {
            TaskOp::Get | TaskOp::Result => {}
            TaskOp::Update(responses) => {
                let task = self.table.get(key).ok_or_else(unknown_task_error)?;
                task.requests.inputs.update(responses)?;
                self.table.update_input_status(key, now);
            }
            TaskOp::Cancel => self.cancel(key, client_requests, now, outbox)?,
        }
        Ok(())
    }

    /// Appends the result of an operation that has run to `out`, whose content is unspecified after
    /// an error.
    pub fn write_result_of(
        &mut self,
        key: Key,
        op: &TaskOp,
        revision: Revision,
        catalog: &Catalog,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        if matches!(op, TaskOp::Result) {
            return self.write_result(key, out);
        }
        let task = self.table.get(key).ok_or_else(unknown_task_error)?;
        let suffix = catalog.result_suffix(revision);
        task.with_detail(self.wall_clock, |view, detail| match op {
            TaskOp::Update(_) => model::write_empty_result(out, suffix),
            TaskOp::Cancel => model::write_cancel_task_result(out, revision, &view, suffix),
            TaskOp::Get | TaskOp::Result => {
                model::write_get_task_result(out, revision, &view, detail, suffix);
            }
        });
        // `tasks/get` of 2026-07-28 returns the result, too.
        if matches!(op, TaskOp::Get) && revision.is_modern() {
            self.table.mark_fetched(key);
        }
        Ok(())
    }

    /// `tasks/cancel`: for an ended task it succeeds (modern) or fails (2025-11-25).
    fn cancel(
        &mut self,
        key: Key,
        client_requests: &mut ClientRequests,
        now: Instant,
        outbox: &mut Outbox,
    ) -> Result<(), Error> {
        let task = self.table.get(key).ok_or_else(unknown_task_error)?;
        if task.has_ended() {
            if task.caller.revision().is_modern() {
                return Ok(());
            }
            let status = task.status().as_str();
            return Err(Error::invalid_params(format!("the task has ended: status {status}")));
        }
        self.abort(key, "the task was cancelled by request", client_requests, now, outbox);
        Ok(())
    }

    /// Cancels a task, its handler and its client requests.
    pub(super) fn abort(
        &mut self,
        key: Key,
        reason: &'static str,
        client_requests: &mut ClientRequests,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        if self.table.cancel(key, reason, now) {
            outbox.counters.requests.tasks_cancelled += 1;
            let Some(mut task) = self.table.get_mut(key) else { return };
            for number in task.requests.client_requests.take() {
                client_requests.cancel(number, outbox);
            }
            cancel_handler(&mut task);
        }
    }

    /// Fails a task that waits for `tasks/update` (2026-07-28), because no requests are read any
    /// more, and cancels its handler. Client requests of tasks up to 2025-11-25 are cancelled with
    /// all others.
    pub(super) fn fail_waiting_for_input(&mut self, key: Key, now: Instant, outbox: &mut Outbox) {
        let task = self.table.get(key).filter(|task| task.requests.inputs.is_open());
        let Some(task) = task else { return };
        let open = task.requests.inputs.with_open(<[_]>::len);
        let reason = "the server shut down while the task waited for input";
        if self.table.fail(key, Error::internal(reason), now) {
            outbox.counters.client_requests.cancelled += open as u64;
            if let Some(mut task) = self.table.get_mut(key) {
                cancel_handler(&mut task);
            }
        }
    }

    /// Writes the result of `tasks/result` for an ended task: the result of the call itself.
    pub(super) fn write_result(&mut self, key: Key, out: &mut Vec<u8>) -> Result<(), Error> {
        self.table.mark_fetched(key);
        let task = self.table.get(key).ok_or_else(unknown_task_error)?;
        match task.outcome() {
            Some(TaskOutcome::Result { body, .. }) => {
                model::write_get_task_payload_result(out, body, task.id_text());
                Ok(())
            }
            Some(TaskOutcome::Error(error)) => Err(error.clone()),
            None => Err(Error::internal("the task was cancelled and has no result")),
        }
    }

    /// Writes the `CreateTaskResult` for the call `id`.
    pub fn write_create_result(&self, id: Id<'_>, out: &mut Vec<u8>, task: Key, catalog: &Catalog) {
        let Some(task) = self.table.get(task) else { return };
        let suffix = catalog.result_suffix(task.caller.revision());
        model::begin_response(out, id);
        task.with_detail(self.wall_clock, |view, _| {
            model::write_create_task_result(out, task.caller.revision(), &view, suffix);
        });
        model::end_response(out);
    }

    /// Writes the response to `tasks/list`: the tasks that `peer_id` began, which are all on this
    /// shard. Without authorization there is no other owner to select by.
    pub fn write_list(
        &self,
        peer_id: PeerId,
        cursor: Option<&str>,
        id: Id<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let (tasks, next) = self.table.list_page(peer_id, cursor)?;
        model::begin_response(out, id);
        let views = tasks.iter().map(|task| task.view(self.wall_clock));
        model::write_list_tasks_result(out, views, next.as_deref());
        model::end_response(out);
        Ok(())
    }

    /// Returns how the handler of a task requests input.
    pub fn carrier(&self, key: Key) -> RequestCarrier {
        match self.table.get(key) {
            Some(task) if task.caller.revision().is_modern() => {
                RequestCarrier::TaskInput(Rc::clone(&task.requests.inputs))
            }
            _ => RequestCarrier::ServerRequest,
        }
    }

    /// Returns the shard that owns a task.
    pub fn owner(&self, task: TaskId) -> ShardId {
        task.owner(self.shards.count())
    }

    /// Returns whether `name` is a well-formed task id to which a stream can subscribe. Only its
    /// shard knows whether the task exists; an unknown one sends no notifications.
    pub fn is_watchable(&self, name: &str, outbox: &mut Outbox) -> bool {
        let owner = TaskId::parse(name).map(|task| self.owner(task));
        owner.is_some_and(|owner| self.check_backlog(owner, outbox).is_ok())
    }

    /// Rejects a request for a shard whose message queue is full. This bounds what peers can cause;
    /// responses and status notifications are bounded by the requests and tasks.
    pub fn check_backlog(&self, shard: ShardId, outbox: &mut Outbox) -> Result<(), Error> {
        if !self.shards.is_slow(shard) {
            return Ok(());
        }
        outbox.counters.shard.messages_not_sent += 1;
        Err(Error::new(
            ErrorKind::TooManyRequests,
            "the shard of the task is overloaded; try again later",
        ))
    }

    /// Subscribes this shard to a task. The current status is sent at once, and again if it is
    /// subscribed again, so that no change is missed.
    pub fn watch(&mut self, name: &str, outbox: &mut Outbox) {
        let Some(task) = TaskId::parse(name) else { return };
        let (owner, shard) = (self.owner(task), self.shards.own());
        if owner != shard {
            send_task_message(owner, TaskMessage::Watch { task, shard }, outbox);
        } else if let Some(key) = self.table.find(task, true) {
            self.table.watch(key, shard);
        }
    }
}

/// Returns the task `id` if `principal` has created it in the generation of `revision`.
pub fn find_task(
    tasks: &mut Tasks,
    id: TaskId,
    revision: Revision,
    principal: Option<&Principal>,
) -> Option<Key> {
    let key = tasks.table.find(id, revision.is_modern())?;
    tasks.table.get(key)?.caller.is_caller(principal).then_some(key)
}

/// The error for an invalid, unknown, foreign or expired task id.
#[cold]
pub fn unknown_task_error() -> Error {
    Error::invalid_params("unknown or expired task id")
}
