//! The judge on trial: it lets good messages of every revision pass and refuses bad ones.

#[path = "support/judge.rs"]
mod judge;

use judge::judge;
use serde_json::{Value, json};

const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
const MODERN: &str = "2026-07-28";

/// A result of the revision: the modern one carries its type.
fn result(revision: &str, mut body: Value) -> Value {
    if revision == MODERN {
        body["resultType"] = json!("complete");
    }
    json!({"jsonrpc": "2.0", "id": 7, "result": body})
}

fn tools(revision: &str) -> Value {
    let tool = json!({"name": "echo", "description": "…", "inputSchema": {"type": "object"}});
    let mut answer = result(revision, json!({"tools": [tool]}));
    if revision == MODERN {
        answer["result"]["ttlMs"] = json!(0);
        answer["result"]["cacheScope"] = json!("public");
    }
    answer
}

fn error(code: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no"}})
}

fn pass(revision: &str, message: &Value, answers: Option<&str>) {
    if let Err(reason) = judge(revision, message, answers) {
        panic!("{reason}");
    }
}

fn refuse(revision: &str, message: &Value, answers: Option<&str>) {
    assert!(judge(revision, message, answers).is_err(), "{revision} lets pass: {message}");
}

/// Whether the official schemas are there; some faults only they can see.
#[expect(clippy::disallowed_methods, reason = "tests find the schemas by the environment")]
fn has_official() -> bool {
    std::env::var_os("MCP_SCHEMA_DIR").is_some()
}

#[test]
fn good_messages_of_every_revision_pass() {
    for revision in REVISIONS {
        let called = result(revision, json!({"content": [{"type": "text", "text": "hi"}]}));
        pass(revision, &called, Some("tools/call"));
        pass(revision, &tools(revision), Some("tools/list"));
        pass(revision, &error(-32601), None);
        let progress = json!({"progressToken": "p", "progress": 1, "total": 2});
        let method = "notifications/progress";
        pass(revision, &json!({"jsonrpc": "2.0", "method": method, "params": progress}), None);
    }
}

#[test]
fn the_handshake_of_every_era_passes() {
    let info = json!({"name": "corelane", "version": "0.1.0"});
    for revision in &REVISIONS[..4] {
        let body = json!({
            "protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": info,
        });
        pass(revision, &result(revision, body), Some("initialize"));
        pass(revision, &result(revision, json!({})), Some("ping"));
    }
    let discovered = json!({
        "supportedVersions": [MODERN], "capabilities": {"tools": {}}, "ttlMs": 0,
        "cacheScope": "public", "_meta": {"io.modelcontextprotocol/serverInfo": info},
    });
    pass(MODERN, &result(MODERN, discovered), Some("server/discover"));
}

#[test]
fn a_broken_envelope_is_refused_in_every_revision() {
    let broken = [
        json!([]),
        json!({"id": 1, "result": {"resultType": "complete"}}),
        json!({"jsonrpc": "1.0", "id": 1, "result": {"resultType": "complete"}}),
        json!({"jsonrpc": "2.0", "result": {"resultType": "complete"}}),
        json!({"jsonrpc": "2.0", "id": null, "result": {"resultType": "complete"}}),
        json!({"jsonrpc": "2.0", "id": 1.5, "result": {"resultType": "complete"}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": 7}),
        json!({"jsonrpc": "2.0", "id": 1}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"message": "no code"}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": "7", "message": "text code"}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 7}}),
        json!({"jsonrpc": "2.0", "method": 7}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 7, "message": "two"}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete"}, "extra": 1}),
    ];
    for revision in REVISIONS {
        for message in &broken {
            refuse(revision, message, None);
        }
    }
}

#[test]
fn a_result_that_does_not_fit_its_request_is_refused_in_every_revision() {
    for revision in REVISIONS {
        refuse(revision, &result(revision, json!({"tools": 7})), Some("tools/list"));
        refuse(revision, &result(revision, json!({})), Some("tools/list"));
        let nameless = json!({"tools": [{"inputSchema": {"type": "object"}}]});
        refuse(revision, &result(revision, nameless), Some("tools/list"));
        refuse(revision, &result(revision, json!({})), Some("tools/call"));
        let content = json!({"content": [{"type": "text"}]});
        refuse(revision, &result(revision, content), Some("tools/call"));
    }
    for revision in &REVISIONS[..4] {
        refuse(revision, &result(revision, json!({})), Some("initialize"));
    }
    refuse(MODERN, &result(MODERN, json!({})), Some("server/discover"));
}

#[test]
fn a_modern_result_without_its_type_or_cache_hints_is_refused() {
    let text = json!({"content": [{"type": "text", "text": "hi"}]});
    refuse(MODERN, &result("2025-11-25", text), Some("tools/call"));
    refuse(MODERN, &tools("2025-11-25"), Some("tools/list"));
}

#[test]
fn a_notification_without_its_parameters_is_refused() {
    for revision in REVISIONS {
        let bare = json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {}});
        refuse(revision, &bare, None);
        let level = json!({"level": "loud", "data": 1});
        let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": level});
        refuse(revision, &log, None);
    }
}

