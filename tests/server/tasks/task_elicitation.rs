//! Elicitation of 2025-11-25 tasks by server requests: timeouts, progress and cancellation.

use std::time::Duration;

use corelane_test_support::{TIMEOUT, over_each_ring};
use serde_json::json;

use crate::tasks::task_client::RELATED_TASK;
use crate::tasks::task_client::TaskClient;
use crate::tasks::task_tools::{options, start_server};

#[test]
fn elicitation_timeout_cancels_request_and_fails_task() {
    let mut options = options();
    options.limits.client_request_timeout = Duration::from_millis(50);
    let server = start_server(options);
    let mut client = TaskClient::connect_core(&server);
    let id = client.start_task("confirm");
    let elicitation = client.wait_for_message("elicitation/create");
    let withdrawn = client.wait_for_message("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], elicitation["id"], "{withdrawn}");
    client.wait_for_status(&id, "failed");
    // A late response changes nothing.
    client.send_message(
        &json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": {"action": "accept"}}),
    );
    client.wait_for_status(&id, "failed");
    let counters = server.close();
    assert_eq!(
        (counters.client_requests.timed_out, counters.client_requests.unmatched_responses),
        (1, 1),
        "{counters}"
    );
}

#[test]
fn client_progress_on_task_elicitation_is_counted() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let id = client.start_task("confirm");
    let elicitation = client.wait_for_message("elicitation/create");
    let token = &elicitation["params"]["_meta"]["progressToken"];
    let method = "notifications/progress";
    let params = json!({"progressToken": token, "progress": 1});
    client.send_message(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    client.wait_for_status(&id, "input_required");
    let counters = server.close();
    assert_eq!(
        (
            counters.client_requests.progress_notifications,
            counters.client_requests.unmatched_progress
        ),
        (1, 0)
    );
}

#[test]
fn url_elicitation_completes_with_its_task() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let id = client.start_task("page");
    let elicitation = client.wait_for_message("elicitation/create");
    assert_eq!(elicitation["params"]["mode"], "url", "{elicitation}");
    assert_eq!(
        elicitation["params"]["_meta"][RELATED_TASK]["taskId"],
        id.as_str(),
        "{elicitation}"
    );
    let elicitation_id = elicitation["params"]["elicitationId"].as_str().expect("no id").to_owned();
    client.send_message(
        &json!({"jsonrpc": "2.0", "id": elicitation["id"], "result": {"action": "accept"}}),
    );
    client.wait_for_status(&id, "working");
    server.open_gate();
    client.request_task("tasks/result", &id);
    let notification = client.wait_for_message("notifications/elicitation/complete");
    assert_eq!(notification["params"]["elicitationId"], elicitation_id.as_str(), "{notification}");
    server.close();
}

#[test]
fn expired_task_cancels_its_elicitation() {
    let mut options = options();
    options.limits.task_ttl = Duration::from_millis(100);
    let server = start_server(options);
    let mut client = TaskClient::connect_core(&server);
    client.start_task("confirm");
    let elicitation = client.wait_for_message("elicitation/create");
    let withdrawn = client.wait_for_message("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], elicitation["id"], "{withdrawn}");
    assert_eq!(server.close().client_requests.cancelled, 1);
}

#[test]
fn drain_cancels_task_elicitation() {
    let mut options = options();
    options.engine.drain_timeout = Duration::from_mins(1);
    let server = start_server(options);
    let mut client = TaskClient::connect_core(&server);
    client.start_task("confirm");
    let elicitation = client.wait_for_message("elicitation/create");
    server.drain();
    let withdrawn = client.wait_for_message("notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], elicitation["id"], "{withdrawn}");
    // The handler has received the error, so the drain does not wait for it.
    assert_eq!(server.join().requests.tasks_cancelled, 0);
}

#[test]
fn elicitation_during_drain_fails_pending_result() {
    let server = start_server(options());
    let mut client = TaskClient::connect_core(&server);
    let id = client.start_task("confirm");
    client.wait_for_message("elicitation/create");
    // This response is pending until the task ends, so the connection stays open.
    let waiting = client.send_request("tasks/result", json!({"taskId": id}));
    client.wait_for_status(&id, "input_required");
    server.drain();
    let result = client.read_response(waiting, "tasks/result");
    assert_eq!(result["result"]["isError"], true, "{result}");
    client.wait_for_eof();
    assert_eq!(server.join().requests.tasks_cancelled, 0);
}

#[test]
fn half_close_fails_open_elicitation() {
    over_each_ring(options(), |mut options| {
        options.tcp.half_close_timeout = TIMEOUT;
        let server = start_server(options);
        let mut client = TaskClient::connect_core(&server);
        let id = client.start_task("confirm");
        client.wait_for_message("elicitation/create");
        // This response is pending until the task ends, so the connection waits for it.
        let waiting = client.send_request("tasks/result", json!({"taskId": id}));
        client.shutdown_write();
        let result = client.read_response(waiting, "tasks/result");
        assert_eq!(result["result"]["isError"], true, "{result}");
        client.wait_for_eof();
        let counters = server.close();
        assert_eq!(
            (counters.client_requests.sent, counters.client_requests.answered),
            (1, 0),
            "{counters}"
        );
    });
}

#[test]
fn half_close_ends_pending_result_without_response() {
    over_each_ring(options(), |options| {
        let server = start_server(options);
        let mut client = TaskClient::connect_core(&server);
        let id = client.start_task("confirm");
        client.wait_for_message("elicitation/create");
        client.send_request("tasks/result", json!({"taskId": id}));
        client.shutdown_write();
        client.wait_for_eof();
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 1, "{counters}");
    });
}

#[test]
fn half_close_prevents_new_elicitation() {
    over_each_ring(options(), |mut options| {
        options.tcp.half_close_timeout = TIMEOUT;
        let server = start_server(options);
        let mut client = TaskClient::connect_core(&server);
        let id = client.start_task("ask_late");
        let waiting = client.send_request("tasks/result", json!({"taskId": id}));
        client.shutdown_write();
        // No response comes, whether the server reads the end before or after the elicitation.
        server.open_gate();
        let result = client.read_response(waiting, "tasks/result");
        assert_eq!(result["result"]["isError"], true, "{result}");
        client.wait_for_eof();
        assert_eq!(server.close().client_requests.answered, 0);
    });
}
