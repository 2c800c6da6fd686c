//! Messages of the server that are not JSON-RPC.

use super::*;

/// Returns the error of the only call, which has ended.
fn failure(session: &mut TestSession) -> ClientError {
    let mut completed = session.events.drain(..).filter_map(|event| match event {
        SessionEvent::Completed { result, .. } => Some(result.unwrap_err()),
        _ => None,
    });
    completed.next().unwrap()
}

#[test]
fn unreadable_response_fails_its_call_quoted() {
    let deep = format!(r#"{{"id":ID,"result":{}{}}}"#, "[".repeat(99), "]".repeat(99));
    for text in [
        r#"{"jsonrpc":"2.0","id":ID,"result":{"n":1e400}}"#,
        r#"{"jsonrpc":"2.0","result":{"n":"\x","id":99},"id":ID.0}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"content":["#,
        r#"{"result":tru}"#,
        r#"{"id":ID,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":ID}"#,
        r#"{"jsonrpc":"2.0","id":"ID","error":"no"}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":[1]}"#,
        &deep,
    ] {
        let mut session = TestSession::modern();
        session.call("call", Method::ToolsCall);
        let id = session.sent()[0]["id"].to_string();
        let text = text.replace("ID", &id).replace(&format!("\"{id}\""), "[7]");
        session.receive(&text);
        let error = failure(&mut session);
        assert_eq!(error.kind(), ClientErrorKind::Protocol, "{text}");
        assert!(error.message().contains(&text[..8]) || text.contains("[1]"), "{text}: {error}");
        assert!(session.sent().is_empty(), "{text}");
    }
}

#[test]
fn readable_response_completes_its_call() {
    for text in [
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":ID,\"result\":{}}",
        r#"{"jsonrpc":"2.0","id":ID.0,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{"a":"\ud83d"}}"#,
        r#"{"jsonrpc":"2.0","id":ID,"result":{},"error":null}"#,
    ] {
        let mut session = TestSession::modern();
        session.call("call", Method::ToolsCall);
        let id = session.sent()[0]["id"].to_string();
        session.receive(&text.replace("ID", &id));
        let [SessionEvent::Completed { result: Ok(message), .. }] = &session.events[..] else {
            panic!("{text}: {:?}", session.events());
        };
        assert!(serde_json::from_slice::<serde_json::Value>(message.as_bytes()).is_ok(), "{text}");
    }
}

#[test]
fn other_text_fails_no_call() {
    let mut session = TestSession::modern();
    session.call("one", Method::ToolsCall);
    session.call("two", Method::ToolsCall);
    for text in ["", " \r", "listening on port 80", r#"{"result":tru}"#, r#"{"a":1e400}"#] {
        session.receive(text);
        let events = session.events();
        assert!(events.iter().all(|event| event == "violation"), "{text}: {events:?}");
    }
    session.pass(Duration::from_secs(30));
    assert!(failure(&mut session).message().contains("listening on port 80"));
}

#[test]
fn unusable_request_of_server_gets_error() {
    let mut session = TestSession::legacy(Revision::V2025_11_25);
    for (text, code, id) in [
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600, json!(null)),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, json!(null)),
        (r#"{"id":"a","method":"ping"}"#, -32600, json!("a")),
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"n":1e400}}"#, -32700, json!(7)),
    ] {
        session.receive(text);
        let sent = session.sent();
        assert_eq!(sent.len(), 1, "{text}");
        assert_eq!((&sent[0]["error"]["code"], &sent[0]["id"]), (&json!(code), &id), "{text}");
    }
    session.receive(r#"{"jsonrpc":"2.0","id":7.0,"method":"ping"}"#);
    assert_eq!(session.sent()[0]["id"].to_string(), "7.0");
}
