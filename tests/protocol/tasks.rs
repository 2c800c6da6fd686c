//! Tasks of both generations, in every state.

use crate::judged::{hold_result, suffix};
use corelane::protocol::error::Error;
use corelane::protocol::message::{
    self, Answer, Elicitation, Field, Form, InputRequest, TaskDetail, TaskStatus, TaskView,
};
use corelane::protocol::revision::Revision;
use serde_json::{Value, json};

const CORE: Revision = Revision::V2025_11_25;
const EXTENSION: Revision = Revision::LATEST;

const TASK: TaskView<'static> = TaskView {
    id: "t\"1",
    status: TaskStatus::Working,
    status_message: Some("half\n"),
    created_ms: 1_785_231_000_125,
    updated_ms: 1_785_231_000_126,
    ttl_ms: Some(60_000),
    poll_ms: 500,
};

fn result_body(revision: Revision) -> Vec<u8> {
    let (mut out, suffix) = (Vec::new(), suffix(revision));
    let mut answer = Answer::open(&mut out, revision, &suffix);
    answer.text("done");
    answer.finish();
    out
}

#[test]
fn a_task_stands_in_for_the_result_of_a_call() {
    for ttl_ms in [None, Some(60_000)] {
        let task = TaskView { ttl_ms, ..TASK };
        let core = hold_result(CORE, "tools/call", |out| {
            message::create_task_result(out, CORE, &task, &suffix(CORE));
        });
        assert_eq!(
            core["result"]["task"],
            json!({
                "taskId": "t\"1", "status": "working", "statusMessage": "half\n",
                "createdAt": "2026-07-28T09:30:00.125Z",
                "lastUpdatedAt": "2026-07-28T09:30:00.126Z",
                "ttl": ttl_ms, "pollInterval": 500,
            })
        );
        let flat = hold_result(EXTENSION, "tools/call", |out| {
            message::create_task_result(out, EXTENSION, &task, &suffix(EXTENSION));
        });
        assert_eq!(flat["result"]["resultType"], "task");
        assert_eq!(flat["result"]["ttlMs"], json!(ttl_ms));
        assert_eq!(flat["result"]["pollIntervalMs"], 500);
        let server = &flat["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server["name"], "server");
    }
}

#[test]
fn a_task_is_told_in_every_state() {
    let form = Form::new().field(Field::text("a"));
    let questions = [
        ("k\"".to_owned(), InputRequest::Elicit(Elicitation::form("m", form))),
        ("r".to_owned(), InputRequest::Roots),
    ];
    let (body, error) = (result_body(EXTENSION), Error::internal("no").with_data("[1]"));
    for (status, detail) in [
        (TaskStatus::Working, TaskDetail::Nothing),
        (TaskStatus::InputRequired, TaskDetail::Requests(&questions)),
        (TaskStatus::Completed, TaskDetail::Result(&body)),
        (TaskStatus::Failed, TaskDetail::Failed(&error)),
        (TaskStatus::Cancelled, TaskDetail::Nothing),
    ] {
        let task = TaskView { status, status_message: None, ..TASK };
        for revision in [CORE, EXTENSION] {
            let said = hold_result(revision, "tasks/get", |out| {
                message::task_result(out, revision, &task, detail, &suffix(revision));
            });
            let result = &said["result"];
            assert_eq!(result["status"], status.as_str());
            assert_eq!(result["resultType"].as_str(), revision.is_modern().then_some("complete"));
            let details = ["inputRequests", "result", "error"];
            let told = details.iter().filter(|member| result.get(member).is_some()).count();
            let expected = revision.is_modern() && !matches!(detail, TaskDetail::Nothing);
            assert_eq!(told, usize::from(expected));
        }
        let terminal = matches!(detail, TaskDetail::Result(_) | TaskDetail::Failed(_));
        assert_eq!(status.is_terminal(), terminal || status == TaskStatus::Cancelled);
    }
}

#[test]
fn a_question_inside_a_task_is_the_one_that_was_asked() {
    let questions = [("r".to_owned(), InputRequest::Roots)];
    let task = TaskView { status: TaskStatus::InputRequired, ..TASK };
    let said = hold_result(EXTENSION, "tasks/get", |out| {
        let detail = TaskDetail::Requests(&questions);
        message::task_result(out, EXTENSION, &task, detail, &suffix(EXTENSION));
    });
    let asked = &said["result"]["inputRequests"];
    assert_eq!(*asked, json!({"r": {"method": "roots/list", "params": {}}}));
}

#[test]
fn the_end_of_a_task_is_told_as_its_generation_has_it() {
    let task = TaskView { status: TaskStatus::Cancelled, ..TASK };
    let core = hold_result(CORE, "tasks/cancel", |out| {
        message::cancel_task_result(out, CORE, &task, &suffix(CORE));
    });
    assert_eq!(core["result"]["status"], "cancelled");
    let flat = hold_result(EXTENSION, "tasks/cancel", |out| {
        message::cancel_task_result(out, EXTENSION, &task, &suffix(EXTENSION));
    });
    assert!(flat["result"].get("status").is_none());
    assert_eq!(flat["result"]["resultType"], "complete");
}

#[test]
fn a_result_fetched_from_a_task_names_the_task() {
    let body = result_body(CORE);
    let said = hold_result(CORE, "tasks/result", |out| {
        message::task_payload_result(out, &body, "t\"1");
    });
    let mut result = said["result"].clone();
    let related = result.as_object_mut().unwrap().remove("_meta").unwrap();
    let expected = json!({"io.modelcontextprotocol/related-task": {"taskId": "t\"1"}});
    assert_eq!(related, expected);
    assert_eq!(result, serde_json::from_slice::<Value>(&body).unwrap());
    // No request that becomes a task has such a result; it would be an object all the same.
    let mut bare = Vec::new();
    message::task_payload_result(&mut bare, b"{}", "t\"1");
    assert_eq!(serde_json::from_slice::<Value>(&bare).unwrap(), json!({ "_meta": expected }));
}

#[test]
fn a_page_of_tasks_fits_the_core_generation() {
    for (count, cursor) in [(0, None), (2, Some("next\""))] {
        let said = hold_result(CORE, "tasks/list", |out| {
            message::tasks_page(out, std::iter::repeat_n(TASK, count), cursor);
        });
        assert_eq!(said["result"]["tasks"].as_array().unwrap().len(), count);
        assert_eq!(said["result"]["nextCursor"].as_str(), cursor);
    }
}
