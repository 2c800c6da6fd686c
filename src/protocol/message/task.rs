//! Tasks as they are told, in both generations: the core tasks of 2025-11-25 and the extension of
//! 2026-07-28.
//!
//! What it keeps true: one view of a task is enough for either; a client is told nothing that its
//! generation does not know. It does not know which status follows which.
//!
//! Source: 2025-11-25 `basic/utilities/tasks` and schema; the extension
//! `io.modelcontextprotocol/tasks`, 2026-07-28.

use super::input::{InputRequest, RELATED_TASK_KEY, write_input_requests};
use super::response::error_object;
use super::server::meta_of;
use crate::protocol::error::Error;
use crate::protocol::json::{ObjectWriter, timestamp, write};
use crate::protocol::revision::Revision;
use crate::protocol::rpc::Id;

/// Where a task stands.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum TaskStatus {
    /// It runs.
    Working,
    /// It waits for answers of the client.
    InputRequired,
    /// It has a result.
    Completed,
    /// It ended in an error; in 2025-11-25 a result with `isError` is one, too.
    Failed,
    /// It was ended by request.
    Cancelled,
}

impl TaskStatus {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Whether nothing follows.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }
}

/// A task at one moment, as it is told.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct TaskView<'a> {
    /// Its name, which nobody can guess.
    pub id: &'a str,
    /// Where it stands.
    pub status: TaskStatus,
    /// How it stands, for a human.
    pub status_message: Option<&'a str>,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
    /// When its status last changed, in milliseconds since 1970.
    pub updated_ms: u64,
    /// How long it is kept at least, in milliseconds from its creation; for ever where there is
    /// none.
    pub ttl_ms: Option<u64>,
    /// How long a client should wait between two questions, in milliseconds.
    pub poll_ms: u64,
}

/// What a task of the extension carries beside its status.
#[derive(Clone, Copy, Debug)]
pub enum TaskDetail<'a> {
    /// Nothing: it runs, or it was ended.
    Nothing,
    /// Its open questions by their keys.
    Requests(&'a [(String, InputRequest)]),
    /// Its result, encoded already: the body of an answer to `tools/call`.
    Result(&'a [u8]),
    /// The error in which it ended.
    Failed(&'a Error),
}

impl TaskView<'_> {
    /// Writes the members that say where the task stands.
    fn write_members(&self, object: &mut ObjectWriter<'_>, revision: Revision) {
        let is_core = revision.dialect().core_tasks;
        object
            .text("taskId", self.id)
            .text("status", self.status.as_str())
            .text_if("statusMessage", self.status_message);
        timestamp(object.key("createdAt"), self.created_ms);
        timestamp(object.key("lastUpdatedAt"), self.updated_ms);
        let ttl = object.key(if is_core { "ttl" } else { "ttlMs" });
        match self.ttl_ms {
            Some(ttl_ms) => write::unsigned(ttl, ttl_ms),
            None => ttl.extend_from_slice(b"null"),
        }
        object.unsigned(if is_core { "pollInterval" } else { "pollIntervalMs" }, self.poll_ms);
    }

    /// Appends the task as an object, with `detail` where the generation has it.
    pub(super) fn write(&self, out: &mut Vec<u8>, detail: TaskDetail<'_>, revision: Revision) {
        let mut object = ObjectWriter::open(out);
        self.write_members(&mut object, revision);
        detail.write(&mut object, revision);
        object.close();
    }

    /// Appends the members of the task to an object that is open and has others.
    pub(super) fn append(&self, out: &mut Vec<u8>, detail: TaskDetail<'_>, revision: Revision) {
        let mut object = ObjectWriter::resume(out);
        self.write_members(&mut object, revision);
        detail.write(&mut object, revision);
    }
}

impl TaskDetail<'_> {
    /// Writes what a task of the extension has; the core generation has none of it.
    fn write(self, object: &mut ObjectWriter<'_>, revision: Revision) {
        match self {
            _ if revision.dialect().core_tasks => {}
            Self::Nothing => {}
            Self::Requests(requests) => {
                let requests = requests.iter().map(|(key, request)| (key.as_str(), request));
                write_input_requests(object.key("inputRequests"), requests);
            }
            Self::Result(body) => {
                object.encoded("result", body);
            }
            Self::Failed(error) => error_object(object.key("error"), error),
        }
    }
}

/// Appends the body of an answer that hands out a task in place of a result: `CreateTaskResult`.
/// `suffix` is that of [`super::result_suffix`].
pub fn create_task_result(
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
    object.text("resultType", "task");
    task.write_members(&mut object, revision);
    out.extend_from_slice(meta_of(suffix));
    out.push(b'}');
}

/// Appends the body of the answer to `tasks/get`; `detail` is said by the extension alone. `suffix`
/// is that of [`super::result_suffix`].
pub fn task_result(
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

/// Appends the body of the answer to `tasks/cancel`: the task in 2025-11-25, nothing in the
/// extension. `suffix` is that of [`super::result_suffix`].
pub fn cancel_task_result(
    out: &mut Vec<u8>,
    revision: Revision,
    task: &TaskView<'_>,
    suffix: &[u8],
) {
    if revision.dialect().core_tasks {
        task_result(out, revision, task, TaskDetail::Nothing, suffix);
    } else {
        super::response::empty_result(out, suffix);
    }
}

/// Appends the body of the answer to `tasks/list` (2025-11-25); `next_cursor` is left out on the
/// last page.
pub fn tasks_page<'t>(
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
    object.text_if("nextCursor", next_cursor);
    object.close();
}

/// Appends the body of the answer to `tasks/result` (2025-11-25): `body`, which is the result of
/// the request that became the task, with the task's name in `_meta`. A legacy body has no `_meta`
/// yet.
pub fn task_payload_result(out: &mut Vec<u8>, body: &[u8], task_id: &str) {
    let members = body.strip_suffix(b"}").unwrap_or(b"{");
    out.extend_from_slice(members);
    if members.len() > 1 {
        out.push(b',');
    }
    related_meta(out, task_id);
    out.push(b'}');
}

/// Appends `notifications/progress` for a task (2025-11-25): as for a request, with the task's name
/// in `_meta`.
pub fn task_progress(
    out: &mut Vec<u8>,
    token: Id<'_>,
    done: f64,
    total: Option<f64>,
    message: Option<&str>,
    task_id: &str,
) {
    super::response::progress(out, token, done, total, message, Revision::V2025_11_25);
    // Opens the params and the notification again.
    out.truncate(out.len() - b"}}".len());
    out.push(b',');
    related_meta(out, task_id);
    out.extend_from_slice(b"}}");
}

/// Appends the member `_meta` of whatever belongs to a task (2025-11-25).
pub(super) fn related_meta(out: &mut Vec<u8>, task_id: &str) {
    out.extend_from_slice(br#""_meta":"#);
    let mut meta = ObjectWriter::open(out);
    let mut related = meta.object(RELATED_TASK_KEY);
    related.text("taskId", task_id);
    related.close();
    meta.close();
}
