//! Tasks: calls whose result is stored until the client fetches it.
//!
//! A task is owned by the shard whose connection created it. Its id names that shard, so a request
//! that arrives at another shard is forwarded to the owner (`TaskMessage`). `task` holds one task,
//! `table` all of a shard; `operations` are the operations of clients, and [`Tasks`] is driven by
//! the dispatcher. This module runs no handler and reads no clock; whatever it sends is an effect.
//!
//! Both generations of the protocol are served: the core tasks of 2025-11-25, which the caller
//! requests, and the extension `io.modelcontextprotocol/tasks` of 2026-07-28, where the server
//! decides. A task is visible only to the generation that created it.
//!
//! A task is visible only to the principal that created it. Without authentication its id is a
//! bearer credential: therefore ids are unguessable, tasks are short-lived, and `tasks/list`
//! (2025-11-25) returns only the tasks of the same connection.

mod task;

mod table;

mod operations;

use bytes::Bytes;
use corelane_base::client_address::ClientAddress;
use corelane_base::slab::Key;
use corelane_base::time::{Instant, WallClock};
use corelane_engine::mesh::ShardId;
use corelane_protocol::error::{Error, ErrorKind};
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model::{self, ChangeNotification};
use corelane_protocol::revision::Revision;

pub(super) use self::operations::{find_task, unknown_task_error};
use self::table::TaskRefusal;
pub(super) use self::table::TaskTable;
pub(super) use self::task::{NewTask, Task, TaskOutcome, TaskOwner, TaskWaiter};
use super::calls::{CancelledWork, HandlerWork};
use super::client_requests::ClientRequests;
use super::outbox::{NotificationKind, Outbox};
use super::owner_id::ShardSet;
use super::shard_message::{RemoteTaskRequest, ShardMessage, TaskEvent, TaskMessage};
use crate::server::shard_message::TaskLimits;
use crate::service::{Catalog, HandlerError, HandlerOutput};
use crate::telemetry::event::Event;
use crate::telemetry::label::TaskLimit;

/// The tasks of one shard.
///
/// Invariants: everyone that waits for the end of a task gets it once; status changes go to
/// subscribers only. A slow peer misses notifications and can call `tasks/get` at any time.
///
/// Source: 2025-11-25, basic/utilities/tasks; Tasks extension 2026-07-28.
#[derive(Debug)]
pub(super) struct Tasks {
    pub(super) table: TaskTable<HandlerWork>,
    pub(super) wall_clock: WallClock,
    pub(super) shards: ShardSet,
    /// No input is read any more.
    is_draining: bool,
}

impl Tasks {
    pub(super) fn new(table: TaskTable<HandlerWork>, shards: ShardSet) -> Self {
        Self { table, wall_clock: WallClock::default(), shards, is_draining: false }
    }

    /// Handles an event of a handler that runs as a task.
    pub(super) fn handle_task_event(
        &mut self,
        key: Key,
        event: TaskEvent,
        catalog: &Catalog,
        client_requests: &mut ClientRequests,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        match event {
            TaskEvent::InputRequested => self.account_inputs(key, now, outbox),
            TaskEvent::Progress { progress, total, message } => {
                self.send_progress(key, progress, total, message.as_deref(), outbox);
            }
            TaskEvent::Finished(result) => {
                let Some(mut task) = self.table.get_mut(key) else { return };
                let (to, revision) = (task.caller.reply_to(), task.caller.revision());
                let open_requests = std::mem::take(&mut task.requests.client_requests);
                drop(task);
                // Client requests that it did not wait for; the others are closed.
                for number in open_requests.numbers() {
                    client_requests.cancel(*number, outbox);
                }
                if result.is_ok() && revision.dialect().elicitation_ids {
                    for elicitation_id in open_requests.accepted_elicitations() {
                        outbox.notify(to, NotificationKind::Required, |text| {
                            model::write_elicitation_complete(text, elicitation_id);
                        });
                    }
                }
                let end = encode_outcome(catalog, revision, result, outbox);
                complete_task(self, key, end, now, outbox);
            }
        }
    }

    /// Accounts the input requests of a task. While draining no input is read, so the task fails.
    pub(super) fn account_inputs(&mut self, key: Key, now: Instant, outbox: &mut Outbox) {
        self.table.update_input_status(key, now);
        if self.is_draining {
            self.fail_waiting_for_input(key, now, outbox);
        }
    }

    /// Fails the tasks that wait for input, from now on as well: nothing more is read, and they
    /// must not delay the drain. Subscribers are notified.
    pub(super) fn begin_drain(&mut self, now: Instant, outbox: &mut Outbox) {
        self.is_draining = true;
        for key in self.table.unfinished() {
            self.fail_waiting_for_input(key, now, outbox);
        }
        self.publish_changes(outbox);
    }

