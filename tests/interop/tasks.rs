//! Tasks of both generations, as far as each client goes: Python knows those of the extension,
//! TypeScript the core tasks. Why the others are out of their reach is written in their scripts.

use serde_json::{Value, json};

use crate::stage::{Era, Sdk, code, each, failure, in_era, text};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

#[test]
fn python_follows_tasks_of_the_extension() {
    in_era(Sdk::Python, "tasks", Era::Modern, expect_tasks_of_the_extension);
}

#[test]
fn python_can_ask_for_core_tasks_and_runs_tools_without_them() {
    in_era(Sdk::Python, "tasks", Era::Legacy, |summary| {
        expect_core_offer(summary);
        assert_eq!(summary["listed"]["result"]["tasks"], json!([]));
        assert_eq!(code(&summary["unknown"]), -32602);
        expect_without_core_task(summary);
    });
}

#[test]
fn typescript_follows_core_tasks() {
    in_era(Sdk::TypeScript, "tasks", Era::Legacy, expect_core_tasks);
}

#[test]
fn typescript_meets_tasks_of_the_extension_only_if_it_declares_them() {
    in_era(Sdk::TypeScript, "tasks", Era::Modern, |summary| {
        assert_eq!(summary["offered"][EXTENSION], json!({}));
        assert_eq!(summary["declared"]["error"]["data"]["resultType"], "task");
        assert_eq!(text(&summary["inline"]), "Hello, Ada!");
        expect_undeclared_extension(summary);
    });
}

fn expect_tasks_of_the_extension(summary: &Value) {
    expect_ends(summary);
    for (job, statuses) in [
        ("slow", &["working", "completed"][..]),
        ("failing", &["working", "completed"]),
        ("broken", &["working", "failed"]),
        ("confirmed", &["working", "input_required", "completed"]),
        ("twice", &["working", "input_required", "completed"]),
        ("cancelled", &["working", "cancelled"]),
        ("inline", &[]),
    ] {
        assert_eq!(summary[job]["statuses"], json!(statuses), "{job}");
    }
    let broken = &summary["broken"]["result"]["structuredContent"];
    assert_eq!(broken, &json!({ "code": -32603, "message": "The job broke." }));
    assert_eq!(text(&summary["inline"]), "Hello, Ada!");
    assert_eq!(code(&summary["unknown"]), -32602);
    expect_undeclared_extension(summary);
}

fn expect_core_tasks(summary: &Value) {
    expect_core_offer(summary);
    expect_ends(summary);
    let statuses = ["completed", "failed", "failed", "completed", "completed"];
    for (job, status) in ["slow", "failing", "broken", "confirmed", "twice"].iter().zip(statuses) {
        assert_eq!(summary[*job]["status"], status, "{job}");
    }
    assert_eq!(summary["broken"]["error"]["code"], -32603);
    assert_eq!(summary["cancelled"]["result"]["status"], "cancelled");
    let listed = each(&summary["listed"]["result"]["tasks"], "status");
    assert_eq!(listed, [&statuses[..], &["cancelled"]].concat());
    for refused in ["cancelled_again", "unknown"] {
        assert_eq!(code(&summary[refused]), -32602, "{refused}");
    }
    assert_eq!(code(&summary["refused"]), -32601, "a tool that does not run as a task");
    expect_without_core_task(summary);
}

/// What the jobs come to, in either generation.
fn expect_ends(summary: &Value) {
    assert_eq!(text(&summary["slow"]), "ada computed for 0.2 seconds");
    assert_eq!(failure(&summary["failing"]), "The job failed.");
    assert_eq!(text(&summary["confirmed"]), "old.txt deleted");
    assert_eq!(text(&summary["twice"]), "first=true, second=true");
}

fn expect_core_offer(summary: &Value) {
    let offer = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    assert_eq!(summary["offered"], offer);
}

fn expect_without_core_task(summary: &Value) {
    assert_eq!(text(&summary["undeclared"]), "task computed for 0 seconds");
    assert_eq!(code(&summary["required"]), -32601);
}

fn expect_undeclared_extension(summary: &Value) {
    assert_eq!(text(&summary["undeclared"]), "task computed for 0 seconds");
    assert_eq!(code(&summary["required"]), -32021);
    let required = &summary["required"]["error"]["data"]["requiredCapabilities"];
    assert_eq!(required, &json!({ "extensions": { EXTENSION: {} } }));
}
