//! Tasks of both generations.

use serde_json::{Value, json};

use super::Feature;
use crate::dialogue::Dialogue;
use crate::{LEGACY, MODERN, hold};

#[test]
fn tasks_of_the_extension_read_as_written() {
    hold(&Feature { name: "tasks", revisions: &[MODERN], arguments: &[], play: extension });
}

/// A client that declared the extension.
fn able() -> Value {
    json!({"elicitation": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

fn is_over(task: &Value) -> bool {
    ["completed", "failed", "cancelled"].iter().any(|over| task["status"] == *over)
}

fn extension(dialogue: &mut Dialogue) {
    dialogue.open(able());
    dialogue.part("a task that completes, and two that fail");
    for (tool, arguments) in [
        ("slow_compute", json!({"seconds": 0, "label": "quick"})),
        ("failing_job", json!({})),
        ("protocol_error_job", json!({})),
    ] {
        let task = dialogue.call(tool, &arguments);
        let id = json!({"taskId": task["taskId"]});
        dialogue.poll("tasks/get", &id, is_over);
    }
    dialogue.part("a task that asks");
    let task = dialogue.call("confirm_delete", &json!({"filename": "a.txt"}));
    let id = json!({"taskId": task["taskId"]});
    let asking = dialogue.poll("tasks/get", &id, |task| task["status"] == "input_required");
    let requests = asking["inputRequests"].as_object().cloned().unwrap_or_default();
    let responses: serde_json::Map<String, Value> = requests
        .keys()
        .map(|key| (key.clone(), json!({"action": "accept", "content": {"confirm": true}})))
        .collect();
    let update = json!({"taskId": task["taskId"], "inputResponses": responses});
    dialogue.succeed("tasks/update", update);
    dialogue.poll("tasks/get", &id, is_over);
    dialogue.part("a call that asks before it becomes a task");
    let tool = json!({"name": "test_tool_with_task", "arguments": {}});
    let asked = dialogue.succeed("tools/call", tool.clone());
    let mut again = tool;
    again["requestState"] = asked["requestState"].clone();
    let name = json!({"action": "accept", "content": {"name": "Ada"}});
    again["inputResponses"] = json!({"user_name": name});
    let task = dialogue.succeed("tools/call", again);
    dialogue.poll("tasks/get", &json!({"taskId": task["taskId"]}), is_over);
    dialogue.part("a task that is cancelled, twice");
    let task = dialogue.call("slow_compute", &json!({"seconds": 60, "label": "long"}));
    let id = json!({"taskId": task["taskId"]});
    dialogue.succeed("tasks/cancel", id.clone());
    dialogue.poll("tasks/get", &id, is_over);
    dialogue.succeed("tasks/cancel", id);
    dialogue.part("tasks that there are not, and methods of the other generation");
    dialogue.fail("tasks/get", json!({"taskId": "nobody"}), -32602);
    dialogue.fail("tasks/result", json!({"taskId": "nobody"}), -32601);
    dialogue.fail("tasks/list", json!({}), -32601);
}

#[test]
fn a_client_without_the_extension_gets_its_answer_at_once() {
    hold(&Feature { name: "tasks-unable", revisions: &[MODERN], arguments: &[], play: unable });
}

fn unable(dialogue: &mut Dialogue) {
    dialogue.open(json!({}));
    dialogue.part("a tool that may be a task, and one that must");
    dialogue.call("slow_compute", &json!({"seconds": 0, "label": "quick"}));
    dialogue.fail("tools/call", json!({"name": "failing_job", "arguments": {}}), -32021);
    dialogue.fail("tasks/get", json!({"taskId": "nobody"}), -32021);
}

#[test]
fn tasks_of_the_core_read_as_written() {
    hold(&Feature { name: "tasks", revisions: &[LEGACY[3]], arguments: &[], play: core });
}

fn core(dialogue: &mut Dialogue) {
    dialogue
        .open(json!({"tasks": {"requests": {"elicitation": {"create": {}}}}, "elicitation": {}}));
    dialogue.part("a task that completes");
    let arguments = json!({"seconds": 0, "label": "quick"});
    let params = json!({"name": "slow_compute", "arguments": arguments, "task": {"ttl": 60_000}});
    let created = dialogue.succeed("tools/call", params);
    let id = json!({"taskId": created["task"]["taskId"]});
    dialogue.succeed("tasks/result", id.clone());
    dialogue.succeed("tasks/get", id);
    dialogue.succeed("tasks/list", json!({}));
    dialogue.part("a tool that must be a task, and one that must not");
    dialogue.fail("tools/call", json!({"name": "failing_job", "arguments": {}}), -32601);
    let params = json!({"name": "echo", "arguments": {"message": "x"}, "task": {}});
    dialogue.fail("tools/call", params, -32601);
    dialogue.part("tasks that there are not");
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        dialogue.fail(method, json!({"taskId": "nobody"}), -32602);
    }
}
