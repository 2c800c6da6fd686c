//! What is said without being asked, in both eras.

use crate::judged::{hold, hold_result, suffix};
use corelane::protocol::era::LogLevel;
use corelane::protocol::message::{self, Change, TaskDetail, TaskStatus, TaskView};
use corelane::protocol::params::Filter;
use corelane::protocol::revision::Revision;
use corelane::protocol::rpc::Id;
use serde_json::{Value, json};

const TASK: TaskView<'static> = TaskView {
    id: "t\"1",
    status: TaskStatus::Working,
    status_message: Some("half"),
    created_ms: 0,
    updated_ms: 1,
    ttl_ms: None,
    poll_ms: 500,
};

fn changes() -> [(Change<'static>, &'static str); 4] {
    [
        (Change::ToolsList, "notifications/tools/list_changed"),
        (Change::PromptsList, "notifications/prompts/list_changed"),
        (Change::ResourcesList, "notifications/resources/list_changed"),
        (Change::Resource { uri: "file:///a?b=%22" }, "notifications/resources/updated"),
    ]
}

#[test]
fn a_change_fits_every_legacy_revision() {
    for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_modern()) {
        for (change, method) in changes() {
            let said = hold(revision, None, |out| change.write_legacy(out));
            assert_eq!(said["method"], method);
            assert_eq!(
                said.pointer("/params/uri").is_some(),
                matches!(change, Change::Resource { .. })
            );
        }
    }
    let change = Change::Task { task: TASK, detail: TaskDetail::Nothing };
    let said = hold(Revision::V2025_11_25, None, |out| change.write_legacy(out));
    assert_eq!(said["method"], "notifications/tasks/status");
    assert_eq!(said["params"]["ttl"], Value::Null);
    assert_eq!(said["params"]["pollInterval"], 500);
}

#[test]
fn a_change_on_a_stream_carries_the_id_of_the_stream_as_it_was_sent() {
    let task = Change::Task { task: TASK, detail: TaskDetail::Nothing };
    let all = changes().into_iter().chain([(task, "notifications/tasks")]);
    for (change, method) in all {
        for (id, sent) in [(Id::Signed(7), json!(7)), (Id::Text("l\""), json!("l\""))] {
            let said = hold(Revision::LATEST, None, |out| change.write_subscribed(out, id));
            assert_eq!(said["method"], method);
            assert_eq!(said["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], sent);
        }
        // One head and one tail serve every stream.
        let (mut head, mut tail, mut whole) = (Vec::new(), Vec::new(), Vec::new());
        change.write_head(&mut head);
        change.write_tail(&mut tail);
        change.write_subscribed(&mut whole, Id::Signed(12));
        assert_eq!(whole, [&head[..], b"12", &tail[..]].concat());
    }
}

#[test]
fn an_acknowledgement_names_what_is_granted_and_nothing_else() {
    let all = Filter {
        tools_list_changed: true,
        prompts_list_changed: true,
        resources_list_changed: true,
        resource_uris: vec!["file:///a", "test://\""],
        task_ids: vec!["t"],
    };
    let everything = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["file:///a", "test://\""], "taskIds": ["t"],
    });
    for (granted, named) in [(Filter::default(), json!({})), (all, everything)] {
        let said = hold(Revision::LATEST, None, |out| {
            message::acknowledged(out, Id::Text("l"), &granted);
        });
        assert_eq!(said["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(said["params"]["notifications"], named);
        assert_eq!(said["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
    }
}

#[test]
fn the_end_of_a_stream_names_the_stream_and_the_server() {
    let said = hold_result(Revision::LATEST, "subscriptions/listen", |out| {
        message::listen_result(out, Id::Text("7"), &suffix(Revision::LATEST));
    });
    let meta = &said["result"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], "7");
    assert_eq!(meta["io.modelcontextprotocol/serverInfo"]["name"], "server");
    let mut bare = Vec::new();
    message::listen_result(&mut bare, Id::Signed(7), b"");
    let bare: Value = serde_json::from_slice(&bare).unwrap();
    assert_eq!(bare["_meta"], json!({"io.modelcontextprotocol/subscriptionId": 7}));
}

#[test]
fn a_log_message_fits_every_revision_at_every_level() {
    for revision in Revision::ALL {
        for (level, name) in LogLevel::ALL {
            for (logger, data) in [(None, json!("text")), (Some("db\""), json!({"a": [null]}))] {
                let encoded = data.to_string();
                let said = hold(revision, None, |out| {
                    message::log(out, level, logger, encoded.as_bytes());
                });
                assert_eq!(said["params"]["level"], name);
                assert_eq!(said["params"]["logger"].as_str(), logger);
                assert_eq!(said["params"]["data"], data);
            }
        }
    }
}

#[test]
fn a_cancellation_fits_every_revision() {
    for revision in Revision::ALL {
        for (id, reason) in [(Id::Signed(-1), None), (Id::Text("a\""), Some("no\n"))] {
            let said = hold(revision, None, |out| message::cancelled(out, id, reason));
            assert_eq!(said["params"]["reason"].as_str(), reason);
        }
    }
    let said = hold(Revision::V2025_11_25, None, |out| message::elicitation_complete(out, "e\""));
    assert_eq!(said["params"], json!({"elicitationId": "e\""}));
}
