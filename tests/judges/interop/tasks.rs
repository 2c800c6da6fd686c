//! Core tasks and the tasks extension, as far as each SDK supports them: Python the extension,
//! TypeScript the core tasks. The scripts give the reasons.

use serde_json::{Value, json};

use crate::interop::sdk::{Era, Sdk, code, each, failure, in_era, text};

const EXTENSION: &str = "io.modelcontextprotocol/tasks";

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_follows_extension_tasks() {
    in_era(Sdk::Python, "tasks", Era::Modern, expect_extension_tasks);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn python_lists_core_tasks_and_calls_without_task() {
    in_era(Sdk::Python, "tasks", Era::Legacy, |summary| {
        expect_core_capabilities(summary);
        assert_eq!(summary["listed"]["result"]["tasks"], json!([]));
        assert_eq!(code(&summary["unknown"]), -32602);
        expect_without_core_task(summary);
    });
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_follows_core_tasks() {
    in_era(Sdk::TypeScript, "tasks", Era::Legacy, expect_core_tasks);
}

#[ignore = "needs Node.js and Python: ./test.sh installs the official clients and runs it"]
#[test]
fn typescript_gets_extension_task_only_if_declared() {
    in_era(Sdk::TypeScript, "tasks", Era::Modern, |summary| {
        assert_eq!(summary["capabilities"][EXTENSION], json!({}));
        assert_eq!(summary["declared"]["error"]["data"]["resultType"], "task");
        assert_eq!(text(&summary["inline"]), "Hello, Ada!");
        expect_undeclared_extension(summary);
    });
}

fn expect_extension_tasks(summary: &Value) {
    expect_results(summary);
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
    expect_core_capabilities(summary);
    expect_results(summary);
    let statuses = ["completed", "failed", "failed", "completed", "completed"];
    for (job, status) in ["slow", "failing", "broken", "confirmed", "twice"].iter().zip(statuses) {
        assert_eq!(summary[*job]["status"], status, "{job}");
    }
    assert_eq!(summary["broken"]["error"]["code"], -32603);
    assert_eq!(summary["cancelled"]["result"]["status"], "cancelled");
    let listed = each(&summary["listed"]["result"]["tasks"], "status");
    assert_eq!(listed, [&statuses[..], &["cancelled"]].concat());
    for rejected in ["cancelled_twice", "unknown"] {
        assert_eq!(code(&summary[rejected]), -32602, "{rejected}");
    }
    assert_eq!(code(&summary["not_a_task_tool"]), -32601, "the tool has no task support");
    expect_without_core_task(summary);
}

/// Results of the jobs, the same in both eras.
fn expect_results(summary: &Value) {
    assert_eq!(text(&summary["slow"]), "ada computed for 0.2 seconds");
    assert_eq!(failure(&summary["failing"]), "The job failed.");
    assert_eq!(text(&summary["confirmed"]), "old.txt deleted");
    assert_eq!(text(&summary["twice"]), "first=true, second=true");
}

fn expect_core_capabilities(summary: &Value) {
    let capabilities = json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } });
    assert_eq!(summary["capabilities"], capabilities);
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
