//! One task: status, times, result, and who waits for it.
//!
//! Invariants: a task begins as `working` and alternates between that and `input_required`; the
//! statuses `completed`, `failed` and `cancelled` are final, whatever its handler still does.
//!
//! Source: MCP 2025-11-25, basic/utilities/tasks, "Task Status Lifecycle"; Tasks extension
//! 2026-07-28, "Task Status".

mod caller;

mod requests;

mod state;

mod observers;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::principal::Principal;
use corelane_base::time::{Instant, WallClock};
use corelane_protocol::error::Error;
use corelane_protocol::jsonrpc::{Id, IdBuf};
use corelane_protocol::model::{TaskDetail, TaskStatus, TaskView};

use self::caller::TaskCaller;
use self::observers::TaskObservers;
pub use self::observers::TaskWaiter;
use self::requests::TaskRequests;
use self::state::TaskState;
use crate::server::owner_id::TaskId;
use crate::server::reply_to::PeerId;
use crate::service::ClientInfo;

/// Parameters of a new task.
#[derive(Debug)]
pub struct NewTask {
    /// Peer that made the call. It may disconnect before the task ends.
    pub peer: PeerId,
    /// Its address, unless it is exempt from the shares.
    pub address: Option<ClientAddress>,
    /// Revision and capabilities of the caller; the result is stored in its revision.
    pub client: ClientInfo,
    /// Token of progress notifications, if the caller requested them.
    pub progress_token: Option<IdBuf>,
    /// Requested ttl.
    pub ttl: Option<Duration>,
    /// The authenticated caller, who alone finds the task.
    pub principal: Option<Arc<Principal>>,
}

/// Outcome of a task that was not cancelled.
#[derive(Clone, Debug)]
pub enum TaskOutcome {
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

/// One task of a shard, with a handler `W`.
#[derive(Debug)]
pub struct Task<W> {
    id: TaskId,
    id_text: String,
    /// Number of the task on its shard, in order of creation.
    number: u64,
    state: TaskState,
    outcome: Option<TaskOutcome>,
    /// Whether the outcome was written to a client.
    is_fetched: bool,
    /// The handler, until it completes.
    handler: Option<W>,
    pub caller: TaskCaller,
    pub requests: TaskRequests,
    pub(super) observers: TaskObservers,
}

impl<W> Task<W> {
    /// Creates a task without handler. `ttl` replaces the one that was requested.
    pub(super) fn new(
        (id, number): (TaskId, u64),
        birth: NewTask,
        ttl: Duration,
        now: Instant,
    ) -> Self {
        let NewTask { peer, address, client, progress_token, principal, .. } = birth;
        Self {
            id,
            id_text: id.to_string(),
            number,
            state: TaskState::new(ttl, now),
            outcome: None,
            is_fetched: false,
            handler: None,
            caller: TaskCaller::new((peer, address), principal, client.revision, progress_token),
            requests: TaskRequests::default(),
            observers: TaskObservers::default(),
        }
    }

    /// Returns its id.
    pub const fn id(&self) -> TaskId {
        self.id
    }

    /// Returns its id as text.
    pub fn id_text(&self) -> &str {
        &self.id_text
    }

    /// Returns its number on its shard, in order of creation.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Returns its status.
    pub const fn status(&self) -> TaskStatus {
        self.state.status()
    }

    /// Returns whether its status is final.
    pub const fn has_ended(&self) -> bool {
        self.status().is_terminal()
    }

    /// Returns the version of its state: 1 at creation, increased by every change.
    pub(super) const fn version(&self) -> u32 {
        self.state.version()
    }

    /// Returns what both generations of the protocol show.
    pub fn view(&self, calendar: WallClock) -> TaskView<'_> {
        self.state.view(&self.id_text, calendar)
    }

    /// Calls `tell` with the view of the task and the details of the extension.
    pub fn with_detail<T>(
        &self,
        calendar: WallClock,
        tell: impl FnOnce(TaskView<'_>, TaskDetail<'_>) -> T,
    ) -> T {
        let view = self.view(calendar);
        match &self.outcome {
            Some(TaskOutcome::Result { body, .. }) => tell(view, TaskDetail::Result(body)),
            Some(TaskOutcome::Error(error)) => tell(view, TaskDetail::Error(error)),
            None if self.status() == TaskStatus::InputRequired => {
                self.requests.inputs.with_open(|open| tell(view, TaskDetail::InputRequests(open)))
            }
            None => tell(view, TaskDetail::None),
        }
    }

    /// Returns its outcome; `None` while it runs, and if it was cancelled.
    pub const fn outcome(&self) -> Option<&TaskOutcome> {
        self.outcome.as_ref()
    }

    /// Returns the bytes that its outcome counts for.
    pub(super) fn result_bytes(&self) -> usize {
        self.outcome.as_ref().map_or(0, TaskOutcome::bytes)
    }

    /// Returns whether it has an outcome that was not written to a client.
    pub(super) const fn has_unfetched_result(&self) -> bool {
        self.outcome.is_some() && !self.is_fetched
    }

    /// Records that the outcome was written to a client.
    pub(super) const fn mark_fetched(&mut self) {
        self.is_fetched = true;
    }

    /// Returns when its status changed last.
    pub(super) const fn updated(&self) -> Instant {
        self.state.updated()
    }

    /// Returns whether its handler runs or a change is unsent.
    pub(super) const fn has_pending_work(&self) -> bool {
        self.handler.is_some() || self.observers.has_unsent_change()
    }

    /// Returns the handler while it runs.
    pub const fn handler(&mut self) -> Option<&mut W> {
        self.handler.as_mut()
    }

    /// Returns the handler while it runs.
    pub(super) const fn running_handler(&self) -> Option<&W> {
        self.handler.as_ref()
    }

    /// Stores the handler, or removes it when it has completed.
    pub fn set_handler(&mut self, handler: Option<W>) {
        self.handler = handler;
    }

    /// Advances the progress of its caller; returns the token and the task id to send it with.
    /// Returns `None` if it is not due, or the task has ended.
    pub(super) fn advance_progress(&mut self, progress: f64) -> Option<(Id<'_>, &str)> {
        if self.has_ended() {
            return None;
        }
        let token = self.caller.advance_progress(progress)?;
        Some((token, &self.id_text))
    }

    /// Updates the status of a task that has not ended: `input_required` while a request is open.
    /// Returns `false` if nothing is changed.
    pub(super) fn update_input_status(&mut self, now: Instant) -> bool {
        let is_open = self.requests.is_open();
        if self.has_ended() || (!is_open && self.status() == TaskStatus::Working) {
            return false;
        }
        let status = if is_open { TaskStatus::InputRequired } else { TaskStatus::Working };
        self.state.set_status(status, None, now);
        true
    }

    /// Ends the task with a final status, and closes its input requests.
    pub(super) fn end(
        &mut self,
        (status, message): (TaskStatus, Option<Cow<'static, str>>),
        outcome: Option<TaskOutcome>,
        now: Instant,
    ) {
        self.outcome = outcome;
        self.requests.inputs.close();
        self.state.set_status(status, message, now);
    }
}
