//! `corelane tasks`, and calls that run as tasks.
//!
//! MCP 2025-11-25 `basic/utilities/tasks`; the extension `io.modelcontextprotocol/tasks`,
//! 2026-07-28.

use std::sync::PoisonError;

use clap::ArgMatches;
use corelane_client::{CallToolResult, ClientError, ClientErrorKind, Task, TaskInfo};
use corelane_protocol::eras::Method;
use serde_json::json;
use serde_json::value::RawValue;

use super::connection::{Connection, read, read_item};
use super::failure::{Failure, print_note};
use super::flags::{ACTION, TASK_ACTIONS, TASK_ID};
use super::output::{Output, error_text};
use super::text::one_line;
use super::time_limit::TimeLimit;

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

/// What is done with which task.
#[derive(Debug)]
pub(crate) enum TaskCommand {
    List,
    Get(String),
    Result(String),
    Cancel(String),
}

impl TaskCommand {
    pub(crate) fn from_matches(matches: &ArgMatches) -> Result<Self, Failure> {
        let action = matches.get_one::<String>(ACTION).map_or(TASK_ACTIONS[0], String::as_str);
        match (action, matches.get_one::<String>(TASK_ID).cloned()) {
            ("list", None) => Ok(Self::List),
            ("list", Some(_)) => Err(Failure::Usage("list takes no id of a task".to_owned())),
            (_, None) => Err(Failure::Usage(format!("the id of the task is missing: {action} ID"))),
            ("get", Some(id)) => Ok(Self::Get(id)),
            ("result", Some(id)) => Ok(Self::Result(id)),
            (_, Some(id)) => Ok(Self::Cancel(id)),
        }
    }

    /// Does it and prints the outcome.
    pub(crate) fn run(&self, server: &Connection, output: &mut Output) -> Result<(), Failure> {
        match self {
            Self::List => list(server, output),
            Self::Get(id) => {
                let document = server.request(Method::TasksGet, &json!({ "taskId": id }))?;
                if output.is_json() {
                    return Ok(output.write_document(&document)?);
                }
                Ok(output.write_rows(0, &detail_rows(&read(&document)?))?)
            }
            Self::Result(id) => {
                let document = follow(&server.task(id)?, server.limit())?;
                let result: CallToolResult = read(&document)?;
                if output.is_json() {
                    output.write_document(&document)?;
                }
                if result.is_error {
                    let text = format!("the task {id} failed: {}", error_text(&result));
                    return Err(Failure::call(text, None));
                }
                if output.is_json() { Ok(()) } else { output.write_result(&result) }
            }
            Self::Cancel(id) => {
                let document = server.request(Method::TasksCancel, &json!({ "taskId": id }))?;
                if output.is_json() {
                    return Ok(output.write_document(&document)?);
                }
                // The server may complete the task all the same.
                print_note(&format!("the server was asked to cancel the task {id}"));
                Ok(())
            }
        }
    }
}

/// Waits for the result of a task. Its states are noted as they change.
pub(crate) fn follow(task: &Task, limit: &TimeLimit) -> Result<Box<RawValue>, ClientError> {
    let notes = StatusNotes::default();
    if let Some(info) = task.info() {
        notes.show(info);
    }
    limit.run("the task", task.raw_result().on_task_status(move |info| notes.show(&info)))
}

/// The state of a task that was noted last.
#[derive(Debug, Default)]
struct StatusNotes(Mutex<Option<String>>);

impl StatusNotes {
    /// Notes a state unless it is the last one.
    fn show(&self, info: &TaskInfo) {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = format_status(info);
        if last.as_ref() != Some(&text) {
            print_note(&text);
            *last = Some(text);
        }
    }
}

fn format_status(info: &TaskInfo) -> String {
    let TaskInfo { task_id, status, .. } = info;
    match info.status_message.as_deref().map(one_line).filter(|text| !text.is_empty()) {
        Some(message) => format!("task {}: {}: {message}", one_line(task_id), status.as_str()),
        None => format!("task {}: {}", one_line(task_id), status.as_str()),
    }
}

/// Prints the tasks, each on a line.
fn list(server: &Connection, output: &mut Output) -> Result<(), Failure> {
    let list = server.list(Method::TasksList, "tasks").map_err(|error| {
        let hint = "only servers of MCP 2025-11-25 list tasks; name the task by the id that \
                    `corelane call --task` has printed";
        let hint = (error.kind() == ClientErrorKind::Unsupported).then(|| hint.to_owned());
        Failure::from(error).with_hint(hint)
    })?;
    let failed = |error: Option<ClientError>| error.map_or(Ok(()), |error| Err(error.into()));
    if output.is_json() {
        output.write_document(&list.document)?;
        return failed(list.failure);
    }
    if list.items.is_empty() {
        print_note("the list is empty");
    }
    let row = |info: TaskInfo| {
        let status = info.status.as_str().to_owned();
        let texts = [info.created_at, info.status_message].map(Option::unwrap_or_default);
        let [created_at, message] = texts;
        vec![info.task_id, status, created_at, message]
    };
    let rows = list.items.iter().map(|item| read_item(item).map(row));
    let rows: Vec<Vec<String>> = rows.collect::<Result<_, _>>()?;
    output.write_rows(0, &rows)?;
    failed(list.failure)
}

/// Returns the members of a task, each with its name.
fn detail_rows(info: &TaskInfo) -> Vec<Vec<String>> {
    let milliseconds = |number: Option<u64>| number.map(|number| format!("{number} ms"));
    let members = [
        ("task", Some(info.task_id.clone())),
        ("status", Some(info.status.as_str().to_owned())),
        ("message", info.status_message.clone()),
        ("created", info.created_at.clone()),
        ("updated", info.last_updated_at.clone()),
        ("kept for", milliseconds(info.ttl_ms)),
        ("poll after", milliseconds(info.poll_interval_ms)),
    ];
    let rows = members.into_iter().filter_map(|(name, value)| Some(vec![name.to_owned(), value?]));
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_message_stays_on_one_line() {
        let info = json!({ "taskId": "7", "status": "working", "statusMessage": "a\n\u{1b}b" });
        assert_eq!(format_status(&serde_json::from_value(info).unwrap()), "task 7: working: a b");
        let info = json!({ "taskId": "7", "status": "input_required" });
        let text = format_status(&serde_json::from_value(info).unwrap());
        assert_eq!(text, "task 7: input_required");
    }
}
