//! Requests for tasks that live on another shard.

use corelane_test_support::TestServer;
use serde_json::{Value, json};

use crate::tasks::task_client::{RELATED_TASK, TaskClient, expect_error, result_text};
use crate::tasks::task_tools::{start_server, two_shard_options};

/// Returns whether the second of two shards owns a task; each owns one half of the task ids.
fn is_on_second_shard(id: &str) -> bool {
    id.as_bytes()[0] >= b'8'
}

/// Starts a task on one shard and returns its id and a connection to the other shard. Opens as many
/// connections as needed, because the kernel distributes them.
fn start_task_on_other_shard(
    server: &TestServer,
    connect: impl Fn(&TestServer) -> TaskClient,
    tool: &str,
) -> (String, TaskClient) {
    let mut first = connect(server);
    let id = first.start_task(tool);
    for _ in 0..CONNECTIONS_MAX {
        let mut other = connect(server);
        let own = other.start_task("hold");
        if is_on_second_shard(&own) != is_on_second_shard(&id) {
            return (id, other);
        }
    }
    panic!("{CONNECTIONS_MAX} connections reached the same shard");
}

const CONNECTIONS_MAX: usize = 200;

#[test]
fn extension_task_is_served_by_every_shard() {
    let server = start_server(two_shard_options());
    let (id, mut client) =
        start_task_on_other_shard(&server, TaskClient::connect_modern, "confirm");
    let task = client.wait_for_status(&id, "input_required");
    assert!(task["inputRequests"]["first"].is_object(), "{task}");
    for (key, action) in [("first", "accept"), ("second", "decline")] {
        while client.wait_for_status(&id, "input_required")["inputRequests"].get(key).is_none() {}
        let wrong = json!({"taskId": id, "inputResponses": {key: 7}});
        expect_error(&client.request("tasks/update", wrong), -32602);
        let params = json!({"taskId": id, "inputResponses": {key: {"action": action}}});
        assert_eq!(client.request("tasks/update", params)["result"]["resultType"], "complete");
    }
    assert_eq!(result_text(&client.wait_for_status(&id, "completed")["result"]), "Accept Decline");
    assert_eq!(client.request_task("tasks/cancel", &id)["result"]["resultType"], "complete");
    server.close();
}

#[test]
fn task_subscription_works_from_another_shard() {
    let server = start_server(two_shard_options());
    let (id, mut client) = start_task_on_other_shard(&server, TaskClient::connect_modern, "hold");
    let subscription = client.subscribe(&[&id]);
    assert_eq!(client.wait_for_task_notification(&id, subscription)["status"], "working");
    server.open_gate();
    let task = client.wait_for_task_notification(&id, subscription);
    assert_eq!((&task["status"], result_text(&task["result"])), (&json!("completed"), "held"));
    server.close();
}

#[test]
fn core_task_result_is_awaited_from_another_shard() {
    let server = start_server(two_shard_options());
    let (id, mut client) = start_task_on_other_shard(&server, TaskClient::connect_core, "hold");
    let waiting = client.send_request("tasks/result", json!({"taskId": id}));
    assert_eq!(client.request_task("tasks/get", &id)["result"]["status"], "working");
    server.open_gate();
    let result = client.read_response(waiting, "tasks/result");
    assert_eq!(result_text(&result["result"]), "held");
    assert_eq!(result["result"]["_meta"][RELATED_TASK]["taskId"], id.as_str());
    expect_error(&client.request_task("tasks/cancel", &id), -32602);
    let listed = client.request("tasks/list", json!({}));
    let tasks = listed["result"]["tasks"].as_array().unwrap();
    assert!(tasks.iter().all(|task| task["taskId"] != id.as_str()), "{listed}");
    server.close();
}

#[test]
fn tasks_result_call_across_shards_can_be_cancelled() {
    let server = start_server(two_shard_options());
    let (id, mut client) = start_task_on_other_shard(&server, TaskClient::connect_core, "hold");
    let waiting = client.send_request("tasks/result", json!({"taskId": id}));
    let params = json!({"requestId": waiting});
    client.send_message(
        &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}),
    );
    assert_eq!(client.request_task("tasks/get", &id)["result"]["status"], "working");
    server.open_gate();
    assert_eq!(result_text(&client.request_task("tasks/result", &id)["result"]), "held");
    assert!(client.unread_messages().all(|message: &Value| message["id"] != waiting));
    server.close();
}

#[test]
fn unknown_task_id_is_invalid_on_every_shard() {
    let server = start_server(two_shard_options());
    let (_, mut client) = start_task_on_other_shard(&server, TaskClient::connect_modern, "hold");
    for digit in ["0", "7", "8", "f"] {
        expect_error(&client.request_task("tasks/get", &digit.repeat(32)), -32602);
    }
    server.close();
}
