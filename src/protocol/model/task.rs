//! Encoders of tasks: the core tasks of 2025-11-25 and the Tasks extension of 2026-07-28.
//!
//! Invariants: one [`TaskView`] serves both; members that a revision does not define are omitted.
//! Status transitions are not checked here.
//!
//! MCP 2025-11-25 `basic/utilities/tasks` and schema; the extension
//! `io.modelcontextprotocol/tasks`, 2026-07-28.

use super::implementation::suffix_meta;
use super::input::{InputRequest, RELATED_TASK_KEY, write_input_requests};
use super::response::write_error_object;
use crate::error::Error;
use crate::json::{ObjectWriter, write, write_timestamp};
use crate::jsonrpc::Id;
use crate::revision::Revision;

/// Status of a task.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum TaskStatus {
    /// The call is running.
    Working,
    /// The task waits for input responses of the client.
    InputRequired,
    /// The result is available.
    Completed,
    /// The task ended with an error; in 2025-11-25 also with a result that has `isError`.
    Failed,
    /// The task was cancelled by request.
    Cancelled,
}

impl TaskStatus {
    /// Returns the name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Reads the name on the wire.
    pub fn parse(name: &str) -> Option<Self> {
        use TaskStatus::{Cancelled, Completed, Failed, InputRequired, Working};
        let all = [Working, InputRequired, Completed, Failed, Cancelled];
        all.into_iter().find(|status| status.as_str() == name)
    }

    /// Returns whether the status is final.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// Borrowed snapshot of a task, as it is sent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TaskView<'a> {
    /// Unguessable id of the task.
    pub task_id: &'a str,
    /// Status of the task.
    pub status: TaskStatus,
    /// Human-readable description of the status.
    pub status_message: Option<&'a str>,
    /// Creation time, in milliseconds since 1970.
    pub created_at_ms: u64,
    /// Time of the last status change, in milliseconds since 1970.
    pub last_updated_at_ms: u64,
    /// Lifetime from creation in milliseconds; `None` is unlimited.
    pub ttl_ms: Option<u64>,
    /// Suggested interval between two `tasks/get` requests, in milliseconds.
    pub poll_interval_ms: u64,
}

/// Member that a task of the extension has in addition to its status.
#[derive(Clone, Copy, Debug)]
pub enum TaskDetail<'a> {
    /// None: the task is running or cancelled.
    None,
    /// Open input requests by their keys.
    InputRequests(&'a [(String, InputRequest)]),
    /// Encoded result of the call: a `CallToolResult`.
    Result(&'a [u8]),
    /// Error of the failed task.
    Error(&'a Error),
}

impl TaskView<'_> {
    /// Writes the members of the `Task` object.
    fn write_members(&self, object: &mut ObjectWriter<'_>, revision: Revision) {
        let is_core = revision.dialect().core_tasks;
        object
            .string("taskId", self.task_id)
            .string("status", self.status.as_str())
            .string_opt("statusMessage", self.status_message);
        write_timestamp(object.key("createdAt"), self.created_at_ms);
        write_timestamp(object.key("lastUpdatedAt"), self.last_updated_at_ms);
        let ttl = object.key(if is_core { "ttl" } else { "ttlMs" });
        match self.ttl_ms {
            Some(ttl_ms) => write::unsigned(ttl, ttl_ms),
            None => ttl.extend_from_slice(b"null"),
        }
        object.unsigned(
            if is_core { "pollInterval" } else { "pollIntervalMs" },
            self.poll_interval_ms,
        );
    }

    /// Appends the task as an object, with `detail` if the revision defines it.
    pub(super) fn write(&self, out: &mut Vec<u8>, detail: TaskDetail<'_>, revision: Revision) {
        let mut object = ObjectWriter::open(out);
        self.write_members(&mut object, revision);
        detail.write(&mut object, revision);
        object.close();
    }

    /// Appends the members of the task to an open object that already has members.
    pub(super) fn append_members(
        &self,
        out: &mut Vec<u8>,
        detail: TaskDetail<'_>,
        revision: Revision,
    ) {
        let mut object = ObjectWriter::resume(out);
        self.write_members(&mut object, revision);
        detail.write(&mut object, revision);
    }
}

impl TaskDetail<'_> {
    /// Writes the member of the extension; core tasks have none.
    fn write(self, object: &mut ObjectWriter<'_>, revision: Revision) {
        match self {
            _ if revision.dialect().core_tasks => {}
            Self::None => {}
            Self::InputRequests(requests) => {
                let requests = requests.iter().map(|(key, request)| (key.as_str(), request));
                write_input_requests(object.key("inputRequests"), requests);
            }
            Self::Result(body) => {
                object.raw("result", body);
            }
            Self::Error(error) => write_error_object(object.key("error"), error),
        }
    }
}

