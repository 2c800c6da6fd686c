//! The schema check accepts valid messages of every protocol version and rejects invalid ones.

use corelane_test_support::mcp_schema::check_message;
use corelane_test_support::messages::{MODERN, REVISIONS};
use serde_json::{Value, json};

/// A result of `revision`; a modern one carries `resultType`.
fn result(revision: &str, mut body: Value) -> Value {
    if revision == MODERN {
        body["resultType"] = json!("complete");
    }
    json!({"jsonrpc": "2.0", "id": 7, "result": body})
}

fn tools(revision: &str) -> Value {
    let tool = json!({"name": "echo", "description": "…", "inputSchema": {"type": "object"}});
    let mut response = result(revision, json!({"tools": [tool]}));
    if revision == MODERN {
        response["result"]["ttlMs"] = json!(0);
        response["result"]["cacheScope"] = json!("public");
    }
    response
}

fn error(code: i64) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "error": {"code": code, "message": "no"}})
}

fn accept(revision: &str, message: &Value, request_method: Option<&str>) {
    if let Err(reason) = check_message(revision, message, request_method) {
        panic!("{reason}");
    }
}

fn reject(revision: &str, message: &Value, request_method: Option<&str>) {
    assert!(
        check_message(revision, message, request_method).is_err(),
        "{revision} accepts: {message}"
    );
}

/// Whether the official schemas are available; only they detect some errors.
#[expect(clippy::disallowed_methods, reason = "configured by an environment variable")]
fn has_official_schemas() -> bool {
    std::env::var_os("MCP_SCHEMA_DIR").is_some()
}

#[test]
fn valid_messages_of_every_version_are_accepted() {
    for revision in REVISIONS {
        let called = result(revision, json!({"content": [{"type": "text", "text": "hi"}]}));
        accept(revision, &called, Some("tools/call"));
        accept(revision, &tools(revision), Some("tools/list"));
        accept(revision, &error(-32601), None);
        let progress = json!({"progressToken": "p", "progress": 1, "total": 2});
        let method = "notifications/progress";
        accept(revision, &json!({"jsonrpc": "2.0", "method": method, "params": progress}), None);
    }
}

#[test]
fn handshake_of_every_version_is_accepted() {
    let info = json!({"name": "corelane", "version": "0.1.0"});
    for revision in &REVISIONS[..4] {
        let body = json!({
            "protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": info,
        });
        accept(revision, &result(revision, body), Some("initialize"));
        accept(revision, &result(revision, json!({})), Some("ping"));
    }
    let discovered = json!({
        "supportedVersions": [MODERN], "capabilities": {"tools": {}}, "ttlMs": 0,
        "cacheScope": "public", "_meta": {"io.modelcontextprotocol/serverInfo": info},
    });
    accept(MODERN, &result(MODERN, discovered), Some("server/discover"));
}

#[test]
fn invalid_envelope_is_rejected_in_every_version() {
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
            reject(revision, message, None);
        }
    }
}

#[test]
fn result_of_wrong_shape_is_rejected() {
    for revision in REVISIONS {
        reject(revision, &result(revision, json!({"tools": 7})), Some("tools/list"));
        reject(revision, &result(revision, json!({})), Some("tools/list"));
        let without_name = json!({"tools": [{"inputSchema": {"type": "object"}}]});
        reject(revision, &result(revision, without_name), Some("tools/list"));
        reject(revision, &result(revision, json!({})), Some("tools/call"));
        let content = json!({"content": [{"type": "text"}]});
        reject(revision, &result(revision, content), Some("tools/call"));
    }
    for revision in &REVISIONS[..4] {
        reject(revision, &result(revision, json!({})), Some("initialize"));
    }
    reject(MODERN, &result(MODERN, json!({})), Some("server/discover"));
}

#[test]
fn modern_result_requires_type_and_cache_hints() {
    let text = json!({"content": [{"type": "text", "text": "hi"}]});
    reject(MODERN, &result("2025-11-25", text), Some("tools/call"));
    reject(MODERN, &tools("2025-11-25"), Some("tools/list"));
}

#[test]
fn notification_without_required_params_is_rejected() {
    for revision in REVISIONS {
        let method = "notifications/progress";
        let without_params = json!({"jsonrpc": "2.0", "method": method, "params": {}});
        reject(revision, &without_params, None);
        let level = json!({"level": "loud", "data": 1});
        let log = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": level});
        reject(revision, &log, None);
    }
}

#[test]
fn unreadable_error_id_depends_on_version() {
    let mut null = error(-32700);
    null["id"] = Value::Null;
    let mut absent = error(-32700);
    absent.as_object_mut().expect("error is an object").remove("id");
    for revision in &REVISIONS[..3] {
        accept(revision, &null, None);
        reject(revision, &absent, None);
    }
    for revision in &REVISIONS[3..] {
        accept(revision, &absent, None);
    }
    if has_official_schemas() {
        reject("2025-11-25", &null, None);
        reject(MODERN, &null, None);
    }
}

#[test]
fn unsupported_version_error_requires_its_data() {
    let mut unsupported = error(-32022);
    if has_official_schemas() {
        reject(MODERN, &unsupported, None);
    }
    unsupported["error"]["data"] = json!({"supported": [MODERN], "requested": "1900-01-01"});
    accept(MODERN, &unsupported, None);
}

/// A task as in `tasks/get`, with the members that its status adds.
fn task(status: &str, added: Value) -> Value {
    let timestamp = "2026-07-28T12:00:00Z";
    let mut task = json!({
        "taskId": "t", "status": status, "createdAt": timestamp, "lastUpdatedAt": timestamp,
        "ttlMs": null, "pollIntervalMs": 1000,
    });
    if let (Some(task), Value::Object(added)) = (task.as_object_mut(), added) {
        task.extend(added);
    }
    task
}

#[test]
fn task_members_depend_on_task_status() {
    let input_request = json!({"method": "roots/list"});
    let good = [
        task("working", json!({})),
        task("input_required", json!({"inputRequests": {"roots": input_request}})),
        task("completed", json!({"result": {"content": []}})),
        task("failed", json!({"error": {"code": -32603, "message": "no"}})),
        task("cancelled", json!({"statusMessage": "enough"})),
    ];
    for task in good {
        accept(MODERN, &result(MODERN, task.clone()), Some("tasks/get"));
        let notification = json!({
            "jsonrpc": "2.0", "method": "notifications/tasks", "params": task,
        });
        accept(MODERN, &notification, None);
    }
    if !has_official_schemas() {
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
        reject(MODERN, &result(MODERN, task.clone()), Some("tasks/get"));
        let notification = json!({
            "jsonrpc": "2.0", "method": "notifications/tasks", "params": task,
        });
        reject(MODERN, &notification, None);
    }
}

#[test]
fn extension_results_require_their_result_type() {
    for method in ["tasks/update", "tasks/cancel"] {
        accept(MODERN, &result(MODERN, json!({})), Some(method));
    }
    let mut created = result(MODERN, task("working", json!({})));
    created["result"]["resultType"] = json!("task");
    accept(MODERN, &created, Some("tools/call"));
    if has_official_schemas() {
        for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
            reject(MODERN, &created, Some(method));
        }
    }
}

#[test]
#[should_panic(expected = "unknown protocol version 1900-01-01")]
fn unknown_version_panics() {
    let _result = check_message("1900-01-01", &error(-32601), None);
}