    /// Handles a task operation of another shard.
    pub(super) fn handle_request(
        &mut self,
        request: RemoteTaskRequest,
        catalog: &Catalog,
        client_requests: &mut ClientRequests,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        let RemoteTaskRequest { task, shard, call, deadline, revision, principal, op } = request;
        let found = find_task(self, task, revision, principal.as_deref());
        let found = found.ok_or_else(unknown_task_error);
        let result = match found.and_then(|key| Ok((key, self.must_wait(key, &op, now)?))) {
            Ok((key, true)) => return self.wait(key, TaskWaiter { shard, call, deadline }),
            Ok((key, false)) => {
                let mut body = Vec::new();
                let applied = self.apply(key, &op, client_requests, now, outbox);
                let written = applied
                    .and_then(|()| self.write_result_of(key, &op, revision, catalog, &mut body));
                written.map(|()| body)
            }
            Err(error) => Err(error),
        };
        send_task_message(shard, TaskMessage::Response { call, result }, outbox);
    }

    /// Publishes the tasks that have changed since the last call: to waiting calls, to the
    /// connection that began the task, to subscribers.
    #[inline]
    pub(super) fn publish_changes(&mut self, outbox: &mut Outbox) {
        while let Some(key) = self.table.take_changed() {
            self.publish_change(key, outbox);
        }
    }

    fn publish_change(&mut self, key: Key, outbox: &mut Outbox) {
        let Some(mut task) = self.table.get_mut(key) else { return };
        let waiters = if task.has_ended() { task.observers.take_waiters() } else { Vec::new() };
        drop(task);
        let Some(task) = self.table.get(key) else { return };
        if task.caller.revision().is_modern() {
            self.notify_watchers(key, outbox);
        } else {
            // `notifications/tasks/status`, to the connection that began the task.
            outbox.notify(task.caller.reply_to(), NotificationKind::TaskStatus, |text| {
                task.with_detail(self.wall_clock, |task, detail| {
                    ChangeNotification::TaskStatus { task, detail }.write_legacy(text);
                });
            });
        }
        for waiter in waiters {
            let mut body = Vec::new();
            let result = self.write_result(key, &mut body).map(|()| body);
            complete_waiter(&waiter, result, outbox);
        }
    }

    /// Sends `notifications/tasks` (2026-07-28) to every shard with subscribers.
    fn notify_watchers(&self, key: Key, outbox: &mut Outbox) {
        let task = self.table.get(key).filter(|task| !task.observers.watchers().is_empty());
        let Some(task) = task else { return };
        let (id, version) = (task.id(), task.version());
        let mut tail = Vec::new();
        task.with_detail(self.wall_clock, |task, detail| {
            ChangeNotification::TaskStatus { task, detail }.write_tail(&mut tail);
        });
        let tail = Bytes::from(tail);
        for &shard in task.observers.watchers() {
            let (tail, caller) = (tail.clone(), task.caller.principal().cloned());
            let message = TaskMessage::Changed { task: id, version, caller, tail };
            send_task_message(shard, message, outbox);
        }
    }

    /// Sends progress of a task (up to 2025-11-25) to the connection that began it, if it gave a
    /// token. Modern tasks have no progress.
    fn send_progress(
        &mut self,
        key: Key,
        progress: f64,
        total: Option<f64>,
        message: Option<&str>,
        outbox: &mut Outbox,
    ) {
        let Some(mut task) = self.table.get_mut(key) else { return };
        let to = task.caller.reply_to();
        let Some((token, name)) = task.advance_progress(progress) else { return };
        outbox.notify(to, NotificationKind::Progress, |text| {
            model::write_task_progress(text, token, progress, total, message, name);
        });
    }

    /// Removes tasks whose TTL has passed, cancels their handlers and fails the calls that wait.
    pub(super) fn expire(
        &mut self,
        client_requests: &mut ClientRequests,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        while let Some(mut task) = self.table.expire(now) {
            cancel_handler(&mut task);
            for number in task.requests.client_requests.take() {
                client_requests.cancel(number, outbox);
            }
            for waiter in task.observers.take_waiters() {
                complete_waiter(&waiter, Err(unknown_task_error()), outbox);
            }
        }
    }

    /// Cancels every running task, because the drain timeout has passed.
    pub(super) fn cancel_all(
        &mut self,
        client_requests: &mut ClientRequests,
        now: Instant,
        outbox: &mut Outbox,
    ) {
        for key in self.table.unfinished() {
            let reason = "the server ended before the task did";
            self.abort(key, reason, client_requests, now, outbox);
        }
    }
}

/// Requests cancellation of the handler of a task.
fn cancel_handler(task: &mut Task<HandlerWork>) {
    if task.handler_mut().is_some_and(|work| work.cancel() != CancelledWork::Runs) {
        task.set_handler(None);
    }
}

/// Sends the result of a task to a call that waits for it.
fn complete_waiter(waiter: &TaskWaiter, result: Result<Vec<u8>, Error>, outbox: &mut Outbox) {
    send_task_message(waiter.shard, TaskMessage::Response { call: waiter.call, result }, outbox);
}