/// Appends a `CreateTaskResult`, which replaces the result of a call. `suffix` is the
/// [`super::result_suffix`] of the revision.
pub fn write_create_task_result(
    out: &mut Vec<u8>,
    revision: Revision,
    task: &TaskView<'_>,
    suffix: &[u8],
) {
    let mut object = ObjectWriter::open(out);
    if revision.dialect().core_tasks {
        let mut inner = object.object("task");
        task.write_members(&mut inner, revision);
        inner.close();
        object.close();
        return;
    }
    object.string("resultType", "task");
    task.write_members(&mut object, revision);
    out.extend_from_slice(suffix_meta(suffix));
    out.push(b'}');
}

/// Appends the result of `tasks/get`; `detail` is written for the extension only. `suffix` is the
/// [`super::result_suffix`] of the revision.
pub fn write_get_task_result(
    out: &mut Vec<u8>,
    revision: Revision,
    task: &TaskView<'_>,
    detail: TaskDetail<'_>,
    suffix: &[u8],
) {
    let mut object = ObjectWriter::open(out);
    task.write_members(&mut object, revision);
    detail.write(&mut object, revision);
    out.extend_from_slice(suffix);
    out.push(b'}');
}

/// Appends the result of `tasks/cancel`: the task in 2025-11-25, an empty result in the extension.
/// `suffix` is the [`super::result_suffix`] of the revision.
pub fn write_cancel_task_result(
    out: &mut Vec<u8>,
    revision: Revision,
    task: &TaskView<'_>,
    suffix: &[u8],
) {
    if revision.dialect().core_tasks {
        write_get_task_result(out, revision, task, TaskDetail::None, suffix);
    } else {
        super::response::write_empty_result(out, suffix);
    }
}

/// Appends the result of `tasks/list` (2025-11-25); `next_cursor` is `None` on the last page.
pub fn write_list_tasks_result<'t>(
    out: &mut Vec<u8>,
    tasks: impl IntoIterator<Item = TaskView<'t>>,
    next_cursor: Option<&str>,
) {
    let mut object = ObjectWriter::open(out);
    let list = object.key("tasks");
    list.push(b'[');
    for (index, task) in tasks.into_iter().enumerate() {
        if index > 0 {
            list.push(b',');
        }
        let mut item = ObjectWriter::open(list);
        task.write_members(&mut item, Revision::V2025_11_25);
        item.close();
    }
    list.push(b']');
    object.string_opt("nextCursor", next_cursor);
    object.close();
}

/// Appends the result of `tasks/result` (2025-11-25): `body`, the result of the call, with the
/// task's id in `_meta`, which `body` must not have.
pub fn write_get_task_payload_result(out: &mut Vec<u8>, body: &[u8], task_id: &str) {
    let members = body.strip_suffix(b"}").unwrap_or(b"{");
    out.extend_from_slice(members);
    if members.len() > 1 {
        out.push(b',');
    }
    write_related_task_meta(out, task_id);
    out.push(b'}');
}

/// Appends `notifications/progress` for a task (2025-11-25), with the task's id in `_meta`.
pub fn write_task_progress(
    out: &mut Vec<u8>,
    token: Id<'_>,
    done: f64,
    total: Option<f64>,
    message: Option<&str>,
    task_id: &str,
) {
    super::response::write_progress(out, token, done, total, message, Revision::V2025_11_25);
    // Reopens the params and the notification.
    out.truncate(out.len() - b"}}".len());
    out.push(b',');
    write_related_task_meta(out, task_id);
    out.extend_from_slice(b"}}");
}

/// Appends the `_meta` member that names the related task (2025-11-25).
pub(super) fn write_related_task_meta(out: &mut Vec<u8>, task_id: &str) {
    out.extend_from_slice(br#""_meta":"#);
    let mut meta = ObjectWriter::open(out);
    let mut related = meta.object(RELATED_TASK_KEY);
    related.string("taskId", task_id);
    related.close();
    meta.close();
}
