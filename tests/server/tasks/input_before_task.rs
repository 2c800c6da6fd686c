//! Tools that elicit before they become a task: one handler runs through the call and the task.

use serde_json::{Value, json};

use crate::tasks::task_client::{
    RELATED_TASK, TASKS_EXTENSION, TaskClient, expect_error, result_text,
};
use crate::tasks::task_tools::{options, start_server};

/// Retries a modern call with the response to its elicitation, and returns the response.
fn retry_with_name(client: &mut TaskClient, first: &Value) -> Value {
    let state = &first["result"]["requestState"];
    let name = json!({"action": "accept", "content": {"name": "Ada"}});
    let extra = json!({"inputResponses": {"user_name": name}, "requestState": state});
    client.call_tool("name", extra)
}

fn call_until_input_required(client: &mut TaskClient) -> Value {
    let first = client.call_tool("name", json!({}));
    assert_eq!(first["result"]["resultType"], "input_required", "{first}");
    assert!(first["result"]["inputRequests"]["user_name"].is_object(), "{first}");
    first
}

#[test]
fn modern_call_requires_input_then_becomes_task() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    let first = call_until_input_required(&mut client);
    let begun = retry_with_name(&mut client, &first);
    assert_eq!(begun["result"]["resultType"], "task", "{begun}");
    assert_eq!(begun["result"].get("requestState"), None, "{begun}");
    let id = begun["result"]["taskId"].as_str().expect("no task id").to_owned();
    client.wait_for_status(&id, "working");
    // The state cannot be used again.
    expect_error(&retry_with_name(&mut client, &first), -32602);
    // Cancelling the call does not cancel the task.
    let params = json!({"requestId": begun["id"]});
    client.send_message(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
    );
    server.open_gate();
    let task = client.wait_for_status(&id, "input_required");
    assert!(task["inputRequests"]["later"].is_object(), "{task}");
    let responses = json!({"later": {"action": "decline"}});
    client.request("tasks/update", json!({"taskId": id, "inputResponses": responses}));
    assert_eq!(
        result_text(&client.wait_for_status(&id, "completed")["result"]),
        "Hello, Ada! Decline"
    );
    assert_eq!(server.close().requests.tasks_created, 1);
}

#[test]
fn core_call_elicits_then_becomes_task() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let params = json!({"name": "name", "task": {"ttl": 60_000}, "_meta": {"progressToken": "p"}});
    let call = client.send_request("tools/call", params);
    let elicitation = client.wait_for_message("elicitation/create");
    assert_eq!(
        elicitation["params"]["_meta"].get(RELATED_TASK),
        None,
        "no task exists yet: {elicitation}"
    );
    let result = json!({"action": "accept", "content": {"name": "Ada"}});
    client.send_message(&json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": result}));
    let begun = client.read_response(call, "tools/call");
    let task = &begun["result"]["task"];
    assert_eq!((&task["status"], &task["ttl"]), (&json!("working"), &json!(60_000)), "{begun}");
    let id = task["taskId"].as_str().expect("no task id").to_owned();
    let notification = client.wait_for_message("notifications/progress");
    assert_eq!(
        notification["params"]["_meta"][RELATED_TASK]["taskId"],
        id.as_str(),
        "{notification}"
    );
    server.open_gate();
    let elicitation = client.wait_for_message("elicitation/create");
    assert_eq!(
        elicitation["params"]["_meta"][RELATED_TASK]["taskId"],
        id.as_str(),
        "{elicitation}"
    );
    client.send_message(
        &json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": {"action": "cancel"}}),
    );
    let result = client.request_task("tasks/result", &id);
    assert_eq!(result_text(&result["result"]), "Hello, Ada! Cancel");
    server.close();
}

#[test]
fn task_created_after_input_can_be_cancelled() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    let first = call_until_input_required(&mut client);
    let begun = retry_with_name(&mut client, &first);
    let id = begun["result"]["taskId"].as_str().expect("no task id").to_owned();
    client.request_task("tasks/cancel", &id);
    client.wait_for_status(&id, "cancelled");
    assert_eq!(server.close().requests.tasks_cancelled, 1);
}

#[test]
fn call_cancelled_before_task_creates_none() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let call = client.send_request("tools/call", json!({"name": "name", "task": {}}));
    let elicitation = client.wait_for_message("elicitation/create");
    let params = json!({"requestId": call});
    client.send_message(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
    );
    assert_eq!(
        client.wait_for_message("notifications/cancelled")["params"]["requestId"],
        elicitation["id"]
    );
    assert_eq!(client.request("tasks/list", json!({}))["result"]["tasks"], json!([]));
    assert_eq!(server.close().requests.tasks_created, 0);
}

#[test]
fn handler_return_before_task_answers_the_call() {
    let server = start_server(options());
    assert_eq!(
        result_text(&TaskClient::connect_modern(&server).call_tool("hasty", json!({}))["result"]),
        "done"
    );
    // A client of 2025-11-25 that requests a task gets one.
    let mut client = TaskClient::connect_core(&server);
    assert_eq!(result_text(&client.call_tool("hasty", json!({}))["result"]), "done");
    let id = client.start_task("hasty");
    assert_eq!(result_text(&client.request_task("tasks/result", &id)["result"]), "done");
    server.close();
}

#[test]
fn full_task_table_refuses_task_after_input() {
    let mut options = options();
    options.limits.tasks_max = 1;
    let server = start_server(options);
    let mut client = TaskClient::connect_modern(&server);
    client.start_task("hold");
    let first = call_until_input_required(&mut client);
    expect_error(&retry_with_name(&mut client, &first), -32603);
    server.close();
}

#[test]
fn client_without_tasks_is_refused_before_elicitation() {
    let server = start_server(options());
    let mut client = TaskClient::connect_modern(&server);
    client.capabilities = json!({"elicitation": {}});
    let refused = client.call_tool("name", json!({}));
    expect_error(&refused, -32021);
    let required = json!({"extensions": {TASKS_EXTENSION: {}}});
    assert_eq!(refused["error"]["data"]["requiredCapabilities"], required, "{refused}");
    expect_error(&TaskClient::connect_core(&server).call_tool("name", json!({})), -32601);
    server.close();
}
