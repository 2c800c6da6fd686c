//! Task requests: `tasks/get`, `tasks/update`, `tasks/result`, `tasks/list`, `tasks/cancel`.
//!
//! A task of this shard is accessed at once. For one of another shard a message is sent, and the
//! request waits in the call table, with deadline and cancellation, until the result returns.
//!
//! Invariants: a malformed, unknown or expired task id gets the same error, invalid params
//! (-32602), which does not reveal which of them it is.
//!
//! Source: 2025-11-25, basic/utilities/tasks; Tasks extension 2026-07-28.

use serde::Deserialize;
use serde_json::Map;

use super::admission::Request;
use super::{Dispatcher, MessageContext};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::engine::mesh::ShardId;
use crate::protocol::eras::{ClientCapabilities, Method};
use crate::protocol::error::{Error, ErrorKind};
use crate::protocol::model;
use crate::protocol::params::{self, PaginatedRequestParams, UpdateTaskRequestParams};
use crate::protocol::revision::Revision;
use crate::server::calls::HandlerWork;
use crate::server::connection_state::PeerState;
use crate::server::handlers::HandlerEvent;
use crate::server::reply_to::{Outcome, PeerId};
use crate::server::shard_message::ShardMessage;
use crate::server::tasks::{
    RemoteTaskRequest, Task, TaskId, TaskMessage, TaskOp, TaskOutcome, TaskWaiter,
};
use crate::service::Features;

