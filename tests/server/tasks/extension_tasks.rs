//! The tasks extension of 2026-07-28, in which the server decides what becomes a task.

use serde_json::{Map, Value, json};

use crate::tasks::task_client::{TASKS_EXTENSION, TaskClient, expect_error, result_text};
use crate::tasks::task_tools::{options, start_server};

/// Asserts the members of a task; `extra` are those that its status adds.
#[track_caller]
fn expect_task(task: &Value, status: &str, extra: &[&str]) {
    let members = task.as_object().unwrap_or_else(|| panic!("not an object: {task}"));
    assert_eq!(task["status"], status, "{task}");
    for (key, is_valid) in [
        ("taskId", task["taskId"].is_string()),
        ("createdAt", is_timestamp(&task["createdAt"])),
        ("lastUpdatedAt", is_timestamp(&task["lastUpdatedAt"])),
        ("ttlMs", task["ttlMs"].is_u64()),
        ("pollIntervalMs", task["pollIntervalMs"].is_u64()),
    ] {
        assert!(is_valid, "{key}: {task}");
    }
    let known = ["taskId", "status", "statusMessage", "createdAt", "lastUpdatedAt", "ttlMs"];
    let known: Vec<_> = known.iter().chain(&["pollIntervalMs", "resultType", "_meta"]).collect();
    let others: Vec<_> =
        members.keys().map(String::as_str).filter(|key| !known.contains(&key)).collect();
    assert_eq!(others, extra, "{task}");
}

fn is_timestamp(value: &Value) -> bool {
    value.as_str().is_some_and(|text| text.len() == 24 && text.ends_with('Z'))
}

#[test]
fn call_becomes_task_for_client_with_extension() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    let discovered = client.request("server/discover", json!({}));
    let extensions = &discovered["result"]["capabilities"]["extensions"];
    assert_eq!(extensions[TASKS_EXTENSION], json!({}), "{discovered}");
    for tool in ["hold", "block"] {
        server.close_gate();
        let response = client.call_tool(tool, json!({}));
        assert_eq!(response["result"]["resultType"], "task", "{response}");
        expect_task(&response["result"], "working", &[]);
        let id = response["result"]["taskId"].as_str().unwrap().to_owned();
        let shown = client.request_task("tasks/get", &id);
        assert_eq!(shown["result"]["resultType"], "complete", "{shown}");
        expect_task(&shown["result"], "working", &[]);
        server.open_gate();
        let task = client.wait_for_status(&id, "completed");
        expect_task(&task, "completed", &["result"]);
        assert_eq!(result_text(&task["result"]), "held");
    }
    // An inline tool completes within the call.
    let response = client.call_tool("greet", json!({}));
    assert_eq!(
        (result_text(&response["result"]), &response["result"]["resultType"]),
        ("hello", &json!("complete"))
    );
    server.close();
}

#[test]
fn client_without_extension_gets_no_task() {
    let server = start_server(options());
    server.open_gate();
    let mut client = TaskClient::connect_modern(&server);
    let id = client.start_task("hold");
    client.capabilities = json!({"extensions": {"example.com/other": {}}});
    assert_eq!(result_text(&client.call_tool("hold", json!({}))["result"]), "held");
    let required = json!({"extensions": {TASKS_EXTENSION: {}}});
    let updates = json!({"taskId": id, "inputResponses": {}});
    for response in [
        client.call_tool("fail", json!({})),
        client.request_task("tasks/get", &id),
        client.request_task("tasks/cancel", &id),
        client.request("tasks/update", updates),
    ] {
        expect_error(&response, -32021);
        assert_eq!(response["error"]["data"]["requiredCapabilities"], required, "{response}");
    }
    server.close();
}

#[test]
fn task_parameter_is_ignored_in_modern_revision() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    let response = client.call_tool("plain", json!({"task": {"ttl": 5}}));
    assert_eq!(result_text(&response["result"]), "plain");
    for method in ["tasks/result", "tasks/list"] {
        expect_error(&client.request(method, json!({"taskId": "x"})), -32601);
    }
    server.close();
}

#[test]
fn tool_failure_completes_task_and_error_fails_it() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    let id = client.start_task("fail");
    let task = client.wait_for_status(&id, "completed");
    assert_eq!(
        (result_text(&task["result"]), &task["result"]["isError"]),
        ("no luck", &json!(true))
    );
    let id = client.start_task("refuse");
    let task = client.wait_for_status(&id, "failed");
    expect_task(&task, "failed", &["error"]);
    assert_eq!(task["error"], json!({"code": 7, "message": "not today"}));
    assert_eq!(task["statusMessage"], "not today");
    server.close();
}

#[test]
fn cancelled_task_can_be_cancelled_again() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    for tool in ["hold", "block"] {
        server.close_gate();
        let id = client.start_task(tool);
        for _ in 0..2 {
            let response = client.request_task("tasks/cancel", &id);
            assert_eq!(response["result"]["resultType"], "complete", "{response}");
            assert_eq!(response["result"].get("taskId"), None, "{response}");
            expect_task(&client.wait_for_status(&id, "cancelled"), "cancelled", &[]);
        }
        server.open_gate();
        expect_task(&client.wait_for_status(&id, "cancelled"), "cancelled", &[]);
    }
    server.close();
}