/// Sends a task message to a shard.
pub(super) fn send_task_message(shard: ShardId, message: TaskMessage, outbox: &mut Outbox) {
    outbox.forward(shard, ShardMessage::Task(Box::new(message)));
}

/// Encodes the result of a handler for the revision of the task's caller.
fn encode_outcome(
    catalog: &Catalog,
    revision: Revision,
    result: Result<HandlerOutput, HandlerError>,
    outbox: &mut Outbox,
) -> TaskOutcome {
    let mut out = Vec::new();
    match catalog.write_output(revision, PLACEHOLDER_ID, result, &mut out) {
        Ok(is_failed) => {
            outbox.counters.requests.tool_errors += u64::from(is_failed);
            TaskOutcome::Result { body: response_body(&out, PLACEHOLDER_ID).to_vec(), is_failed }
        }
        Err(error) => {
            outbox.count_error(&error);
            TaskOutcome::Error(error)
        }
    }
}

/// Id of a response whose body is extracted before it is sent.
const PLACEHOLDER_ID: Id<'static> = Id::Signed(0);

/// Returns the result in an encoded response to `id`.
pub(super) fn response_body<'r>(response: &'r [u8], id: Id<'_>) -> &'r [u8] {
    let mut before = Vec::new();
    model::begin_response(&mut before, id);
    let mut after = Vec::new();
    model::end_response(&mut after);
    let end = response.len().saturating_sub(after.len());
    response.get(before.len()..end).unwrap_or_default()
}

#[cfg(test)]
mod tests;

/// Creates a task.
///
/// # Errors
///
/// The error response to the call: a limit is reached, or no id can be generated.
pub(super) fn create_task(
    tasks: &mut Tasks,
    new_task: NewTask,
    now: Instant,
    outbox: &mut Outbox,
) -> Result<Key, Error> {
    let address = new_task.owner.address;
    let shard = tasks.shards.own().0;
    match tasks.table.create(new_task, now) {
        Ok(created) => {
            record_evictions(created.evicted, shard, TaskLimit::Tasks, outbox);
            Ok(created.key)
        }
        Err(TaskRefusal::NoRandomBits) => Err(Error::internal("no random bits for a task id")),
        Err(TaskRefusal::Limit { limit, evicted }) => {
            record_evictions(evicted, shard, limit, outbox);
            let requests = &mut outbox.counters.requests;
            match limit {
                TaskLimit::AddressShare => requests.tasks_refused_address_share += 1,
                TaskLimit::TasksPerConnection => requests.tasks_refused_per_connection += 1,
                TaskLimit::Tasks | TaskLimit::TaskBytes => requests.tasks_refused_limit += 1,
            }
            let peer = address.map(ClientAddress::ip);
            outbox.log(Event::TaskRefused { shard, limit, peer });
            Err(too_many_tasks(limit, &tasks.table.limits))
        }
    }
}

/// Stores the outcome of a task's handler, unless the task has ended before.
pub(super) fn complete_task(
    tasks: &mut Tasks,
    key: Key,
    outcome: TaskOutcome,
    now: Instant,
    outbox: &mut Outbox,
) {
    let room = tasks.table.complete(key, outcome, now);
    let shard = tasks.shards.own().0;
    record_evictions(room.evicted, shard, TaskLimit::TaskBytes, outbox);
    let Some(limit) = room.refused else { return };
    outbox.counters.requests.task_results_refused += 1;
    let address = tasks.table.get(key).and_then(|task| task.caller.address());
    let peer = address.map(ClientAddress::ip);
    outbox.log(Event::TaskResultRefused { shard, limit, peer });
}

/// Counts and logs tasks that were evicted at `limit`.
fn record_evictions(evicted: usize, shard: u16, limit: TaskLimit, outbox: &mut Outbox) {
    if evicted > 0 {
        outbox.counters.requests.tasks_evicted += evicted as u64;
        outbox.log(Event::TaskEvicted { shard, limit });
    }
}

#[cold]
fn too_many_tasks(limit: TaskLimit, limits: &TaskLimits) -> Error {
    let message = match limit {
        TaskLimit::TasksPerConnection => {
            let tasks_max = limits.tasks_per_connection_max;
            format!("too many tasks (limit {tasks_max} per connection); try again later")
        }
        TaskLimit::AddressShare => {
            let tasks_max = limits.address_share.of(limits.tasks_max);
            format!(
                "too many tasks of this caller or its network (limit {tasks_max} per shard, less \
                 what others hold: address_share_percent of tasks_max); try again later"
            )
        }
        TaskLimit::Tasks | TaskLimit::TaskBytes => {
            format!("too many tasks (limit {} per shard); try again later", limits.tasks_max)
        }
    };
    Error::new(ErrorKind::TooManyRequests, message)
}
