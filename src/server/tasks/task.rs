//! One task: status, times, result, who waits for it, and the peer whose call began it.
//!
//! Invariants: a task begins as `working` and alternates between that and `input_required`; the
//! statuses `completed`, `failed` and `cancelled` are final, whatever its handler still does.
//!
//! Source: MCP 2025-11-25, basic/utilities/tasks, "Task Status Lifecycle"; Tasks extension
//! 2026-07-28, "Task Status".

use std::borrow::Cow;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use corelane_base::client_address::ClientAddress;
use corelane_base::heap_bytes;
use corelane_base::heap_bytes::{ALLOCATION_BYTES, HeapBytes, buffer_bytes};
use corelane_base::holders::Holder;
use corelane_base::principal::{Principal, is_same_caller};
use corelane_base::time::{Instant, WallClock};
use corelane_engine::mesh::ShardId;
use corelane_protocol::error::Error;
use corelane_protocol::in_flight::CallId;
use corelane_protocol::jsonrpc::{Id, IdBuf};
use corelane_protocol::model::{TaskDetail, TaskStatus, TaskView};
use corelane_protocol::revision::Revision;

use crate::server::client_requests::{OpenRequests, TaskInputs};
use crate::server::owner_id::TaskId;
use crate::server::reply_to::{PeerId, ReplyTo};
use crate::service::ClientInfo;

/// Parameters of a new task.
#[derive(Debug)]
pub struct NewTask {
    /// Peer that made the call. It may disconnect before the task ends.
    pub owner: TaskOwner,
    /// Revision and capabilities of the caller; the result is stored in its revision.
    pub client: ClientInfo,
    /// Token of progress notifications, if the caller requested them.
    pub progress_token: Option<IdBuf>,
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
    /// Returns the bytes that it counts for at the limit of results.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Result { body, .. } => body.len(),
            Self::Error(error) => {
                error.message.len() + error.data.as_ref().map_or(0, |data| data.len())
            }
        }
    }
}

impl HeapBytes for TaskOutcome {
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Result { body, is_failed: _ } => buffer_bytes(body),
            Self::Error(error) => error.heap_bytes(),
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

heap_bytes!(
    impl<W> Task<W> { id_text, state, caller, requests, observers }
    counted { outcome: Self::outcome_overhead }
    inline { id, number, is_fetched }
    // What handlers hold has an account of its own.
    elsewhere { handler }
);

impl<W> Task<W> {
    /// Creates a task without handler. `ttl` replaces the one that was requested.
    pub(super) fn new(
        id: TaskId,
        number: u64,
        birth: NewTask,
        holder: Holder,
        ttl: Duration,
        now: Instant,
    ) -> Self {
        let NewTask { owner, client, progress_token, principal, .. } = birth;
        Self {
            id,
            id_text: id.to_string(),
            number,
            state: TaskState::new(ttl, now),
            outcome: None,
            is_fetched: false,
            handler: None,
            caller: TaskCaller::new(owner, holder, principal, client.revision, progress_token),
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

    /// Returns when its ttl expires.
    pub(super) fn expires_at(&self) -> Instant {
        self.state.created.after(self.state.ttl)
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

    /// Returns the bytes of its outcome beyond those that it counts for as a result.
    fn outcome_overhead(&self) -> usize {
        self.outcome.heap_bytes().saturating_sub(self.result_bytes())
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
    pub const fn handler_mut(&mut self) -> Option<&mut W> {
        self.handler.as_mut()
    }

    /// Returns the handler while it runs.
    pub const fn handler(&self) -> Option<&W> {
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
        status: TaskStatus,
        message: Option<Cow<'static, str>>,
        outcome: Option<TaskOutcome>,
        now: Instant,
    ) {
        self.outcome = outcome;
        self.requests.inputs.close();
        self.state.set_status(status, message, now);
    }
}

/// A stored task that may be changed. What it holds then is accounted when this is dropped.
#[derive(Debug)]
pub struct TaskMut<'t, W> {
    task: &'t mut Task<W>,
    /// Bytes of all tasks without this one.
    others: usize,
    held_bytes: &'t mut usize,
}

impl<'t, W> TaskMut<'t, W> {
    /// Borrows one of the tasks that hold `held_bytes` together.
    pub(super) fn new(task: &'t mut Task<W>, held_bytes: &'t mut usize) -> Self {
        let others = *held_bytes - task.heap_bytes();
        Self { task, others, held_bytes }
    }
}

impl<W> Deref for TaskMut<'_, W> {
    type Target = Task<W>;

    fn deref(&self) -> &Task<W> {
        self.task
    }
}

impl<W> DerefMut for TaskMut<'_, W> {
    fn deref_mut(&mut self) -> &mut Task<W> {
        self.task
    }
}

impl<W> Drop for TaskMut<'_, W> {
    fn drop(&mut self) {
        *self.held_bytes = self.others + self.task.heap_bytes();
    }
}

/// Requests to the client in the forms of both protocol generations; a task uses one of them.
#[derive(Debug, Default)]
pub struct TaskRequests {
    /// Input requests (2026-07-28).
    pub inputs: Rc<TaskInputs>,
    /// Requests from the server to the client (2025-11-25).
    pub client_requests: OpenRequests,
}

heap_bytes!(TaskRequests { client_requests } counted { inputs: Self::inputs_bytes });

impl TaskRequests {
    /// Returns the bytes of the inputs without the requests, which are charged to the handler.
    fn inputs_bytes(&self) -> usize {
        ALLOCATION_BYTES + 2 * size_of::<usize>() + size_of_val(&*self.inputs)
    }

