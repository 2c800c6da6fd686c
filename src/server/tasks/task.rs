//! One task: where it stands, since when, and who wants to hear of it.
//!
//! What it keeps true: it begins `working`, goes to and fro between that and `input_required`, and
//! once it has ended (`completed`, `failed`, `cancelled`) it stays so, whatever its handler still
//! does.
//!
//! Source: 2025-11-25, basic/utilities/tasks, "Task Status Lifecycle"; Tasks extension 2026-07-28,
//! "Task Status".

use std::borrow::Cow;
use std::rc::Rc;
use std::time::Duration;

use super::identity::TaskId;
use super::inquiry::Inquiries;
use crate::base::slab::Key;
use crate::base::time::{Calendar, Moment};
use crate::engine::mesh::ShardId;
use crate::protocol::error::Error;
use crate::protocol::message::{TaskDetail, TaskStatus, TaskView};
use crate::protocol::revision::Revision;
use crate::protocol::rpc::IdBuf;
use crate::server::party::Party;
use crate::server::questions::Dialogue;
use crate::service::Client;

/// What a task begins with.
#[derive(Debug)]
pub(in crate::server) struct Birth {
    /// Whose call it was. It may be gone before the task does.
    pub(in crate::server) party: Party,
    /// What the caller speaks, which is how the result is kept, and what it can answer.
    pub(in crate::server) client: Client,
    /// What progress must name, where the caller wants to hear of it.
    pub(in crate::server) progress_token: Option<IdBuf>,
    /// How long the caller wants it kept.
    pub(in crate::server) ttl: Option<Duration>,
}

/// How a task ended by itself.
#[derive(Clone, Debug)]
pub(in crate::server) enum End {
    /// With a result.
    Result {
        /// As the revision of its caller writes it: one JSON object.
        body: Vec<u8>,
        /// It says that the tool failed (`isError`).
        is_failed: bool,
    },
    /// With an error instead of a result.
    Error(Error),
}

impl End {
    /// Bytes that it takes to keep it.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Result { body, .. } => body.len(),
            Self::Error(error) => {
                error.message.len() + error.data.as_ref().map_or(0, |data| data.len())
            }
        }
    }
}

/// Somebody who waits for the end of a task: a call on some shard.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(in crate::server) struct Waiter {
    /// Where the call stands.
    pub(in crate::server) shard: ShardId,
    /// Which call.
    pub(in crate::server) ticket: Key,
    /// When it gives up at the latest.
    pub(in crate::server) deadline: Moment,
}

/// One task of a shard, run by a `W`.
#[derive(Debug)]
pub(in crate::server) struct Task<W> {
    pub(in crate::server) id: TaskId,
    pub(super) name: String,
    pub(in crate::server) party: Party,
    pub(in crate::server) revision: Revision,
    pub(in crate::server) progress_token: Option<IdBuf>,
    /// The last progress told: later ones must be greater.
    pub(in crate::server) progress: f64,
    /// What it asks by its inputs (2026-07-28).
    pub(in crate::server) inquiries: Rc<Inquiries>,
    /// What it asks by requests (2025-11-25).
    pub(in crate::server) dialogue: Dialogue,
    /// Tasks of a shard are counted as they begin.
    pub(super) number: u64,
    pub(super) status: TaskStatus,
    pub(super) message: Option<Cow<'static, str>>,
    pub(super) created: Moment,
    pub(super) updated: Moment,
    /// Its state, counted from 1 with every change.
    pub(in crate::server) version: u32,
    pub(super) ttl: Duration,
    pub(super) end: Option<End>,
    /// The handler, until it ends.
    pub(super) work: Option<W>,
    pub(super) waiters: Vec<Waiter>,
    /// Shards on which somebody listens.
    pub(super) watchers: Vec<ShardId>,
    /// Whether it stands in the line of those whose change has not been told.
    pub(super) has_changed: bool,
}

impl<W> Task<W> {
    /// Where it stands.
    pub(in crate::server) const fn status(&self) -> TaskStatus {
        self.status
    }

    /// Whether it has ended.
    pub(in crate::server) const fn is_over(&self) -> bool {
        self.status.is_terminal()
    }

    /// Its name, as it is told.
    pub(in crate::server) fn name(&self) -> &str {
        &self.name
    }

    /// What there is to tell of it to everybody.
    pub(in crate::server) fn view(&self, calendar: Calendar) -> TaskView<'_> {
        TaskView {
            id: &self.name,
            status: self.status,
            status_message: self.message.as_deref(),
            created_ms: calendar.unix_ms(self.created),
            updated_ms: calendar.unix_ms(self.updated),
            ttl_ms: u64::try_from(self.ttl.as_millis()).ok(),
            poll_ms: POLL_MS,
        }
    }

    /// What there is to tell of it: to everybody, and to those who speak the extension.
    pub(in crate::server) fn tell<T>(
        &self,
        calendar: Calendar,
        tell: impl FnOnce(TaskView<'_>, TaskDetail<'_>) -> T,
    ) -> T {
        let view = self.view(calendar);
        match &self.end {
            Some(End::Result { body, .. }) => tell(view, TaskDetail::Result(body)),
            Some(End::Error(error)) => tell(view, TaskDetail::Failed(error)),
            None if self.status == TaskStatus::InputRequired => {
                self.inquiries.tell_open(|open| tell(view, TaskDetail::Requests(open)))
            }
            None => tell(view, TaskDetail::Nothing),
        }
    }

    /// How it ended by itself; `None` while it runs, and where it was cancelled.
    pub(in crate::server) const fn end(&self) -> Option<&End> {
        self.end.as_ref()
    }

    /// The handler, while it runs.
    pub(in crate::server) const fn work(&mut self) -> Option<&mut W> {
        self.work.as_mut()
    }

    /// Shards on which somebody listens to it.
    pub(in crate::server) fn watchers(&self) -> &[ShardId] {
        &self.watchers
    }

    /// Takes everybody who waits for its end.
    pub(in crate::server) fn take_waiters(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.waiters)
    }

    /// Whether another call may wait for the end.
    pub(in crate::server) fn may_wait(&mut self, now: Moment) -> bool {
        if self.waiters.len() >= WAITERS_MAX {
            // Calls that were cancelled are not taken out one by one: they time out.
            self.waiters.retain(|waiter| waiter.deadline > now);
        }
        self.waiters.len() < WAITERS_MAX
    }

    /// Has a call wait for the end.
    pub(in crate::server) fn wait(&mut self, waiter: Waiter) {
        self.waiters.push(waiter);
    }

    /// Has a shard hear of every change.
    pub(super) fn watch(&mut self, shard: ShardId) {
        if !self.watchers.contains(&shard) {
            self.watchers.push(shard);
        }
    }

    pub(super) fn turn(
        &mut self,
        status: TaskStatus,
        message: Option<Cow<'static, str>>,
        now: Moment,
    ) {
        self.status = status;
        self.message = message;
        self.updated = now;
        self.version = self.version.saturating_add(1);
    }
}

/// How often a caller is advised to ask, in milliseconds.
const POLL_MS: u64 = 1_000;

/// Calls that may wait for the end of one task.
const WAITERS_MAX: usize = 64;