#[test]
fn tasks_update_answers_input_requests_by_key() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    let id = client.start_task("confirm");
    let task = client.wait_for_status(&id, "input_required");
    expect_task(&task, "input_required", &["inputRequests"]);
    assert_eq!(keys(&task["inputRequests"]), ["first"]);
    assert_eq!(task["inputRequests"]["first"]["method"], "elicitation/create");
    let update = |client: &mut TaskClient, responses: Value| {
        let params = json!({"taskId": id, "inputResponses": responses});
        client.request("tasks/update", params)
    };
    // An invalid response changes nothing; responses to no request are ignored.
    expect_error(&update(&mut client, json!({"first": {"action": "perhaps"}})), -32602);
    let ignored = update(&mut client, json!({"second": {"action": "accept"}, "third": 7}));
    assert_eq!(ignored["result"]["resultType"], "complete", "{ignored}");
    assert_eq!(keys(&client.wait_for_status(&id, "input_required")["inputRequests"]), ["first"]);
    update(&mut client, json!({"first": {"action": "accept", "content": {}}}));
    // The second elicitation has another key; a response to the first one is late.
    while keys(&client.wait_for_status(&id, "input_required")["inputRequests"]) != ["second"] {}
    update(&mut client, json!({"first": {"action": "decline"}, "second": {"action": "cancel"}}));
    let task = client.wait_for_status(&id, "completed");
    assert_eq!(result_text(&task["result"]), "Accept Cancel");
    let late = update(&mut client, json!({"second": {"action": "accept"}}));
    assert_eq!(late["result"]["resultType"], "complete", "{late}");
    server.close();
}

#[test]
fn input_required_task_can_be_cancelled() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    let id = client.start_task("confirm");
    client.wait_for_status(&id, "input_required");
    client.request_task("tasks/cancel", &id);
    expect_task(&client.wait_for_status(&id, "cancelled"), "cancelled", &[]);
    server.close();
}

#[test]
fn elicitation_without_client_capability_fails_the_task() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    client.capabilities = json!({"extensions": {TASKS_EXTENSION: {}}});
    let id = client.start_task("confirm");
    let task = client.wait_for_status(&id, "failed");
    assert_eq!(task["error"]["code"], -32021, "{task}");
    assert_eq!(keys(&task["error"]["data"]["requiredCapabilities"]), ["elicitation"]);
    server.close();
}

#[test]
fn extension_task_sends_no_progress_and_ignores_cancellation() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    let response = client.call_tool("steps", json!({"_meta": {"progressToken": "token"}}));
    let id = response["result"]["taskId"].as_str().unwrap().to_owned();
    let params = json!({"requestId": response["id"]});
    client.send_message(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
    );
    server.open_gate();
    client.wait_for_status(&id, "completed");
    assert_eq!(client.unread_messages().next(), None);
    server.close();
}

#[test]
fn task_subscription_receives_every_status_change() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    let id = client.start_task("confirm");
    let subscription = client.subscribe(&[&id]);
    let mut task = client.wait_for_task_notification(&id, subscription);
    while task["status"] == "working" {
        task = client.wait_for_task_notification(&id, subscription);
    }
    for key in ["first", "second"] {
        while task["inputRequests"].get(key).is_none() {
            task = client.wait_for_task_notification(&id, subscription);
        }
        let responses = json!({key: {"action": "accept", "content": {}}});
        client.request("tasks/update", json!({"taskId": id, "inputResponses": responses}));
        task = client.wait_for_task_notification(&id, subscription);
    }
    while task["status"] != "completed" {
        task = client.wait_for_task_notification(&id, subscription);
    }
    assert_eq!(result_text(&task["result"]), "Accept Accept");
    server.close();
}

#[test]
fn task_subscription_requires_extension_and_valid_ids() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    let unknown = "0".repeat(32);
    let params = json!({"notifications": {"taskIds": ["x", unknown]}});
    client.send_request("subscriptions/listen", params.clone());
    let granted = client.wait_for_message("notifications/subscriptions/acknowledged");
    assert_eq!(granted["params"]["notifications"]["taskIds"], json!([unknown]), "{granted}");
    client.capabilities = json!({});
    let refused = client.request("subscriptions/listen", params);
    expect_error(&refused, -32021);
    server.close();
}

#[test]
fn malformed_task_ids_and_responses_are_invalid_params() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    let id = client.start_task("confirm");
    client.wait_for_status(&id, "input_required");
    for wrong in ["", "x", &"0".repeat(32), &"f".repeat(32), &id.to_uppercase()] {
        for method in ["tasks/get", "tasks/cancel"] {
            expect_error(&client.request_task(method, wrong), -32602);
        }
        let params = json!({"taskId": wrong, "inputResponses": {}});
        expect_error(&client.request("tasks/update", params), -32602);
    }
    for responses in [json!(null), json!(7), json!([]), json!({"first": null}), json!({"first": 7})]
    {
        let params = json!({"taskId": id, "inputResponses": responses});
        expect_error(&client.request("tasks/update", params), -32602);
    }
    expect_error(&client.request("tasks/update", json!({"taskId": id})), -32602);
    client.wait_for_status(&id, "input_required");
    server.close();
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().map(Map::keys).into_iter().flatten().map(String::as_str).collect()
}