#[test]
fn an_error_whose_id_could_not_be_read_says_so_the_way_of_its_revision() {
    let mut null = error(-32700);
    null["id"] = Value::Null;
    let mut absent = error(-32700);
    absent.as_object_mut().expect("an error is an object").remove("id");
    for revision in &REVISIONS[..3] {
        pass(revision, &null, None);
        refuse(revision, &absent, None);
    }
    for revision in &REVISIONS[3..] {
        pass(revision, &absent, None);
    }
    if has_official() {
        refuse("2025-11-25", &null, None);
        refuse(MODERN, &null, None);
    }
}

#[test]
fn an_error_with_a_code_of_its_own_carries_its_data() {
    let mut unsupported = error(-32022);
    if has_official() {
        refuse(MODERN, &unsupported, None);
    }
    unsupported["error"]["data"] = json!({"supported": [MODERN], "requested": "1900-01-01"});
    pass(MODERN, &unsupported, None);
}

/// A task as `tasks/get` shows it, with what its status adds.
fn task(status: &str, added: Value) -> Value {
    let moment = "2026-07-28T12:00:00Z";
    let mut task = json!({
        "taskId": "t", "status": status, "createdAt": moment, "lastUpdatedAt": moment,
        "ttlMs": null, "pollIntervalMs": 1000,
    });
    if let (Some(task), Value::Object(added)) = (task.as_object_mut(), added) {
        task.extend(added);
    }
    task
}

#[test]
fn a_task_says_what_belongs_to_its_status_and_nothing_else() {
    let question = json!({"method": "roots/list"});
    let good = [
        task("working", json!({})),
        task("input_required", json!({"inputRequests": {"roots": question}})),
        task("completed", json!({"result": {"content": []}})),
        task("failed", json!({"error": {"code": -32603, "message": "no"}})),
        task("cancelled", json!({"statusMessage": "enough"})),
    ];
    for task in good {
        pass(MODERN, &result(MODERN, task.clone()), Some("tasks/get"));
        let notification = json!({
            "jsonrpc": "2.0", "method": "notifications/tasks", "params": task,
        });
        pass(MODERN, &notification, None);
    }
    if !has_official() {
        return;
    }
    let bad = [
        task("waiting", json!({})),
        task("working", json!({"result": {}})),
        task("working", json!({"ttlMs": -1})),
        task("working", json!({"createdAt": "yesterday"})),
        task("working", json!({"ttl": 1})),
        task("input_required", json!({})),
        task("input_required", json!({"inputRequests": {"roots": {"method": "ping"}}})),
        task("completed", json!({})),
        task("failed", json!({"error": {"code": "7", "message": "no"}})),
    ];
    for task in bad {
        refuse(MODERN, &result(MODERN, task.clone()), Some("tasks/get"));
        let notification = json!({
            "jsonrpc": "2.0", "method": "notifications/tasks", "params": task,
        });
        refuse(MODERN, &notification, None);
    }
}

#[test]
fn what_answers_a_request_of_the_extension_says_its_type() {
    for method in ["tasks/update", "tasks/cancel"] {
        pass(MODERN, &result(MODERN, json!({})), Some(method));
    }
    let mut begun = result(MODERN, task("working", json!({})));
    begun["result"]["resultType"] = json!("task");
    pass(MODERN, &begun, Some("tools/call"));
    if has_official() {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            refuse(MODERN, &begun, Some(method));
        }
    }
}

#[test]
#[should_panic(expected = "no revision is called 1900-01-01")]
fn an_unknown_revision_is_a_mistake_of_the_test() {
    let _verdict = judge("1900-01-01", &error(-32601), None);
}
