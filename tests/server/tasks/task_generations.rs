//! Tasks of both generations on one server: a task is visible only in its own generation.

use corelane_test_support::TestServer;
use serde_json::json;

use crate::tasks::task_client::{TaskClient, expect_error, result_text};
use crate::tasks::task_tools::{options, start_server};

/// Starts a server and connects a client of each generation.
fn start_with_both_clients() -> (TestServer, TaskClient, TaskClient) {
    let server = start_server(options());
    let (core, modern) = (TaskClient::connect_core(&server), TaskClient::connect_modern(&server));
    (server, core, modern)
}

#[test]
fn task_is_unknown_in_the_other_generation() {
    let (server, mut core, mut modern) = start_with_both_clients();
    let (old, new) = (core.start_task("hold"), modern.start_task("hold"));
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        expect_error(&core.request_task(method, &new), -32602);
    }
    for method in ["tasks/get", "tasks/cancel"] {
        expect_error(&modern.request_task(method, &old), -32602);
    }
    assert_eq!(core.request("tasks/list", json!({}))["result"]["tasks"][0]["taskId"], old.as_str());
    server.open_gate();
    assert_eq!(result_text(&core.request_task("tasks/result", &old)["result"]), "held");
    assert_eq!(result_text(&modern.wait_for_status(&new, "completed")["result"]), "held");
    server.close();
}

#[test]
fn task_outlives_its_connection() {
    let (server, mut core, mut modern) = start_with_both_clients();
    let (old, new) = (core.start_task("hold"), modern.start_task("hold"));
    drop((core, modern));
    let (mut core, mut modern) =
        (TaskClient::connect_core(&server), TaskClient::connect_modern(&server));
    assert_eq!(core.request_task("tasks/get", &old)["result"]["status"], "working");
    server.open_gate();
    assert_eq!(result_text(&core.request_task("tasks/result", &old)["result"]), "held");
    assert_eq!(result_text(&modern.wait_for_status(&new, "completed")["result"]), "held");
    // The other connection does not list it.
    assert_eq!(core.request("tasks/list", json!({}))["result"]["tasks"], json!([]));
    server.close();
}
