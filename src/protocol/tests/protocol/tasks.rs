//! Core tasks (2025-11-25) and the Tasks extension, in every status.

use crate::schema_checks::{check_response, suffix};
use corelane_protocol::error::Error;
use corelane_protocol::model::{
    self, CallToolResultWriter, ElicitRequest, Field, Form, InputRequest, TaskDetail, TaskStatus,
    TaskView,
};
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

const CORE: Revision = Revision::V2025_11_25;
const EXTENSION: Revision = Revision::LATEST;

const TASK: TaskView<'static> = TaskView {
    task_id: "t\"1",
    status: TaskStatus::Working,
    status_message: Some("half\n"),
    created_at_ms: 1_785_231_000_125,
    last_updated_at_ms: 1_785_231_000_126,
    ttl_ms: Some(60_000),
    poll_interval_ms: 500,
};

fn result_body(revision: Revision) -> Vec<u8> {
    let (mut out, suffix) = (Vec::new(), suffix(revision));
    let mut result = CallToolResultWriter::open(&mut out, revision, &suffix);
    result.text("done");
    result.finish();
    out
}

#[test]
fn create_task_result_replaces_call_tool_result() {
    for ttl_ms in [None, Some(60_000)] {
        let task = TaskView { ttl_ms, ..TASK };
        let core = check_response(CORE, "tools/call", |out| {
            model::write_create_task_result(out, CORE, &task, &suffix(CORE));
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
        let extension = check_response(EXTENSION, "tools/call", |out| {
            model::write_create_task_result(out, EXTENSION, &task, &suffix(EXTENSION));
        });
        assert_eq!(extension["result"]["resultType"], "task");
        assert_eq!(extension["result"]["ttlMs"], json!(ttl_ms));
        assert_eq!(extension["result"]["pollIntervalMs"], 500);
        let server = &extension["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server["name"], "server");
    }
}

#[test]
fn task_result_fits_every_status() {
    let form = Form::new().field(Field::text("a"));
    let requests = [
        ("k\"".to_owned(), InputRequest::Elicit(ElicitRequest::form("m", form))),
        ("r".to_owned(), InputRequest::ListRoots),
    ];
    let (body, error) = (result_body(EXTENSION), Error::internal("no").with_data("[1]"));
    for (status, detail) in [
        (TaskStatus::Working, TaskDetail::None),
        (TaskStatus::InputRequired, TaskDetail::InputRequests(&requests)),
        (TaskStatus::Completed, TaskDetail::Result(&body)),
        (TaskStatus::Failed, TaskDetail::Error(&error)),
        (TaskStatus::Cancelled, TaskDetail::None),
    ] {
        let task = TaskView { status, status_message: None, ..TASK };
        for revision in [CORE, EXTENSION] {
            let response = check_response(revision, "tasks/get", |out| {
                model::write_get_task_result(out, revision, &task, detail, &suffix(revision));
            });
            let result = &response["result"];
            assert_eq!(result["status"], status.as_str());
            assert_eq!(result["resultType"].as_str(), revision.is_modern().then_some("complete"));
            let members = ["inputRequests", "result", "error"];
            let present = members.iter().filter(|member| result.get(member).is_some()).count();
            let expected = revision.is_modern() && !matches!(detail, TaskDetail::None);
            assert_eq!(present, usize::from(expected));
        }
        let terminal = matches!(detail, TaskDetail::Result(_) | TaskDetail::Error(_));
        assert_eq!(status.is_terminal(), terminal || status == TaskStatus::Cancelled);
    }
}

#[test]
fn task_input_request_is_written_with_params() {
    let requests = [("r".to_owned(), InputRequest::ListRoots)];
    let task = TaskView { status: TaskStatus::InputRequired, ..TASK };
    let response = check_response(EXTENSION, "tasks/get", |out| {
        let detail = TaskDetail::InputRequests(&requests);
        model::write_get_task_result(out, EXTENSION, &task, detail, &suffix(EXTENSION));
    });
    let written = &response["result"]["inputRequests"];
    assert_eq!(*written, json!({"r": {"method": "roots/list", "params": {}}}));
}

#[test]
fn cancel_task_result_depends_on_revision() {
    let task = TaskView { status: TaskStatus::Cancelled, ..TASK };
    let core = check_response(CORE, "tasks/cancel", |out| {
        model::write_cancel_task_result(out, CORE, &task, &suffix(CORE));
    });
    assert_eq!(core["result"]["status"], "cancelled");
    let extension = check_response(EXTENSION, "tasks/cancel", |out| {
        model::write_cancel_task_result(out, EXTENSION, &task, &suffix(EXTENSION));
    });
    assert!(extension["result"].get("status").is_none());
    assert_eq!(extension["result"]["resultType"], "complete");
}

#[test]
fn task_payload_result_names_related_task() {
    let body = result_body(CORE);
    let response = check_response(CORE, "tasks/result", |out| {
        model::write_get_task_payload_result(out, &body, "t\"1");
    });
    let mut result = response["result"].clone();
    let related = result.as_object_mut().unwrap().remove("_meta").unwrap();
    let expected = json!({"io.modelcontextprotocol/related-task": {"taskId": "t\"1"}});
    assert_eq!(related, expected);
    assert_eq!(result, serde_json::from_slice::<Value>(&body).unwrap());
    // An empty body does not occur; the output must be an object anyway.
    let mut bare = Vec::new();
    model::write_get_task_payload_result(&mut bare, b"{}", "t\"1");
    assert_eq!(serde_json::from_slice::<Value>(&bare).unwrap(), json!({ "_meta": expected }));
}

#[test]
fn list_tasks_result_fits_2025_11_25() {
    for (count, cursor) in [(0, None), (2, Some("next\""))] {
        let response = check_response(CORE, "tasks/list", |out| {
            model::write_list_tasks_result(out, std::iter::repeat_n(TASK, count), cursor);
        });
        assert_eq!(response["result"]["tasks"].as_array().unwrap().len(), count);
        assert_eq!(response["result"]["nextCursor"].as_str(), cursor);
    }
}