impl Dispatcher {
    /// Dispatches a task request.
    pub(super) fn dispatch_task_request(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Outcome {
        let start = peer.outgoing.len();
        let answered = match check_tasks_capability(request) {
            Ok(()) if request.method == Method::TasksList => {
                self.list_tasks(ctx.reply_to.peer_id, peer, request)
            }
            Ok(()) => self.run_task_op(ctx, peer, request),
            Err(error) => Err(error),
        };
        answered.unwrap_or_else(|error| {
            peer.outgoing.truncate(start);
            self.write_request_error(peer, request, &error)
        })
    }

    /// Runs a task operation, here or on the shard that owns the task.
    fn run_task_op(
        &mut self,
        ctx: MessageContext,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<Outcome, Error> {
        let (task, op) = read_task_op(request)?;
        let revision = request.revision;
        let deadline = ctx.now.after(self.request_timeout);
        let (owner, shard) = (task.owner_shard(self.shard_count), self.shard);
        if owner != shard {
            self.check_shard_backlog(owner)?;
            let call_id = self.insert_call(ctx, peer, request, HandlerWork::Remote)?;
            let request_message =
                RemoteTaskRequest { task, shard, call: call_id, deadline, revision, op };
            self.send_task_message(owner, TaskMessage::Request(request_message));
            return Ok(Outcome::None);
        }
        let key = self.tasks.find(task, revision.is_modern()).ok_or_else(unknown_task_error)?;
        if self.must_wait(key, &op, ctx.now)? {
            let call_id = self.insert_call(ctx, peer, request, HandlerWork::Remote)?;
            self.wait_for_task(key, TaskWaiter { shard, call: call_id, deadline });
            return Ok(Outcome::None);
        }
        let out = &mut *peer.outgoing;
        model::begin_response(out, request.id);
        self.apply_task_op(key, &op, revision, ctx.now, out)?;
        model::end_response(out);
        Ok(Outcome::Response)
    }

    /// Returns whether an operation has to wait for the end of the task. Fails if too many calls
    /// wait already.
    pub(in crate::server) fn must_wait(
        &mut self,
        key: Key,
        op: &TaskOp,
        now: Instant,
    ) -> Result<bool, Error> {
        match self.tasks.get_mut(key) {
            Some(task) if matches!(op, TaskOp::Result) && !task.has_ended() => {
                if task.has_waiter_capacity(now) {
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

    /// Registers a call that waits for the end of a task, after [`Dispatcher::must_wait`].
    pub(in crate::server) fn wait_for_task(&mut self, key: Key, waiter: TaskWaiter) {
        if let Some(task) = self.tasks.get_mut(key) {
            task.add_waiter(waiter);
        }
    }

    /// Runs an operation that need not wait: appends the result to `out`, whose content is
    /// unspecified after an error.
    pub(in crate::server) fn apply_task_op(
        &mut self,
        key: Key,
        op: &TaskOp,
        revision: Revision,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        match op {
            TaskOp::Get => {}
            TaskOp::Result => return self.write_task_result(key, out),
            TaskOp::Update(responses) => {
                let task = self.tasks.get_mut(key).ok_or_else(unknown_task_error)?;
                task.inputs.update(responses)?;
                self.tasks.update_input_status(key, now);
            }
            TaskOp::Cancel => self.cancel_task(key, now)?,
        }
        let task = self.tasks.get_mut(key).ok_or_else(unknown_task_error)?;
        let suffix = self.catalog.result_suffix(revision);
        task.with_detail(self.wall_clock, |view, detail| match op {
            TaskOp::Update(_) => model::write_empty_result(out, suffix),
            TaskOp::Cancel => model::write_cancel_task_result(out, revision, &view, suffix),
            TaskOp::Get | TaskOp::Result => {
                model::write_get_task_result(out, revision, &view, detail, suffix);
            }
        });
        Ok(())
    }

    /// `tasks/cancel`: for an ended task it succeeds (modern) or fails (2025-11-25).
    fn cancel_task(&mut self, key: Key, now: Instant) -> Result<(), Error> {
        let task = self.tasks.get_mut(key).ok_or_else(unknown_task_error)?;
        if task.has_ended() {
            if task.revision.is_modern() {
                return Ok(());
            }
            let status = task.status().as_str();
            return Err(Error::invalid_params(format!("the task has ended: status {status}")));
        }
        self.abort_task(key, "the task was cancelled by request", now);
        Ok(())
    }

    /// Cancels a task and its handler; its client requests are cancelled at the end of the turn.
    pub(in crate::server) fn abort_task(&mut self, key: Key, reason: &'static str, now: Instant) {
        if self.tasks.cancel(key, reason, now) {
            self.counters.requests.tasks_cancelled += 1;
            let Some(task) = self.tasks.get_mut(key) else { return };
            for number in task.client_requests.take() {
                self.handler_queue.push(HandlerEvent::CancelRequest { number });
            }
            if let Some(work) = task.handler() {
                work.cancel();
            }
        }
    }

    /// Fails a task that waits for `tasks/update` (2026-07-28), because no requests are read any
    /// more, and cancels its handler. Client requests of tasks up to 2025-11-25 are cancelled with
    /// all others.
    pub(in crate::server) fn fail_waiting_for_input(&mut self, key: Key, now: Instant) {
        let Some(task) = self.tasks.get_mut(key).filter(|task| task.inputs.is_open()) else {
            return;
        };
        let open = task.inputs.with_open(<[_]>::len);
        let reason = "the server shut down while the task waited for input";
        if self.tasks.fail(key, Error::internal(reason), now) {
            self.counters.client_requests.cancelled += open as u64;
            if let Some(work) = self.tasks.get_mut(key).and_then(Task::handler) {
                work.cancel();
            }
        }
    }

    /// Writes the result of `tasks/result` for an ended task: the result of the call itself.
    pub(in crate::server) fn write_task_result(
        &mut self,
        key: Key,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let task = self.tasks.get_mut(key).ok_or_else(unknown_task_error)?;
        match task.outcome() {
            Some(TaskOutcome::Result { body, .. }) => {
                model::write_get_task_payload_result(out, body, task.id_text());
                Ok(())
            }
            Some(TaskOutcome::Error(error)) => Err(error.clone()),
            None => Err(Error::internal("the task was cancelled and has no result")),
        }
    }

    /// `tasks/list`: the tasks that this peer began, which are all on this shard. Without
    /// authorization there is no other owner to select by.
    fn list_tasks(
        &self,
        peer_id: PeerId,
        peer: &mut PeerState<'_>,
        request: &Request<'_>,
    ) -> Result<Outcome, Error> {
        let PaginatedRequestParams { cursor, .. } = PaginatedRequestParams::read(request.params)?;
        let (tasks, next) = self.tasks.list_page(peer_id, cursor)?;
        let out = &mut *peer.outgoing;
        model::begin_response(out, request.id);
        let views = tasks.iter().map(|task| task.view(self.wall_clock));
        model::write_list_tasks_result(out, views, next.as_deref());
        model::end_response(out);
        Ok(Outcome::Response)
    }

    /// Returns the well-formed task ids. Only its shard knows whether a task exists; an unknown one
    /// sends no notifications. The ids of a slow shard are left out of the acknowledgement.
    pub(super) fn watchable_tasks<'a>(&mut self, mut names: Vec<&'a str>) -> Vec<&'a str> {
        let has_tasks = self.catalog.has_features(Features::TASKS);
        names.retain(|name| {
            let owner = TaskId::parse(name).map(|task| task.owner_shard(self.shard_count));
            has_tasks && owner.is_some_and(|owner| self.check_shard_backlog(owner).is_ok())
        });
        names
    }

    /// Rejects a request for a shard whose message queue is full. This bounds what peers can cause;
    /// responses and status notifications are bounded by the requests and tasks.
    fn check_shard_backlog(&mut self, shard: ShardId) -> Result<(), Error> {
        if !self.slow_shards.contains(&shard) {
            return Ok(());
        }
        self.counters.shard.messages_not_sent += 1;
        Err(Error::new(
            ErrorKind::TooManyRequests,
            "the shard of the task is overloaded; try again later",
        ))
    }

    /// Subscribes this shard to a task. The current status is sent at once, and again if it is
    /// subscribed again, so that no change is missed.
    pub(in crate::server) fn watch_task(&mut self, name: &str) {
        let Some(task) = TaskId::parse(name) else { return };
        let (owner, shard) = (task.owner_shard(self.shard_count), self.shard);
        if owner != shard {
            self.send_task_message(owner, TaskMessage::Watch { task, shard });
        } else if let Some(key) = self.tasks.find(task, true) {
            self.tasks.watch(key, shard);
        }
    }

    /// Queues a task message to another shard, sent at the end of the turn.
    pub(in crate::server) fn send_task_message(&mut self, shard: ShardId, message: TaskMessage) {
        self.outgoing_messages.push((shard, ShardMessage::Task(Box::new(message))));
    }
}

/// Checks that the client supports tasks; the server's support was checked before.
fn check_tasks_capability(request: &Request<'_>) -> Result<(), Error> {
    let needed = ClientCapabilities::EXTENSION_TASKS;
    if request.revision.is_modern() && !request.capabilities.contains(needed) {
        return Err(Error::missing_capability(needed));
    }
    Ok(())
}

/// Reads the task id and the operation of a request.
fn read_task_op(request: &Request<'_>) -> Result<(TaskId, TaskOp), Error> {
    let (id, op) = match request.method {
        Method::TasksUpdate => {
            let UpdateTaskRequestParams { task_id: id, input_responses } =
                UpdateTaskRequestParams::read(request.params)?;
            let responses = Map::deserialize(input_responses);
            let responses = responses.map_err(|error| Error::invalid_params(error.to_string()))?;
            (id, TaskOp::Update(responses))
        }
        Method::TasksCancel => {
            (params::TaskIdParams::read(request.params)?.task_id, TaskOp::Cancel)
        }
        Method::TasksResult => {
            (params::TaskIdParams::read(request.params)?.task_id, TaskOp::Result)
        }
        _ => (params::TaskIdParams::read(request.params)?.task_id, TaskOp::Get),
    };
    Ok((TaskId::parse(id).ok_or_else(unknown_task_error)?, op))
}

/// The error for an invalid, unknown or expired task id.
#[cold]
pub(in crate::server) fn unknown_task_error() -> Error {
    Error::invalid_params("unknown or expired task id")
}