    /// Returns whether a request has no response yet.
    fn is_open(&self) -> bool {
        self.inputs.is_open() || self.client_requests.is_open()
    }
}

/// A call, on any shard, that waits for the end of a task.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TaskWaiter {
    /// Shard of the call.
    pub shard: ShardId,
    pub call: CallId,
    /// Deadline of the call.
    pub deadline: Instant,
}

/// The waiting calls and the subscribed shards of one task.
#[derive(Debug, Default)]
pub struct TaskObservers {
    waiters: Vec<TaskWaiter>,
    watchers: Vec<ShardId>,
    /// Whether the task is in the queue of unsent changes.
    has_unsent_change: bool,
}

heap_bytes!(
    TaskObservers {}
    counted { waiters: Self::waiter_bytes, watchers: Self::watcher_bytes }
    inline { has_unsent_change }
);

impl TaskObservers {
    const fn waiter_bytes(&self) -> usize {
        self.waiters.capacity() * size_of::<TaskWaiter>()
    }

    const fn watcher_bytes(&self) -> usize {
        self.watchers.capacity() * size_of::<ShardId>()
    }

    /// Returns the shards with a subscription to the task.
    pub fn watchers(&self) -> &[ShardId] {
        &self.watchers
    }

    /// Adds a shard that is notified of every change.
    pub fn add_watcher(&mut self, shard: ShardId) {
        if !self.watchers.contains(&shard) {
            self.watchers.push(shard);
        }
    }

    /// Returns whether another call may wait for the end of the task.
    pub fn has_waiter_capacity(&mut self, now: Instant) -> bool {
        if self.waiters.len() >= WAITERS_MAX {
            // Cancelled calls are not removed one by one: they time out.
            self.waiters.retain(|waiter| waiter.deadline > now);
        }
        self.waiters.len() < WAITERS_MAX
    }

    /// Adds a call that waits for the end of the task.
    pub fn add_waiter(&mut self, waiter: TaskWaiter) {
        self.waiters.push(waiter);
    }

    /// Removes and returns the calls that wait for the end of the task.
    pub fn take_waiters(&mut self) -> Vec<TaskWaiter> {
        std::mem::take(&mut self.waiters)
    }

    /// Marks a change as unsent; returns `false` if one was already.
    pub const fn mark_changed(&mut self) -> bool {
        !std::mem::replace(&mut self.has_unsent_change, true)
    }

    /// Returns whether a change is unsent.
    const fn has_unsent_change(&self) -> bool {
        self.has_unsent_change
    }

    /// Marks all changes as sent.
    pub const fn mark_sent(&mut self) {
        self.has_unsent_change = false;
    }
}

/// Limit of calls that wait for the end of one task.
const WAITERS_MAX: usize = 64;

/// What both generations of the protocol show of a task.
#[derive(Debug)]
struct TaskState {
    status: TaskStatus,
    message: Option<Cow<'static, str>>,
    created: Instant,
    updated: Instant,
    /// 1 at creation, increased by every change.
    version: u32,
    ttl: Duration,
}

heap_bytes!(TaskState { message } inline { status, created, updated, version, ttl });

impl TaskState {
    /// Creates the state of a new task, which is `working`.
    const fn new(ttl: Duration, now: Instant) -> Self {
        let status = TaskStatus::Working;
        Self { status, message: None, created: now, updated: now, version: 1, ttl }
    }

    const fn status(&self) -> TaskStatus {
        self.status
    }

    /// Returns when the status changed last.
    const fn updated(&self) -> Instant {
        self.updated
    }

    const fn version(&self) -> u32 {
        self.version
    }

