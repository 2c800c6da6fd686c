//! The status of a task, with its times and version.

use std::borrow::Cow;
use std::time::Duration;

use corelane_base::time::{Instant, WallClock};
use corelane_protocol::model::{TaskStatus, TaskView};

/// What both generations of the protocol show of a task.
#[derive(Debug)]
pub(super) struct TaskState {
    status: TaskStatus,
    message: Option<Cow<'static, str>>,
    created: Instant,
    updated: Instant,
    /// 1 at creation, increased by every change.
    version: u32,
    ttl: Duration,
}

impl TaskState {
    /// Creates the state of a new task, which is `working`.
    pub(super) const fn new(ttl: Duration, now: Instant) -> Self {
        let status = TaskStatus::Working;
        Self { status, message: None, created: now, updated: now, version: 1, ttl }
    }

    pub(super) const fn status(&self) -> TaskStatus {
        self.status
    }

    /// Returns when the status changed last.
    pub(super) const fn updated(&self) -> Instant {
        self.updated
    }

    pub(super) const fn version(&self) -> u32 {
        self.version
    }

    /// Returns the view of the task `task_id`.
    pub(super) fn view<'t>(&'t self, task_id: &'t str, calendar: WallClock) -> TaskView<'t> {
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
