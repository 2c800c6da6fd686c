//! Notifications from server to client, in both eras.

use crate::schema_checks::{check_encoded, check_response, suffix};
use corelane_protocol::eras::LoggingLevel;
use corelane_protocol::jsonrpc::Id;
use corelane_protocol::model::{self, ChangeNotification, TaskDetail, TaskStatus, TaskView};
use corelane_protocol::params::SubscriptionFilter;
use corelane_protocol::revision::Revision;
use serde_json::{Value, json};

const TASK: TaskView<'static> = TaskView {
    task_id: "t\"1",
    status: TaskStatus::Working,
    status_message: Some("half"),
    created_at_ms: 0,
    last_updated_at_ms: 1,
    ttl_ms: None,
    poll_interval_ms: 500,
};

fn changes() -> [(ChangeNotification<'static>, &'static str); 4] {
    [
        (ChangeNotification::ToolListChanged, "notifications/tools/list_changed"),
        (ChangeNotification::PromptListChanged, "notifications/prompts/list_changed"),
        (ChangeNotification::ResourceListChanged, "notifications/resources/list_changed"),
        (
            ChangeNotification::ResourceUpdated { uri: "file:///a?b=%22" },
            "notifications/resources/updated",
        ),
    ]
}

#[test]
fn change_notification_fits_every_legacy_revision() {
    for revision in Revision::ALL.into_iter().filter(|revision| !revision.is_modern()) {
        for (change, method) in changes() {
            let sent = check_encoded(revision, None, |out| change.write_legacy(out));
            assert_eq!(sent["method"], method);
            assert_eq!(
                sent.pointer("/params/uri").is_some(),
                matches!(change, ChangeNotification::ResourceUpdated { .. })
            );
        }
    }
    let change = ChangeNotification::TaskStatus { task: TASK, detail: TaskDetail::None };
    let sent = check_encoded(Revision::V2025_11_25, None, |out| change.write_legacy(out));
    assert_eq!(sent["method"], "notifications/tasks/status");
    assert_eq!(sent["params"]["ttl"], Value::Null);
    assert_eq!(sent["params"]["pollInterval"], 500);
}

#[test]
fn change_notification_carries_subscription_id() {
    let task = ChangeNotification::TaskStatus { task: TASK, detail: TaskDetail::None };
    let all = changes().into_iter().chain([(task, "notifications/tasks")]);
    for (change, method) in all {
        for (id, expected) in [(Id::Signed(7), json!(7)), (Id::Text("l\""), json!("l\""))] {
            let sent = check_encoded(Revision::LATEST, None, |out| {
                change.write_head(out);
                id.write(out);
                change.write_tail(out);
            });
            assert_eq!(sent["method"], method);
            let meta = &sent["params"]["_meta"];
            assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], expected);
        }
    }
}

#[test]
fn subscription_acknowledgement_names_granted_notifications() {
    let all = SubscriptionFilter {
        tools_list_changed: true,
        prompts_list_changed: true,
        resources_list_changed: true,
        resource_subscriptions: vec!["file:///a", "test://\""],
        task_ids: vec!["t"],
    };
    let everything = json!({
        "toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true,
        "resourceSubscriptions": ["file:///a", "test://\""], "taskIds": ["t"],
    });
    for (granted, expected) in [(SubscriptionFilter::default(), json!({})), (all, everything)] {
        let sent = check_encoded(Revision::LATEST, None, |out| {
            model::write_subscriptions_acknowledged(out, Id::Text("l"), &granted);
        });
        assert_eq!(sent["method"], "notifications/subscriptions/acknowledged");
        assert_eq!(sent["params"]["notifications"], expected);
        assert_eq!(sent["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "l");
    }
}

#[test]
fn subscriptions_listen_result_names_subscription_and_server() {
    let response = check_response(Revision::LATEST, "subscriptions/listen", |out| {
        model::write_subscriptions_listen_result(out, Id::Text("7"), &suffix(Revision::LATEST));
    });
    let meta = &response["result"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], "7");
    assert_eq!(meta["io.modelcontextprotocol/serverInfo"]["name"], "server");
    let mut bare = Vec::new();
    model::write_subscriptions_listen_result(&mut bare, Id::Signed(7), b"");
    let bare: Value = serde_json::from_slice(&bare).unwrap();
    assert_eq!(bare["_meta"], json!({"io.modelcontextprotocol/subscriptionId": 7}));
}

#[test]
fn log_notification_fits_every_revision_and_level() {
    for revision in Revision::ALL {
        for (level, name) in LoggingLevel::ALL {
            for (logger, data) in [(None, json!("text")), (Some("db\""), json!({"a": [null]}))] {
                let encoded = data.to_string();
                let sent = check_encoded(revision, None, |out| {
                    model::write_logging_message(out, level, logger, encoded.as_bytes());
                });
                assert_eq!(sent["params"]["level"], name);
                assert_eq!(sent["params"]["logger"].as_str(), logger);
                assert_eq!(sent["params"]["data"], data);
            }
        }
    }
}

#[test]
fn cancelled_notification_fits_every_revision() {
    for revision in Revision::ALL {
        for (id, reason) in [(Id::Signed(-1), None), (Id::Text("a\""), Some("no\n"))] {
            let sent = check_encoded(revision, None, |out| model::write_cancelled(out, id, reason));
            assert_eq!(sent["params"]["reason"].as_str(), reason);
        }
    }
    let sent = check_encoded(Revision::V2025_11_25, None, |out| {
        model::write_elicitation_complete(out, "e\"");
    });
    assert_eq!(sent["params"], json!({"elicitationId": "e\""}));
}
