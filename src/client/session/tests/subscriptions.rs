//! Subscriptions of legacy sessions.

use serde_json::{Value, json};

use super::*;

/// A session with a server that notifies of tools and resources.
fn session() -> TestSession {
    let revision = Revision::V2025_06_18;
    let mut session = TestSession::with(|options| options.era = EraPreference::Legacy(revision));
    let response = initialized(1, revision);
    let capabilities = r#""capabilities":{"resources":{"subscribe":true},"#;
    session.receive(&response.replace(r#""capabilities":{"#, capabilities));
    session.sent();
    session.events();
    session
}

fn listen(session: &mut TestSession, token: &'static str, filter: &Value) -> CallId {
    let params = json!({ "notifications": filter }).to_string().into_bytes();
    let request = CallRequest { params, ..CallRequest::new(Method::SubscriptionsListen) };
    session.run(|session, ctx| session.call(request, token, ctx))
}

fn all() -> Value {
    json!({
        "toolsListChanged": true,
        "promptsListChanged": true,
        "resourcesListChanged": true,
        "resourceSubscriptions": ["test://a", "test://b"],
    })
}

/// The params of the last message of a subscription.
fn last_message(session: &TestSession) -> Value {
    let Some(SessionEvent::Subscription { message, .. }) = session.events.last() else {
        panic!("no message of a subscription: {:?}", session.events)
    };
    serde_json::from_slice::<Value>(message.as_bytes()).unwrap()["params"].clone()
}

fn notify(session: &mut TestSession, method: &str, params: &Value) -> Vec<String> {
    session.receive(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    session.events()
}

#[test]
fn subscription_is_acknowledged_with_what_is_granted() {
    let mut session = session();
    listen(&mut session, "all", &all());
    let sent = session.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[0]["method"], "resources/subscribe");
    assert_eq!(sent[1]["params"], json!({ "uri": "test://b" }));
    session.receive(&result(3));
    assert!(session.events().is_empty());
    let refused = json!({ "code": -32002, "message": "unknown" });
    session.receive(&json!({ "jsonrpc": "2.0", "id": 4, "error": refused }).to_string());
    let granted = &last_message(&session)["notifications"];
    assert_eq!(granted["resourceSubscriptions"], json!(["test://a"]));
    assert_eq!((&granted["toolsListChanged"], &granted["promptsListChanged"]), {
        (&json!(true), &json!(false))
    });
    assert_eq!(session.events(), ["all notification"]);
}

#[test]
fn acknowledgement_waits_for_stream_of_notifications() {
    let tools = json!({ "toolsListChanged": true });
    let mut session = session();
    session.sent.1 = true;
    listen(&mut session, "opened", &tools);
    assert!(session.events().is_empty());
    session.sent.1 = false;
    session.run(Session::send_waiting);
    assert_eq!(session.events(), ["opened notification"]);
    // A stream that the server does not open holds up nothing for long.
    session.sent.1 = true;
    listen(&mut session, "late", &tools);
    session.pass(Duration::from_secs(4));
    assert!(session.events().is_empty());
    session.pass(Duration::from_secs(1));
    assert_eq!(session.events(), ["late notification"]);
}

#[test]
fn notification_reaches_its_subscriptions() {
    let mut session = session();
    listen(&mut session, "tools", &json!({ "toolsListChanged": true }));
    listen(&mut session, "a", &json!({ "resourceSubscriptions": ["test://a"] }));
    session.receive(&result(4));
    session.events();
    let tools = notify(&mut session, "notifications/tools/list_changed", &json!({}));
    assert_eq!(tools, ["tools notification", "notification"]);
    let updated = |session: &mut TestSession, uri: &str| {
        notify(session, "notifications/resources/updated", &json!({ "uri": uri }))
    };
    assert_eq!(updated(&mut session, "test://a/part"), ["a notification", "notification"]);
    assert_eq!(updated(&mut session, "test://b"), ["notification"]);
    let prompts = notify(&mut session, "notifications/prompts/list_changed", &json!({}));
    assert_eq!(prompts, ["notification"]);
}

#[test]
fn last_subscription_unsubscribes_from_resource() {
    let mut session = session();
    let one = json!({ "resourceSubscriptions": ["test://a"] });
    let first = listen(&mut session, "first", &one);
    let second = listen(&mut session, "second", &one);
    session.sent();
    assert_eq!(session.run(|session, ctx| session.cancel(first, None, ctx)), Some("first"));
    assert!(session.sent().is_empty());
    assert_eq!(session.run(|session, ctx| session.cancel(second, None, ctx)), Some("second"));
    let sent = session.sent();
    assert_eq!(sent[0]["method"], "resources/unsubscribe");
    assert_eq!(sent[0]["params"], json!({ "uri": "test://a" }));
    assert_eq!(session.run(|session, ctx| session.cancel(second, None, ctx)), None);
}

#[test]
fn lost_connection_is_followed_by_subscription() {
    let mut session = session();
    let filter = json!({ "resourceSubscriptions": ["test://a"] });
    listen(&mut session, "a", &filter);
    session.receive(&result(3));
    session.sent();
    assert_eq!(session.events(), ["a notification"]);
    let error = ClientError::new(ClientErrorKind::Closed, "reset by the server");
    session.session.suspend(error, false, session.now, &mut session.events);
    assert!(session.events().is_empty());
    session.run(|session, ctx| session.start(true, ctx));
    let id = session.sent()[0]["id"].as_u64().unwrap();
    let response = initialized(id, Revision::V2025_06_18);
    let capabilities = r#""capabilities":{"resources":{"subscribe":true},"#;
    session.receive(&response.replace(r#""capabilities":{"#, capabilities));
    let sent = session.sent();
    assert_eq!(sent[1]["method"], "resources/subscribe");
    assert_eq!(sent[1]["params"], json!({ "uri": "test://a" }));
    session.receive(&result(sent[1]["id"].as_u64().unwrap()));
    assert_eq!(session.events(), ["ready", "a notification"]);
}

#[test]
fn lost_connection_ends_subscriptions() {
    let mut session = session();
    listen(&mut session, "tools", &json!({ "toolsListChanged": true }));
    session.events();
    let error = ClientError::new(ClientErrorKind::Connect, "reset by the server");
    session.session.disconnect(error, &mut session.events);
    assert_eq!(session.events(), ["tools Closed"]);
}
