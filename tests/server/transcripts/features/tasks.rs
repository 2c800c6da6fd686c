//! Core tasks (2025-11-25) and the tasks extension (2026-07-28).

use corelane_test_support::messages::{LEGACY_REVISIONS, MODERN};
use serde_json::{Value, json};

use super::Feature;
use crate::transcripts::check_transcript;
use crate::transcripts::transcript_client::TranscriptClient;

#[test]
fn extension_tasks_match_golden_transcript() {
    check_transcript(&Feature {
        name: "tasks",
        revisions: &[MODERN],
        arguments: &[],
        scenario: extension,
    });
}

/// Capabilities with the tasks extension.
fn extension_capabilities() -> Value {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

fn has_ended(task: &Value) -> bool {
    ["completed", "failed", "cancelled"].iter().any(|status| task["status"] == *status)
}

fn extension(client: &mut TranscriptClient) {
    client.open(extension_capabilities());
    client.start_section("a task that completes, and two that fail");
    for (tool, arguments) in [
        ("slow_compute", json!({"seconds": 0, "label": "quick"})),
        ("failing_job", json!({})),
        ("protocol_error_job", json!({})),
    ] {
        let task = client.call_tool(tool, &arguments);
        let id = json!({"taskId": task["taskId"]});
        client.poll("tasks/get", &id, has_ended);
    }
    client.start_section("a task that requires input");
    let task = client.call_tool("confirm_delete", &json!({"filename": "a.txt"}));
    let id = json!({"taskId": task["taskId"]});
    let waiting = client.poll("tasks/get", &id, |task| task["status"] == "input_required");
    let requests = waiting["inputRequests"].as_object().cloned().unwrap_or_default();
    let responses: serde_json::Map<String, Value> = requests
        .keys()
        .map(|key| (key.clone(), json!({"action": "accept", "content": {"confirm": true}})))
        .collect();
    let update = json!({"taskId": task["taskId"], "inputResponses": responses});
    client.expect_result("tasks/update", update);
    client.poll("tasks/get", &id, has_ended);
    client.start_section("a call that requires input before it becomes a task");
    let tool = json!({"name": "test_tool_with_task", "arguments": {}});
    let first = client.expect_result("tools/call", tool.clone());
    let mut retry = tool;
    retry["requestState"] = first["requestState"].clone();
    let name = json!({"action": "accept", "content": {"name": "Ada"}});
    retry["inputResponses"] = json!({"user_name": name});
    let task = client.expect_result("tools/call", retry);
    client.poll("tasks/get", &json!({"taskId": task["taskId"]}), has_ended);
    client.start_section("a task that is cancelled, twice");
    let task = client.call_tool("slow_compute", &json!({"seconds": 60, "label": "long"}));
    let id = json!({"taskId": task["taskId"]});
    client.expect_result("tasks/cancel", id.clone());
    client.poll("tasks/get", &id, has_ended);
    client.expect_result("tasks/cancel", id);
    client.start_section("unknown tasks, and methods of core tasks");
    client.expect_error("tasks/get", json!({"taskId": "unknown"}), -32602);
    client.expect_error("tasks/result", json!({"taskId": "unknown"}), -32601);
    client.expect_error("tasks/list", json!({}), -32601);
}

#[test]
fn client_without_tasks_extension_gets_result_directly() {
    check_transcript(&Feature {
        name: "tasks-undeclared",
        revisions: &[MODERN],
        arguments: &[],
        scenario: undeclared,
    });
}

fn undeclared(client: &mut TranscriptClient) {
    client.open(json!({}));
    client.start_section("a tool with optional and one with required task support");
    client.call_tool("slow_compute", &json!({"seconds": 0, "label": "quick"}));
    client.expect_error("tools/call", json!({"name": "failing_job", "arguments": {}}), -32021);
    client.expect_error("tasks/get", json!({"taskId": "unknown"}), -32021);
}

#[test]
fn core_tasks_match_golden_transcript() {
    check_transcript(&Feature {
        name: "tasks",
        revisions: &[LEGACY_REVISIONS[3]],
        arguments: &[],
        scenario: core,
    });
}

fn core(client: &mut TranscriptClient) {
    client.open(json!({"tasks": {"requests": {"elicitation": {"create": {}}}}, "elicitation": {}}));
    client.start_section("a task that completes");
    let arguments = json!({"seconds": 0, "label": "quick"});
    let params = json!({"name": "slow_compute", "arguments": arguments, "task": {"ttl": 60_000}});
    let created = client.expect_result("tools/call", params);
    let id = json!({"taskId": created["task"]["taskId"]});
    client.expect_result("tasks/result", id.clone());
    client.expect_result("tasks/get", id);
    client.expect_result("tasks/list", json!({}));
    client.start_section("a tool with required and one without task support");
    client.expect_error("tools/call", json!({"name": "failing_job", "arguments": {}}), -32601);
    let params = json!({"name": "echo", "arguments": {"message": "x"}, "task": {}});
    client.expect_error("tools/call", params, -32601);
    client.start_section("unknown tasks");
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        client.expect_error(method, json!({"taskId": "unknown"}), -32602);
    }
}
