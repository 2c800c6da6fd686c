//! Sessions that outlive their connections.

use super::*;

fn lost() -> ClientError {
    ClientError::new(ClientErrorKind::Closed, "reset by the server")
}

impl TestSession {
    /// Loses the connection.
    fn lose(&mut self, resends: bool) {
        self.session.suspend(lost(), resends, self.now, &mut self.events);
    }

    /// Begins the handshake on the next connection.
    fn reconnect(&mut self) {
        self.run(|session, ctx| session.start(false, ctx));
    }
}

/// [`DISCOVERED`] as the response to the request `id`.
fn discovered(id: u64) -> String {
    DISCOVERED.replace("\"id\":1", &format!("\"id\":{id}"))
}

#[test]
fn unsent_calls_wait_for_the_next_connection() {
    let mut session = TestSession::with(|options| options.in_flight_max = 1);
    session.receive(DISCOVERED);
    session.call("sent", Method::ToolsCall);
    session.call("waiting", Method::ToolsCall);
    session.sent();
    session.events();
    session.lose(false);
    assert_eq!(session.events(), ["sent Closed"]);
    session.call("later", Method::ToolsList);
    assert!(session.session.has_waiting());
    assert!(session.sent().is_empty());

    session.reconnect();
    // Ids are not used again.
    let discover = session.sent().remove(0);
    assert_eq!((&discover["id"], &discover["method"]), (&json!(5), &json!("server/discover")));
    session.receive(&discovered(5));
    let sent = session.sent();
    assert_eq!((sent.len(), &sent[0]["id"]), (1, &json!(3)));
    session.receive(&result(3));
    assert_eq!(session.events(), ["ready", "waiting ok"]);
    session.receive(&result(4));
    assert_eq!(session.events(), ["later ok"]);
}

#[test]
fn idempotent_calls_are_sent_again_if_asked() {
    for (resends, expected) in
        [(false, vec!["call Closed", "list Closed", "read Closed"]), (true, vec!["call Closed"])]
    {
        let mut session = TestSession::modern();
        session.call("list", Method::ToolsList);
        session.call("call", Method::ToolsCall);
        session.call("read", Method::ToolsList);
        session.sent();
        session.lose(resends);
        let mut events = session.events();
        events.sort();
        assert_eq!(events, expected);
        session.reconnect();
        session.sent();
        session.receive(&discovered(5));
        let ids: Vec<_> = session.sent().iter().map(|sent| sent["id"].clone()).collect();
        assert_eq!(ids, if resends { vec![json!(2), json!(4)] } else { vec![] });
    }
}

#[test]
fn subscription_is_opened_on_next_connection() {
    let mut session = TestSession::modern();
    session.call("changes", Method::SubscriptionsListen);
    let id = session.sent()[0]["id"].clone();
    let acknowledged = json!({
        "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
        "params": { "_meta": { "io.modelcontextprotocol/subscriptionId": id } },
    });
    session.receive(&acknowledged.to_string());
    assert_eq!(session.events(), ["changes notification"]);
    session.lose(false);
    assert!(session.events().is_empty() && session.session.has_waiting());

    session.reconnect();
    let discover = session.sent()[0]["id"].as_u64().unwrap();
    session.receive(&discovered(discover));
    let sent = session.sent();
    assert_eq!((&sent[0]["method"], &sent[0]["id"]), (&json!("subscriptions/listen"), &id));
    session.receive(&acknowledged.to_string());
    assert_eq!(session.events(), ["ready", "changes notification"]);

    session.lose(false);
    session.session.disconnect(lost(), &mut session.events);
    assert_eq!(session.events(), ["failed Closed", "changes Closed"]);
}

#[test]
fn waiting_call_times_out_without_connection() {
    let mut session = TestSession::modern();
    session.lose(false);
    session.run(|session, ctx| {
        let timeout = Some(Duration::from_secs(2));
        session.call(CallRequest { timeout, ..CallRequest::new(Method::ToolsCall) }, "call", ctx);
    });
    session.pass(Duration::from_secs(1));
    assert!(session.events().is_empty());
    session.pass(Duration::from_secs(1));
    assert_eq!(session.events(), ["call Connect"]);
    assert!(session.sent().is_empty());
}

#[test]
fn failed_handshake_keeps_calls_of_a_suspended_session() {
    let mut session = TestSession::modern();
    session.lose(false);
    session.call("call", Method::ToolsCall);
    session.run(|session, ctx| session.start(true, ctx));
    let id = session.sent()[0]["id"].clone();
    let error = json!({ "code": -32603, "message": "shutting down" });
    session.receive(&json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
    assert_eq!(session.events(), ["failed Handshake"]);
    assert!(session.session.end_reason().is_some());
    session.lose(false);
    session.events();
    session.reconnect();
    let id = session.sent()[0]["id"].as_u64().unwrap();
    session.receive(&discovered(id));
    assert_eq!(session.events(), ["ready"]);
    assert_eq!(session.sent_methods(), ["tools/call"]);
}

#[test]
fn calls_beyond_waiting_max_are_refused_while_suspended() {
    let mut session = TestSession::with(|options| options.waiting_max = 1);
    session.receive(DISCOVERED);
    session.events();
    session.lose(false);
    session.call("first", Method::ToolsCall);
    session.call("second", Method::ToolsCall);
    assert_eq!(session.events(), ["second Busy"]);
}

#[test]
fn error_without_id_explains_the_end() {
    let mut session = TestSession::modern();
    session.call("call", Method::ToolsCall);
    let error = json!({ "code": -32012, "message": "message too large" });
    session.receive(&json!({ "jsonrpc": "2.0", "id": null, "error": error }).to_string());
    assert_eq!(session.events(), ["violation"]);
    session.lose(false);
    let Some(SessionEvent::Completed { result: Err(error), .. }) = session.events.pop() else {
        panic!()
    };
    assert_eq!(error.kind(), ClientErrorKind::Closed);
    assert!(error.to_string().contains("error -32012: message too large"), "{error}");
}

#[test]
fn text_that_is_no_message_explains_failed_handshake() {
    let mut session = TestSession::with(|_| ());
    session.receive("Listening on port 8080");
    session.receive("second line");
    session.events();
    session.session.disconnect(lost(), &mut session.events);
    let Some(SessionEvent::HandshakeFailed(error)) = session.events.pop() else { panic!() };
    assert_eq!(error.kind(), ClientErrorKind::Protocol);
    let text = error.to_string();
    assert!(text.contains("Listening on port 8080") && text.contains("reset"), "{text}");
    assert!(!text.contains("second"), "{text}");
}
