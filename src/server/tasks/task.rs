//! One task: status, times, result, and who waits for it.
//!
//! Invariants: a task begins as `working` and alternates between that and `input_required`; the
//! statuses `completed`, `failed` and `cancelled` are final, whatever its handler still does.
//!
//! Source: MCP 2025-11-25, basic/utilities/tasks, "Task Status Lifecycle"; Tasks extension
//! 2026-07-28, "Task Status".

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use crate::base::time::{Instant, WallClock};
use crate::engine::mesh::ShardId;
use crate::protocol::error::Error;
use crate::protocol::in_flight::CallId;
use crate::protocol::jsonrpc::IdBuf;
use crate::protocol::model::{TaskDetail, TaskStatus, TaskView};
use crate::protocol::revision::Revision;
use crate::server::client_requests::{OpenRequests, TaskInputs};
use crate::server::owner_id::TaskId;
use crate::server::reply_to::PeerId;
use crate::service::ClientInfo;

/// Parameters of a new task.
#[derive(Debug)]
pub(in crate::server) struct NewTask {
    /// Peer that made the call. It may disconnect before the task ends.
    pub(in crate::server) peer: PeerId,
    /// Revision and capabilities of the caller; the result is stored in its revision.
    pub(in crate::server) client: ClientInfo,
    /// Token of progress notifications, if the caller requested them.
    pub(in crate::server) progress_token: Option<IdBuf>,
    /// Requested ttl.
    pub(in crate::server) ttl: Option<Duration>,
}

/// Outcome of a task that was not cancelled.
#[derive(Clone, Debug)]
pub(in crate::server) enum TaskOutcome {
    /// A result.
    Result {
        /// One JSON object, in the revision of the caller.
        body: Vec<u8>,
        /// Whether it reports that the tool failed (`isError`).
        is_failed: bool,
    },
    /// A JSON-RPC error.
    Error(Error),
}

impl TaskOutcome {
    /// Returns the bytes that it counts for.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Result { body, .. } => body.len(),
            Self::Error(error) => {
                error.message.len() + error.data.as_ref().map_or(0, |data| data.len())
            }
        }
    }
}

/// A call, on any shard, that waits for the end of a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct TaskWaiter {
    /// Shard of the call.
    pub(in crate::server) shard: ShardId,
    /// The call.
    pub(in crate::server) call: CallId,
    /// Deadline of the call.
    pub(in crate::server) deadline: Instant,
}

/// One task of a shard, with a handler `W`.
#[derive(Debug)]
pub(in crate::server) struct Task<W> {
    pub(in crate::server) id: TaskId,
    pub(super) id_text: String,
    pub(in crate::server) peer: PeerId,
    pub(in crate::server) revision: Revision,
    pub(in crate::server) progress_token: Option<IdBuf>,
    /// Last progress sent; later values must be greater.
    pub(in crate::server) last_progress: f64,
    /// Its input requests (2026-07-28).
    pub(in crate::server) inputs: Rc<TaskInputs>,
    /// Its requests to the client (2025-11-25).
    pub(in crate::server) client_requests: OpenRequests,
    /// Number of the task on its shard, in order of creation.
    pub(super) number: u64,
    pub(super) status: TaskStatus,
    pub(super) message: Option<Cow<'static, str>>,
    pub(super) created: Instant,
    pub(super) updated: Instant,
    /// Version of its state; 1 at creation, increased by every change.
    pub(in crate::server) version: u32,
    pub(super) ttl: Duration,
    pub(super) outcome: Option<TaskOutcome>,
    /// The handler, until it completes.
    pub(super) handler: Option<W>,
    pub(super) waiters: Vec<TaskWaiter>,
    /// Shards with a subscription to the task.
    pub(super) watchers: Vec<ShardId>,
    /// Whether it is in the queue of unsent changes.
    pub(super) has_unsent_change: bool,
}

impl<W> Task<W> {
    /// Returns its status.
    pub(in crate::server) const fn status(&self) -> TaskStatus {
        self.status
    }

    /// Returns whether its status is final.
    pub(in crate::server) const fn has_ended(&self) -> bool {
        self.status.is_terminal()
    }

    /// Returns its id as text.
    pub(in crate::server) fn id_text(&self) -> &str {
        &self.id_text
    }

    /// Returns what both generations of the protocol show.
    pub(in crate::server) fn view(&self, calendar: WallClock) -> TaskView<'_> {
        TaskView {
            task_id: &self.id_text,
            status: self.status,
            status_message: self.message.as_deref(),
            created_at_ms: calendar.unix_ms(self.created),
            last_updated_at_ms: calendar.unix_ms(self.updated),
            ttl_ms: u64::try_from(self.ttl.as_millis()).ok(),
            poll_interval_ms: POLL_INTERVAL_MS,
        }
    }

    /// Calls `tell` with the view of the task and the details of the extension.
    pub(in crate::server) fn with_detail<T>(
        &self,
        calendar: WallClock,
        tell: impl FnOnce(TaskView<'_>, TaskDetail<'_>) -> T,
    ) -> T {
        let view = self.view(calendar);
        match &self.outcome {
            Some(TaskOutcome::Result { body, .. }) => tell(view, TaskDetail::Result(body)),
            Some(TaskOutcome::Error(error)) => tell(view, TaskDetail::Error(error)),
            None if self.status == TaskStatus::InputRequired => {
                self.inputs.with_open(|open| tell(view, TaskDetail::InputRequests(open)))
            }
            None => tell(view, TaskDetail::None),
        }
    }

    /// Returns its outcome; `None` while it runs, and if it was cancelled.
    pub(in crate::server) const fn outcome(&self) -> Option<&TaskOutcome> {
        self.outcome.as_ref()
    }

    /// Returns the handler while it runs.
    pub(in crate::server) const fn handler(&mut self) -> Option<&mut W> {
        self.handler.as_mut()
    }

    /// Returns the shards with a subscription to it.
    pub(in crate::server) fn watchers(&self) -> &[ShardId] {
        &self.watchers
    }

    /// Removes and returns the calls that wait for its end.
    pub(in crate::server) fn take_waiters(&mut self) -> Vec<TaskWaiter> {
        std::mem::take(&mut self.waiters)
    }

    /// Returns whether another call may wait for its end.
    pub(in crate::server) fn has_waiter_capacity(&mut self, now: Instant) -> bool {
        if self.waiters.len() >= WAITERS_MAX {
            // Cancelled calls are not removed one by one: they time out.
            self.waiters.retain(|waiter| waiter.deadline > now);
        }
        self.waiters.len() < WAITERS_MAX
    }

    /// Adds a call that waits for its end.
    pub(in crate::server) fn add_waiter(&mut self, waiter: TaskWaiter) {
        self.waiters.push(waiter);
    }

    /// Adds a shard that is notified of every change.
    pub(super) fn add_watcher(&mut self, shard: ShardId) {
        if !self.watchers.contains(&shard) {
            self.watchers.push(shard);
        }
    }

    pub(super) fn set_status(
        &mut self,
        status: TaskStatus,
        message: Option<Cow<'static, str>>,
        now: Instant,
    ) {
        self.status = status;
        self.message = message;
        self.updated = now;
        self.version = self.version.saturating_add(1);
    }
}

/// Poll interval suggested to clients, in milliseconds.
const POLL_INTERVAL_MS: u64 = 1_000;

/// Limit of calls that wait for the end of one task.
const WAITERS_MAX: usize = 64;
