//! Input that the server requires.

use serde_json::json;

use super::*;

/// The response to request 2, which requires `inputs`.
fn input_required(inputs: &serde_json::Value, state: Option<&str>) -> String {
    let mut result = json!({ "resultType": "input_required", "inputRequests": inputs });
    if let Some(state) = state {
        result["requestState"] = state.into();
    }
    json!({ "jsonrpc": "2.0", "id": 2, "result": result }).to_string()
}

#[test]
fn input_required_sends_call_again_with_responses() {
    let mut session = TestSession::modern();
    let params = br#"{"name":"a"}"#.to_vec();
    let request = CallRequest { params, ..CallRequest::new(Method::ToolsCall) };
    let call = session.run(|session, ctx| session.call(request, "call", ctx));
    session.sent();
    let inputs = json!({
        "q": { "method": "elicitation/create", "params": { "message": "?" } },
        "m": { "method": "sampling/createMessage", "params": {} },
    });
    session.receive(&input_required(&inputs, Some("s\"1")));
    assert_eq!(session.events(), ["requires Elicitation", "requires Sampling"]);
    let keys = std::mem::take(&mut session.required);
    session.run(|session, ctx| session.provide_input(keys[1], Ok(b"{\"model\":1}"), ctx));
    assert!(session.sent().is_empty());
    // The user may take a while.
    session.pass(Duration::from_hours(1));
    session.run(|session, ctx| session.provide_input(keys[0], Ok(b"{\"action\":2}"), ctx));
    let sent = session.sent();
    assert_eq!(sent[0]["id"], 3);
    let params = &sent[0]["params"];
    let responses = json!({ "m": { "model": 1 }, "q": { "action": 2 } });
    assert_eq!((&params["inputResponses"], &params["requestState"]), (&responses, &json!("s\"1")));
    assert_eq!(params["name"], "a");
    // An input is provided once.
    session.run(|session, ctx| session.provide_input(keys[0], Ok(b"{}"), ctx));
    assert!(session.sent().is_empty());
    assert_eq!(session.run(|session, ctx| session.cancel(call, None, ctx)), Some("call"));
    assert_eq!(session.sent()[0]["params"]["requestId"], 3);
}

#[test]
fn state_without_inputs_is_sent_back_at_once() {
    let mut session = TestSession::modern();
    session.call("call", Method::ToolsCall);
    session.sent();
    session.receive(
        r#"{"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","requestState":"s"}}"#,
    );
    let sent = session.sent();
    assert_eq!(sent[0]["params"]["requestState"], "s");
    assert!(sent[0]["params"].get("inputResponses").is_none());
    session.receive(&result(3));
    assert_eq!(session.events(), ["call ok"]);
}

#[test]
fn input_without_handler_fails_its_call() {
    let mut session = TestSession::modern();
    for (method, outcome) in [("roots/list", "call Unsupported"), ("tools/call", "call Protocol")] {
        let id = session.call("call", Method::ToolsCall).0;
        let inputs = json!({ "q": { "method": method } });
        let response = input_required(&inputs, None);
        session.receive(&response.replace("\"id\":2", &format!("\"id\":{id}")));
        assert_eq!(session.events(), [outcome]);
    }
    session.sent();
}

#[test]
fn cancelled_call_requires_no_input_any_more() {
    let mut session = TestSession::modern();
    let call = session.call("call", Method::ToolsCall);
    let inputs = json!({ "q": { "method": "elicitation/create" } });
    session.receive(&input_required(&inputs, None));
    session.events();
    session.sent();
    assert_eq!(session.run(|session, ctx| session.cancel(call, None, ctx)), Some("call"));
    assert_eq!(session.events(), ["input cancelled"]);
    // The server has answered its request already.
    assert!(session.sent().is_empty());
}

#[test]
fn legacy_request_for_input_is_answered() {
    let mut session = TestSession::legacy(Revision::V2025_11_25);
    session.call("call", Method::ToolsCall);
    session.sent();
    session.receive(r#"{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{}}"#);
    session.receive(r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage"}"#);
    assert_eq!(session.events(), ["requires Elicitation", "requires Sampling"]);
    let keys = std::mem::take(&mut session.required);
    // The call does not expire while its server waits.
    session.pass(Duration::from_hours(1));
    session.run(|session, ctx| session.provide_input(keys[0], Ok(b"{\"action\":1}"), ctx));
    let sent = session.sent();
    assert_eq!(sent[0], json!({ "jsonrpc": "2.0", "id": "e", "result": { "action": 1 } }));
    session.receive(
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"s"}}"#,
    );
    assert_eq!(session.events(), ["input cancelled"]);
    session.pass(Duration::from_secs(29));
    assert!(session.events().is_empty());
    session.pass(Duration::from_secs(1));
    assert_eq!(session.events(), ["call Timeout"]);
}
