//! A task of the server that a call waits for.
//!
//! MCP 2025-11-25 `basic/utilities/tasks`; the extension `io.modelcontextprotocol/tasks`,
//! 2026-07-28.

use std::collections::HashSet;
use std::time::Duration;

use super::request::CallRequest;
use crate::error::{ClientError, ClientErrorKind};
use corelane_base::time::Instant;
use corelane_protocol::eras::Method;
use corelane_protocol::json::{Object, Value, write};
use corelane_protocol::model::TaskStatus;
use corelane_protocol::revision::Revision;

/// Time between two polls, unless the server names one.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const POLL_INTERVAL_MIN: Duration = Duration::from_millis(10);
const POLL_INTERVAL_MAX: Duration = Duration::from_hours(1);

/// A task, and what the client knows of it.
#[derive(Debug)]
pub(super) struct FollowedTask {
    pub(super) id: Box<str>,
    /// No caller knows the task: it is cancelled if its call ends early.
    pub(super) is_owned: bool,
    /// When the call ends in any case, and the time that it had.
    pub(super) limit: Option<(Instant, Duration)>,
    poll_interval: Duration,
    pub(super) next_poll: Instant,
    /// Names of the inputs that were required so far.
    pub(super) known_inputs: HashSet<Box<str>>,
}

impl FollowedTask {
    /// Creates the state of the task `id` that is polled at once.
    pub(super) fn new(
        id: &str,
        is_owned: bool,
        limit: Option<(Instant, Duration)>,
        now: Instant,
    ) -> Self {
        Self {
            id: id.into(),
            is_owned,
            limit,
            poll_interval: POLL_INTERVAL,
            next_poll: now,
            known_inputs: HashSet::new(),
        }
    }

    /// Schedules the next poll. `interval` is the one that the server names.
    pub(super) fn schedule_poll(&mut self, interval: Option<Duration>, now: Instant) {
        if let Some(interval) = interval {
            self.poll_interval = interval.clamp(POLL_INTERVAL_MIN, POLL_INTERVAL_MAX);
        }
        self.next_poll = now.after(self.poll_interval);
    }

    /// Returns when something is to be done.
    pub(super) fn deadline(&self) -> Instant {
        self.limit.map_or(self.next_poll, |(limit, _)| limit.min(self.next_poll))
    }

    /// Creates a request about the task.
    pub(super) fn request(&self, method: Method) -> CallRequest {
        CallRequest::of_task(method, &self.id)
    }

    /// Creates `tasks/update` with one response.
    pub(super) fn update_request(&self, name: &str, response: &[u8]) -> CallRequest {
        let mut request = self.request(Method::TasksUpdate);
        request.params.pop();
        request.params.extend_from_slice(b",\"inputResponses\":{");
        write::string(&mut request.params, name);
        request.params.push(b':');
        request.params.extend_from_slice(response);
        request.params.extend_from_slice(b"}}");
        request
    }
}

/// What a task is doing, as the server says.
#[derive(Clone, Copy, Debug)]
pub(super) enum TaskProgress<'a> {
    /// It runs.
    Working,
    /// It waits for these inputs; a legacy server sends requests for them.
    InputRequired(Option<Object<'a>>),
    /// It has ended; its result or error is this. A legacy server is asked for it.
    Ended(Option<Result<Value<'a>, Value<'a>>>),
    /// It was cancelled.
    Cancelled,
}

/// A state of a task, as the server sends it.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskState<'a> {
    pub(super) id: &'a str,
    /// The whole task.
    pub(super) value: Value<'a>,
    pub(super) progress: TaskProgress<'a>,
    pub(super) poll_interval: Option<Duration>,
}

impl<'a> TaskState<'a> {
    /// Reads a task.
    pub(super) fn read(value: Value<'a>, revision: Revision) -> Result<Self, ClientError> {
        let invalid = |text| ClientError::new(ClientErrorKind::Protocol, text);
        let task = value.as_object().ok_or_else(|| invalid("the task is not an object"))?;
        let id = task.find("taskId").and_then(Value::as_str);
        let id = id.ok_or_else(|| invalid("the task has no taskId"))?;
        let status = task.find("status").and_then(Value::as_str).and_then(TaskStatus::parse);
        let is_legacy = !revision.is_modern();
        let progress = match status.ok_or_else(|| invalid("the task has no known status"))? {
            TaskStatus::Working => TaskProgress::Working,
            TaskStatus::InputRequired => {
                TaskProgress::InputRequired(task.find("inputRequests").and_then(Value::as_object))
            }
            TaskStatus::Completed | TaskStatus::Failed if is_legacy => TaskProgress::Ended(None),
            TaskStatus::Completed => {
                let result = task.find("result").filter(|result| result.as_object().is_some());
                TaskProgress::Ended(result.map(Ok))
            }
            TaskStatus::Failed => TaskProgress::Ended(task.find("error").map(Err)),
            TaskStatus::Cancelled => TaskProgress::Cancelled,
        };
        let key = if is_legacy { "pollInterval" } else { "pollIntervalMs" };
        let poll_interval = task.find(key).and_then(Value::as_u64).map(Duration::from_millis);
        Ok(Self { id, value, progress, poll_interval })
    }
}
