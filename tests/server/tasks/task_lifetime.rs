//! Time to live of tasks, their limits, and what happens to them in a drain.

use std::time::Duration;

use serde_json::json;

use crate::tasks::task_client::TaskClient;
use crate::tasks::task_client::expect_error;
use crate::tasks::task_tools::{options, start_server};

#[test]
fn task_ttl_is_clamped_to_the_maximum() {
    let mut options = options();
    options.limits.task_ttl = Duration::from_secs(20);
    options.limits.task_ttl_max = Duration::from_secs(30);
    let server = start_server(options);
    let mut client = TaskClient::connect_core(&server);
    for (requested, granted) in [
        (json!({}), 20_000),
        (json!({"ttl": 25_000}), 25_000),
        (json!({"ttl": 31_000}), 30_000),
        (json!({"ttl": u64::MAX}), 30_000),
        (json!({"ttl": null}), 20_000),
    ] {
        let response = client.call_tool("hold", json!({"task": requested}));
        assert_eq!(response["result"]["task"]["ttl"], granted, "{response}");
    }
    assert_eq!(
        TaskClient::connect_modern(&server).call_tool("hold", json!({}))["result"]["ttlMs"],
        20_000
    );
    server.close();
}

#[test]
fn expired_task_is_unknown_and_fails_waiting_calls() {
    let mut options = options();
    options.limits.task_ttl = Duration::from_millis(100);
    options.limits.task_ttl_max = Duration::from_millis(100);
    let server = start_server(options);
    let (mut core, mut modern) =
        (TaskClient::connect_core(&server), TaskClient::connect_modern(&server));
    let id = modern.start_task("hold");
    for tool in ["hold", "block"] {
        let old = core.start_task(tool);
        let waiting = core.send_request("tasks/result", json!({"taskId": old}));
        expect_error(&core.read_response(waiting, "tasks/result"), -32602);
        expect_error(&core.request_task("tasks/get", &old), -32602);
    }
    // Newer tasks have expired, so this one has, too.
    expect_error(&modern.request_task("tasks/get", &id), -32602);
    server.close();
}

#[test]
fn full_task_table_refuses_until_a_task_expires() {
    let mut options = options();
    options.limits.tasks_max = 2;
    options.limits.task_ttl = Duration::from_millis(200);
    let server = start_server(options);
    server.open_gate();
    let mut client = TaskClient::connect_modern(&server);
    client.start_task("hold");
    client.start_task("hold");
    loop {
        let response = client.call_tool("hold", json!({}));
        if response.get("result").is_some() {
            break;
        }
        expect_error(&response, -32603);
    }
    server.close();
}

#[test]
fn task_limits_share_the_table_among_connections() {
    let mut options = options();
    options.limits.tasks_max = 4;
    options.limits.tasks_per_connection_max = 2;
    let server = start_server(options);
    server.open_gate();
    let (mut modern, mut core) =
        (TaskClient::connect_modern(&server), TaskClient::connect_core(&server));
    for client in [&mut modern, &mut core] {
        client.start_task("hold");
        client.start_task("block");
    }
    expect_error(&modern.call_tool("hold", json!({})), -32603);
    let mut third = TaskClient::connect_modern(&server);
    expect_error(&third.call_tool("hold", json!({})), -32603);
    let requests = server.close().requests;
    assert_eq!((requests.tasks_refused_limit, requests.tasks_refused_per_connection), (1, 1));
}

#[test]
fn task_beyond_connection_limit_is_refused_and_counted() {
    let mut options = options();
    options.limits.tasks_per_connection_max = 2;
    let server = start_server(options);
    server.open_gate();
    let (mut greedy, mut other) =
        (TaskClient::connect_core(&server), TaskClient::connect_modern(&server));
    greedy.start_task("hold");
    greedy.start_task("hold");
    let refused = greedy.request("tools/call", json!({"name": "hold", "task": {}}));
    expect_error(&refused, -32603);
    other.start_task("hold");
    let requests = server.close().requests;
    assert_eq!((requests.tasks_refused_limit, requests.tasks_refused_per_connection), (0, 1));
}

#[test]
fn task_result_beyond_byte_limit_fails_the_task() {
    let mut options = options();
    options.limits.task_bytes_max = 10;
    let server = start_server(options);
    server.open_gate();
    let mut client = TaskClient::connect_modern(&server);
    let id = client.start_task("hold");
    assert_eq!(client.wait_for_status(&id, "failed")["error"]["code"], -32603);
    server.close();
}

#[test]
fn drain_waits_for_running_tasks() {
    let mut options = options();
    options.engine.drain_timeout = Duration::from_mins(1);
    let server = start_server(options);
    let mut client = TaskClient::connect_modern(&server);
    for tool in ["hold", "block"] {
        client.start_task(tool);
    }
    server.drain();
    client.wait_for_eof();
    server.open_gate();
    assert_eq!(server.join().requests.tasks_cancelled, 0);
}

#[test]
fn drain_timeout_cancels_running_tasks() {
    let mut options = options();
    options.engine.drain_timeout = Duration::from_millis(100);
    let server = start_server(options);
    let mut client = TaskClient::connect_modern(&server);
    for tool in ["hold", "block"] {
        client.start_task(tool);
    }
    client.request("server/discover", json!({}));
    assert_eq!(server.close().requests.tasks_cancelled, 2);
}

#[test]
fn drain_does_not_wait_for_input_required_task() {
    let mut options = options();
    options.engine.drain_timeout = Duration::from_hours(1);
    let server = start_server(options);
    let mut client = TaskClient::connect_modern(&server);
    let id = client.start_task("confirm");
    client.wait_for_status(&id, "input_required");
    let params = json!({"notifications": {"taskIds": [id]}});
    client.send_request("subscriptions/listen", params);
    client.wait_for_message("notifications/subscriptions/acknowledged");
    assert_eq!(
        client.wait_for_message("notifications/tasks")["params"]["status"],
        "input_required"
    );
    // If the drain waited for the task, the test would take an hour.
    let counters = server.close();
    let notification = client.wait_for_message("notifications/tasks");
    assert_eq!(notification["params"]["status"], "failed", "{notification}");
    assert_eq!(notification["params"]["error"]["code"], -32603, "{notification}");
    assert!(notification["params"]["statusMessage"].is_string(), "{notification}");
    client.wait_for_eof();
    assert_eq!((counters.requests.tasks_cancelled, counters.client_requests.cancelled), (0, 1));
}

#[test]
fn elicitation_during_drain_fails_the_task() {
    let mut options = options();
    options.engine.drain_timeout = Duration::from_hours(1);
    let server = start_server(options);
    let mut client = TaskClient::connect_modern(&server);
    let id = client.start_task("ask_late");
    client.wait_for_status(&id, "working");
    server.drain();
    client.wait_for_eof();
    server.open_gate();
    let counters = server.join();
    assert_eq!((counters.requests.tasks_cancelled, counters.client_requests.cancelled), (0, 1));
}