    /// Returns the view of the task `task_id`.
    fn view<'t>(&'t self, task_id: &'t str, calendar: WallClock) -> TaskView<'t> {
        TaskView {
            task_id,
            status: self.status,
            status_message: self.message.as_deref(),
            created_at_ms: calendar.unix_ms(self.created),
            last_updated_at_ms: calendar.unix_ms(self.updated),
            ttl_ms: u64::try_from(self.ttl.as_millis()).ok(),
            poll_interval_ms: POLL_INTERVAL_MS,
        }
    }

    fn set_status(&mut self, status: TaskStatus, message: Option<Cow<'static, str>>, now: Instant) {
        self.status = status;
        self.message = message;
        self.updated = now;
        self.version = self.version.saturating_add(1);
    }
}

/// Poll interval suggested to clients, in milliseconds.
const POLL_INTERVAL_MS: u64 = 1_000;

/// The connection or session that created a task, and its address, unless that is exempt from the
/// shares.
#[derive(Clone, Copy, Debug)]
pub struct TaskOwner {
    pub peer: PeerId,
    pub address: Option<ClientAddress>,
}

/// The caller of a task. It may disconnect before the task ends.
#[derive(Debug)]
pub struct TaskCaller {
    owner: TaskOwner,
    holder: Holder,
    principal: Option<Arc<Principal>>,
    /// Whether the peer has gone.
    is_gone: bool,
    revision: Revision,
    progress_token: Option<IdBuf>,
    /// Last progress sent; later values must be greater.
    last_progress: f64,
}

heap_bytes!(
    TaskCaller { progress_token }
    counted { principal: Self::principal_bytes }
    inline { owner, holder, is_gone, revision, last_progress }
);

impl TaskCaller {
    /// Returns the bytes of the principal, which its peer has, too, until that has gone.
    fn principal_bytes(&self) -> usize {
        if self.is_gone { self.principal.heap_bytes() } else { 0 }
    }

    /// Creates a caller that was sent no progress. A long progress token is dropped: progress
    /// notifications are optional, and a token that is stored for the ttl must be short.
    fn new(
        owner: TaskOwner,
        holder: Holder,
        principal: Option<Arc<Principal>>,
        revision: Revision,
        progress_token: Option<IdBuf>,
    ) -> Self {
        let is_short = |token: &IdBuf| match token.as_id() {
            Id::Text(text) => text.len() <= PROGRESS_TOKEN_BYTES_MAX,
            Id::Signed(_) | Id::Unsigned(_) | Id::Whole(_) => true,
        };
        let progress_token = progress_token.filter(is_short);
        let (is_gone, last_progress) = (false, f64::NEG_INFINITY);
        Self { owner, holder, principal, is_gone, revision, progress_token, last_progress }
    }

    /// Returns the connection or session of its call.
    pub(super) const fn peer(&self) -> PeerId {
        self.owner.peer
    }

    /// Returns for whom the task counts.
    pub(super) const fn holder(&self) -> Holder {
        self.holder
    }

    /// Returns the address of the peer, unless it is exempt from the shares.
    pub const fn address(&self) -> Option<ClientAddress> {
        self.owner.address
    }

    /// Returns whether a request of `principal` may find the task.
    pub fn is_caller(&self, principal: Option<&Principal>) -> bool {
        is_same_caller(self.principal.as_deref(), principal)
    }

    /// Returns who it is, if callers are authenticated.
    pub const fn principal(&self) -> Option<&Arc<Principal>> {
        self.principal.as_ref()
    }

    /// Returns whether the peer has gone.
    pub const fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// Records that the peer has gone.
    pub const fn mark_gone(&mut self) {
        self.is_gone = true;
    }

    /// Returns the revision of its call, in which the result is stored.
    pub const fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns where its notifications are sent.
    pub const fn reply_to(&self) -> ReplyTo {
        ReplyTo::standalone(self.owner.peer)
    }

    /// Sets the last progress that the call was sent before it became a task.
    pub const fn set_last_progress(&mut self, progress: f64) {
        self.last_progress = progress;
    }

    /// Advances the progress; returns the token to send it with. Returns `None` if it is not
    /// greater than the last, if there is no token, and for modern callers, who get no progress of
    /// tasks.
    fn advance_progress(&mut self, progress: f64) -> Option<Id<'_>> {
        let is_due = !self.revision.is_modern() && progress > self.last_progress;
        let token = self.progress_token.as_ref().filter(|_| is_due)?;
        self.last_progress = progress;
        Some(token.as_id())
    }
}

/// Longest progress token of a task that is stored. A task outlives its connection, and a token may
/// be as long as a message.
const PROGRESS_TOKEN_BYTES_MAX: usize = 256;
