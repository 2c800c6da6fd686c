//! Tasks: calls that the client wants as tasks, calls that become tasks because they require input,
//! and tools of upstreams whose calls must be tasks.

use serde_json::{Value, json};

use crate::client::{Client, text_of};
use crate::gateway::{
    ERAS, Gateway, KINDS, Kind, LEGACY_HTTP, LEGACY_TCP, MODERN_HTTP, MODERN_TCP,
};

const TASKS: &str = "io.modelcontextprotocol/tasks";

/// A client of 2026-07-28 that answers what it is asked, and takes tasks.
fn with_tasks(gateway: &Gateway, kind: Kind) -> Client {
    let capabilities = json!({"elicitation": {}, "sampling": {}, "extensions": {TASKS: {}}});
    Client::with_capabilities(gateway, kind, capabilities)
}

/// The state of a task of 2026-07-28 once it has this status.
fn state_with(client: &mut Client, id: &Value, status: &str) -> Value {
    loop {
        let state = client.result("tasks/get", json!({"taskId": id}));
        if state["status"] == status {
            return state;
        }
        assert_eq!(state["status"], "working", "{state}");
    }
}

/// Begins a call of a client of 2025-11-25 as a task; returns the id of the task.
fn begin(client: &mut Client, tool: &str, arguments: &Value) -> Value {
    let params = json!({"name": tool, "arguments": arguments, "task": {"ttl": 60_000}});
    let created = client.result("tools/call", params);
    assert_eq!(created["task"]["status"], "working", "{created}");
    created["task"]["taskId"].clone()
}

#[test]
fn call_of_2025_11_25_runs_as_task() {
    for era in ERAS {
        let gateway = Gateway::new(&["--era", era]);
        for kind in [LEGACY_TCP, LEGACY_HTTP] {
            eprintln!("client {kind:?}, upstream {era}");
            let mut client = gateway.client(kind);
            let id = begin(&mut client, "echo", &json!({"message": "as a task"}));
            let response = client.request("tasks/result", json!({"taskId": id}));
            assert_eq!(text_of(&response), "as a task");
            let id = begin(&mut client, "error", &json!({}));
            let response = client.request("tasks/result", json!({"taskId": id}));
            assert_eq!(response["error"]["code"], -32050, "{response}");
            // Without `task` it is a call.
            assert_eq!(client.text("echo", json!({"message": "as a call"})), "as a call");
        }
        gateway.end();
    }
}

#[test]
fn cancelled_task_cancels_call_of_upstream() {
    for era in ERAS {
        let gateway = Gateway::with_keys("share = \"all\"", &["--era", era]);
        let mut client = gateway.client(LEGACY_TCP);
        let id = begin(&mut client, "slow", &json!({}));
        while client.state()["waiting"] == 0 {}
        client.result("tasks/cancel", json!({"taskId": id}));
        while client.state()["cancelled"] == 0 {}
        assert_eq!(client.state()["waiting"], 0, "{era}");
        gateway.end();
    }
}

#[test]
fn call_that_would_be_held_becomes_task() {
    for era in ERAS {
        let gateway = Gateway::new(&["--era", era]);
        for kind in [MODERN_TCP, MODERN_HTTP] {
            eprintln!("client {kind:?}, upstream {era}");
            let mut client = with_tasks(&gateway, kind);
            // A call that requires no input is answered at once.
            assert_eq!(client.text("echo", json!({"message": "hello"})), "hello");
            let params = json!({"name": "ask", "arguments": {"rounds": 2}});
            let created = client.result("tools/call", params);
            if era == "modern" {
                // Nothing is held for an upstream that gets the request again.
                assert_eq!(created["resultType"], "input_required", "{created}");
                continue;
            }
            assert_eq!(created["resultType"], "task", "{created}");
            let id = &created["taskId"];
            for _ in 0..2 {
                let state = state_with(&mut client, id, "input_required");
                let answers = client.answers_to(&json!({"result": state}));
                let params = json!({"taskId": id, "inputResponses": answers});
                client.result("tasks/update", params);
            }
            let state = state_with(&mut client, id, "completed");
            let text = state["result"]["content"][0]["text"].as_str().unwrap_or_default();
            assert!(text.contains("accept"), "{state}");
        }
        gateway.end();
    }
}

#[test]
fn call_is_held_without_room_for_task() {
    let declaration = crate::gateway::upstream("fixture", "", &[]);
    let gateway = Gateway::declared(&declaration, &["--tasks-max", "1", "--shards", "1"]);
    let mut client = with_tasks(&gateway, MODERN_TCP);
    let params = json!({"name": "ask", "arguments": {}});
    let [first, second] =
        [(); 2].map(|()| client.result("tools/call", params.clone())["resultType"].clone());
    assert_eq!((first, second), (json!("task"), json!("input_required")));
    drop(client);
    gateway.end();
}

#[test]
fn tool_that_must_be_task_is_called() {
    for era in ["legacy", "modern"] {
        let gateway = Gateway::new(&["--era", era, "--tools-of-tasks", "1"]);
        for kind in KINDS {
            eprintln!("client {kind:?}, upstream {era}");
            let mut client = gateway.client(kind);
            assert_eq!(client.text("job", json!({"message": "done"})), "done");
        }
        gateway.end();
    }
}

#[test]
fn cancelled_call_cancels_task_of_upstream() {
    for era in ["legacy", "modern"] {
        let arguments = ["--era", era, "--tools-of-tasks", "1"];
        let gateway = Gateway::with_keys("share = \"all\"", &arguments);
        let mut client = gateway.client(LEGACY_TCP);
        let params = json!({"name": "job", "arguments": {"message": "endless"}});
        let id = client.start("tools/call", params);
        while client.state()["tasks"]["created"] == 0 {}
        client.cancel(id);
        while client.state()["tasks"]["cancelled"] == 0 {}
        gateway.end();
    }
}
