//! Calls that become tasks of the server.

use serde_json::{Value, json};

use super::*;

/// A session after the handshake of the newest revision, with a server that offers tasks.
fn modern() -> TestSession {
    let mut session = TestSession::with(|_| {});
    let extensions = json!({ "io.modelcontextprotocol/tasks": {} });
    let capabilities = json!({ "tools": {}, "extensions": extensions }).to_string();
    session.receive(&DISCOVERED.replace(r#"{"tools":{}}"#, &capabilities));
    session.sent();
    session.events();
    session
}

/// A session of 2025-11-25 with a server that offers tasks.
fn legacy() -> TestSession {
    let revision = Revision::V2025_11_25;
    let mut session = TestSession::with(|options| options.era = EraPreference::Legacy(revision));
    let response = initialized(1, revision);
    let capabilities = r#""capabilities":{"tasks":{"list":{},"cancel":{}},"#;
    session.receive(&response.replace(r#""capabilities":{"#, capabilities));
    session.sent();
    session.events();
    session
}

fn response(id: u64, result: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string()
}

/// A modern task with more members.
fn task(status: &str, members: &Value) -> Value {
    let mut task = json!({
        "resultType": "complete", "taskId": "t1", "status": status, "pollIntervalMs": 2_000,
    });
    for (key, value) in members.as_object().unwrap() {
        task[key] = value.clone();
    }
    task
}

/// The answer to a call that becomes a task.
fn created(id: u64) -> String {
    response(id, &task("working", &json!({ "resultType": "task" })))
}

/// The answer of a legacy server to a call that becomes a task.
fn created_legacy(id: u64) -> String {
    response(id, &json!({ "task": { "taskId": "t1", "status": "working", "ttl": null } }))
}

/// A call that became a task; what was sent for it is taken.
fn call_with_task(session: &mut TestSession, request: CallRequest) -> CallId {
    let call = session.run(|session, ctx| session.call(request, "call", ctx));
    session.receive(&created(2));
    session.sent();
    assert!(session.events().is_empty());
    call
}

fn tool_call() -> CallRequest {
    CallRequest { params: br#"{"name":"a"}"#.to_vec(), ..CallRequest::new(Method::ToolsCall) }
}

/// The text of the message that ended a call.
fn ended_with(session: &mut TestSession) -> Value {
    let Some(SessionEvent::Completed { result: Ok(message), .. }) = session.events.pop() else {
        panic!("no result: {:?}", session.events)
    };
    serde_json::from_slice(message.as_bytes()).unwrap()
}

/// Asserts that nothing follows.
fn expect_idle(session: &mut TestSession) {
    session.sent();
    session.pass(Duration::from_hours(1));
    assert!(session.sent().is_empty() && session.events().is_empty());
}

#[test]
fn task_is_polled_at_its_interval() {
    let mut session = modern();
    call_with_task(&mut session, tool_call());
    session.pass(Duration::from_millis(1_999));
    assert!(session.sent().is_empty());
    session.pass(Duration::from_millis(1));
    let sent = session.sent();
    assert_eq!((&sent[0]["method"], &sent[0]["id"]), (&json!("tasks/get"), &json!(3)));
    assert_eq!(sent[0]["params"]["taskId"], "t1");
    session.receive(&response(3, &task("working", &json!({ "pollIntervalMs": 5_000 }))));
    session.pass(Duration::from_secs(4));
    assert!(session.sent().is_empty());
    session.pass(Duration::from_secs(1));
    assert_eq!(session.sent()[0]["id"], 4);
    let result = json!({ "content": [], "structuredContent": 7 });
    session.receive(&response(4, &task("completed", &json!({ "result": result }))));
    assert_eq!(ended_with(&mut session)["result"], result);
    expect_idle(&mut session);
}

#[test]
fn states_of_task_are_reported_on_request() {
    let mut session = modern();
    let request = CallRequest { wants_task_status: true, ..tool_call() };
    session.run(|session, ctx| session.call(request, "call", ctx));
    session.receive(&created(2));
    assert_eq!(session.events(), ["call working"]);
    for id in [3, 4] {
        session.pass(Duration::from_secs(2));
        session.receive(&response(id, &task("working", &json!({}))));
        assert_eq!(session.events(), ["call working"]);
    }
    let params = task("completed", &json!({ "result": { "content": [] } }));
    let method = "notifications/tasks";
    session.receive(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    assert_eq!(session.events(), ["call another status", "call ok", "notification"]);
}

#[test]
fn end_of_task_ends_its_call() {
    let error = json!({ "code": 7, "message": "not today" });
    for (status, members, outcome) in [
        ("completed", json!({ "result": {} }), "call ok"),
        ("completed", json!({}), "call Protocol"),
        ("failed", json!({ "error": error }), "call Rpc { code: 7 }"),
        ("failed", json!({}), "call Protocol"),
        ("cancelled", json!({}), "call TaskCancelled"),
        ("asleep", json!({}), "call Protocol"),
    ] {
        let mut session = modern();
        call_with_task(&mut session, tool_call());
        session.pass(Duration::from_secs(2));
        session.receive(&response(3, &task(status, &members)));
        assert_eq!(session.events(), [outcome], "{status}");
        expect_idle(&mut session);
    }
}

#[test]
fn input_of_task_is_sent_once() {
    let mut session = modern();
    call_with_task(&mut session, tool_call());
    let inputs = json!({ "inputRequests": {
        "q": { "method": "elicitation/create", "params": { "message": "?" } },
        "m": { "method": "sampling/createMessage", "params": {} },
    } });
    session.pass(Duration::from_secs(2));
    session.receive(&response(3, &task("input_required", &inputs)));
    assert_eq!(session.events(), ["requires Elicitation", "requires Sampling"]);
    let keys = std::mem::take(&mut session.required);
    assert_eq!(session.session.input_caller(keys[0]), Some(&"call"));
    session.sent();
    // The same inputs are required as long as they are not there.
    session.pass(Duration::from_secs(2));
    session.receive(&response(4, &task("input_required", &inputs)));
    assert!(session.events().is_empty());
    session.sent();
    session.run(|session, ctx| session.provide_input(keys[1], Ok(b"{\"model\":1}"), ctx));
    let sent = session.sent();
    assert_eq!((&sent[0]["method"], &sent[0]["id"]), (&json!("tasks/update"), &json!(5)));
    assert_eq!(sent[0]["params"]["taskId"], "t1");
    assert_eq!(sent[0]["params"]["inputResponses"], json!({ "m": { "model": 1 } }));
    session.receive(&response(5, &json!({ "resultType": "complete" })));
    // The input that is still open is not required after the end of the task.
    session.pass(Duration::from_secs(2));
    session.receive(&response(6, &task("completed", &json!({ "result": {} }))));
    assert_eq!(session.events(), ["input cancelled", "call ok"]);
    session.run(|session, ctx| session.provide_input(keys[0], Ok(b"{}"), ctx));
    assert_eq!(session.sent().len(), 1);
}

#[test]
fn refused_input_fails_call_and_cancels_task() {
    let inputs = json!({ "inputRequests": { "q": { "method": "elicitation/create" } } });
    let mut session = modern();
    call_with_task(&mut session, tool_call());
    session.pass(Duration::from_secs(2));
    session.receive(&response(3, &task("input_required", &inputs)));
    let key = session.required_key();
    session.run(|session, ctx| session.provide_input(key, Ok(b"{}"), ctx));
    session.receive(r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"bad"}}"#);
    assert_eq!(session.events(), ["call Rpc { code: -32602 }"]);
    assert_eq!(session.sent_methods(), ["tasks/get", "tasks/update", "tasks/cancel"]);
}

#[test]
fn input_without_handler_ends_call_and_task() {
    let inputs = json!({ "inputRequests": { "q": { "method": "roots/list" } } });
    let mut session = modern();
    call_with_task(&mut session, tool_call());
    session.pass(Duration::from_secs(2));
    session.receive(&response(3, &task("input_required", &inputs)));
    assert_eq!(session.events(), ["call Unsupported"]);
    assert_eq!(session.sent_methods(), ["tasks/get", "tasks/cancel"]);
}

#[test]
fn cancelled_call_cancels_its_task() {
    let mut session = modern();
    let call = call_with_task(&mut session, tool_call());
    assert_eq!(session.run(|session, ctx| session.cancel(call, None, ctx)), Some("call"));
    assert_eq!(session.sent_methods(), ["tasks/cancel"]);
    expect_idle(&mut session);

    let mut session = modern();
    let call = call_with_task(&mut session, tool_call());
    session.pass(Duration::from_secs(2));
    session.sent();
    assert_eq!(session.run(|session, ctx| session.cancel(call, None, ctx)), Some("call"));
    assert_eq!(session.sent_methods(), ["notifications/cancelled", "tasks/cancel"]);
    session.receive(&response(3, &task("completed", &json!({ "result": {} }))));
    assert!(session.events().is_empty());
}

#[test]
fn timeout_of_call_bounds_its_task() {
    let mut session = modern();
    let timeout = Some(Duration::from_secs(3));
    call_with_task(&mut session, CallRequest { timeout, ..tool_call() });
    session.pass(Duration::from_secs(2));
    session.receive(&response(3, &task("working", &json!({}))));
    session.sent();
    session.pass(Duration::from_secs(1));
    assert_eq!(session.events(), ["call Timeout"]);
    assert_eq!(session.sent_methods(), ["tasks/cancel"]);
    expect_idle(&mut session);
}

#[test]
fn notification_of_status_ends_call() {
    let mut session = modern();
    call_with_task(&mut session, tool_call());
    let params = task("completed", &json!({ "result": { "content": [] } }));
    let method = "notifications/tasks";
    session.receive(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    assert_eq!(session.events(), ["call ok", "notification"]);
    assert!(session.sent().is_empty());
}

#[test]
fn created_task_ends_call_and_is_awaited() {
    for session in [modern(), legacy()] {
        let mut session = session;
        let is_modern = session.session.server().unwrap().revision.is_modern();
        let ttl = Some(Duration::from_mins(1));
        let request = CallRequest { task: TaskMode::Create { ttl }, ..tool_call() };
        session.run(|session, ctx| session.call(request, "call", ctx));
        let sent = session.sent();
        let param = if is_modern { Value::Null } else { json!({ "ttl": 60_000 }) };
        assert_eq!(sent[0]["params"]["task"], param);
        assert_eq!(sent[0]["params"]["name"], "a");
        session.receive(&created(2));
        assert_eq!(session.events(), ["call ok"]);

        let request = CallRequest::of_task(Method::TasksGet, "t1");
        let request = CallRequest { task: TaskMode::Await, ..request };
        let call = session.run(|session, ctx| session.call(request, "call", ctx));
        session.receive(&response(3, &task("working", &json!({ "pollInterval": 2_000 }))));
        session.sent();
        // The task belongs to the caller: it goes on without the call.
        assert_eq!(session.run(|session, ctx| session.cancel(call, None, ctx)), Some("call"));
        assert!(session.sent().is_empty());
    }
}

#[test]
fn created_legacy_task_is_followed_to_its_result() {
    let mut session = legacy();
    let request = CallRequest { task: TaskMode::CreateAndFollow, ..tool_call() };
    session.run(|session, ctx| session.call(request, "call", ctx));
    assert_eq!(session.sent()[0]["params"]["task"], json!({}));
    session.receive(&created_legacy(2));
    assert!(session.events().is_empty());
    session.pass(Duration::from_secs(1));
    session.receive(&response(3, &json!({ "taskId": "t1", "status": "completed" })));
    session.receive(&response(4, &json!({ "content": [] })));
    assert_eq!(session.events(), ["call ok"]);
    assert_eq!(session.sent_methods(), ["tasks/get", "tasks/result"]);
    // A server that makes no task of it has answered.
    let request = CallRequest { task: TaskMode::CreateAndFollow, ..tool_call() };
    session.run(|session, ctx| session.call(request, "call", ctx));
    session.receive(&response(5, &json!({ "content": [] })));
    assert_eq!(session.events(), ["call ok"]);
}

#[test]
fn followed_legacy_task_is_cancelled_with_call() {
    let mut session = legacy();
    let request = CallRequest { task: TaskMode::CreateAndFollow, ..tool_call() };
    let call = session.run(|session, ctx| session.call(request, "call", ctx));
    session.receive(&created_legacy(2));
    session.sent();
    assert_eq!(session.run(|session, ctx| session.cancel(call, None, ctx)), Some("call"));
    assert_eq!(session.sent_methods(), ["tasks/cancel"]);
}

#[test]
fn legacy_result_is_requested_when_task_ends() {
    for status in ["completed", "failed", "input_required"] {
        let mut session = legacy();
        let request = CallRequest::of_task(Method::TasksGet, "t1");
        let request = CallRequest { task: TaskMode::Await, ..request };
        session.run(|session, ctx| session.call(request, "call", ctx));
        session.receive(&response(2, &json!({ "taskId": "t1", "status": "working" })));
        session.pass(Duration::from_secs(1));
        session.receive(&response(3, &json!({ "taskId": "t1", "status": status })));
        assert_eq!(session.sent_methods(), ["tasks/get", "tasks/get", "tasks/result"]);
        // The response comes with the end of the task.
        session.pass(Duration::from_hours(1));
        session.receive(&response(4, &json!({ "content": [] })));
        assert_eq!(session.events(), ["call ok"]);
    }
}

#[test]
fn task_of_server_without_tasks_is_unsupported() {
    for session in [TestSession::modern(), TestSession::legacy(Revision::V2025_11_25)] {
        let mut session = session;
        let request = CallRequest { task: TaskMode::Create { ttl: None }, ..tool_call() };
        session.run(|session, ctx| session.call(request, "call", ctx));
        assert_eq!(session.events(), ["call Unsupported"]);
        assert!(session.sent().is_empty());
    }
}

#[test]
fn lost_connection_fails_calls_with_tasks() {
    let mut session = modern();
    call_with_task(&mut session, tool_call());
    let error = ClientError::new(ClientErrorKind::Connect, "reset by the server");
    session.session.disconnect(error, &mut session.events);
    assert_eq!(session.events(), ["call Closed"]);
    expect_idle(&mut session);
}
