//! Notifications of legacy sessions: list changes, and updates of subscribed resources.

use corelane_test_support::LineClient;
use corelane_test_support::mcp_schema::expect_valid;
use corelane_test_support::messages::{LEGACY_REVISIONS, MODERN, modern, request};
use corelane_test_support::test_tools::plain_tool;
use serde_json::{Value, json};

use crate::subscriptions::test_catalog::{
    RESOURCE_UPDATED, TOOLS_CHANGED, connect_legacy, open_subscription, start_server,
};

#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
fn request_resource(client: &mut LineClient, method: &str, uri: Value) -> Value {
    client.exchange(request(1, method, json!({"uri": uri})))
}

#[test]
fn legacy_session_receives_list_changes_and_subscribed_updates() {
    let server = start_server(1, |_| {});
    for revision in LEGACY_REVISIONS {
        let mut client = connect_legacy(&server, revision);
        let before_handshake = &mut server.connect_tcp();
        let response = request_resource(&mut client, "resources/subscribe", json!("test://one"));
        expect_valid(revision, &response, Some("resources/subscribe"));
        assert_eq!(response["result"], json!({}), "{response}");
        // A repeated subscription has no effect.
        request_resource(&mut client, "resources/subscribe", json!("test://one"));
        server.handle().notify_resource_updated("test://two");
        server.handle().notify_resource_updated("test://one");
        let message = client.receive();
        expect_valid(revision, &message, None);
        assert_eq!(
            (&message["method"], &message["params"]),
            (&json!(RESOURCE_UPDATED), &json!({"uri": "test://one"}))
        );
        let response = request_resource(&mut client, "resources/unsubscribe", json!("test://one"));
        expect_valid(revision, &response, Some("resources/unsubscribe"));
        assert_eq!(response["result"], json!({}), "{response}");
        server.handle().notify_resource_updated("test://one");
        let name = format!("more-{revision}");
        server.handle().update_catalog(|catalog| catalog.tool(plain_tool(name))).unwrap();
        let message = client.receive();
        expect_valid(revision, &message, None);
        assert_eq!(message, json!({"jsonrpc": "2.0", "method": TOOLS_CHANGED}));
        client.ping();
        // A connection without a handshake receives no notifications.
        before_handshake.ping();
    }
    server.close();
}

#[test]
fn updates_carry_the_uri_subscribed_with() {
    let server = start_server(1, |_| {});
    let mut client = connect_legacy(&server, "2025-11-25");
    let mut modern = server.connect_tcp();
    let filter = json!({"resourceSubscriptions": ["Test://one", "test://two"]});
    let granted = open_subscription(&mut modern, 1, filter.clone());
    assert_eq!(granted, filter);
    for uri in ["TEST://ONE", "test://t%77o"] {
        let response = request_resource(&mut client, "resources/subscribe", json!(uri));
        assert_eq!(response["result"], json!({}), "{response}");
    }
    for (updated, of_session, of_stream) in [
        ("test://one", "TEST://ONE", "Test://one"),
        ("test://One", "TEST://ONE", "Test://one"),
        ("test://two", "test://t%77o", "test://two"),
    ] {
        server.handle().notify_resource_updated(updated);
        assert_eq!(client.receive()["params"]["uri"], of_session);
        assert_eq!(modern.receive()["params"]["uri"], of_stream);
    }
    // Another spelling ends the subscription, too.
    request_resource(&mut client, "resources/unsubscribe", json!("test://one"));
    server.handle().notify_resource_updated("test://one");
    server.handle().notify_resource_updated("test://two");
    assert_eq!(client.receive()["params"]["uri"], "test://t%77o");
    drop((client, modern));
    server.close();
}

#[test]
fn emptied_resource_list_is_notified_and_readable() {
    let server = start_server(1, |_| {});
    let mut client = connect_legacy(&server, "2025-11-25");
    let gone = ["test://one", "test://two"].map(String::from).into();
    server.handle().update_catalog(move |catalog| catalog.remove_resources(&gone)).unwrap();
    let message = client.receive();
    assert_eq!(message["method"], "notifications/resources/list_changed", "{message}");
    let response = client.exchange(request(1, "resources/list", json!({})));
    assert_eq!(response["result"]["resources"], json!([]), "{response}");
    server.close();
}

#[test]
fn subscribe_to_unknown_resource_fails_unsubscribe_succeeds() {
    let server = start_server(1, |_| {});
    for revision in LEGACY_REVISIONS {
        let mut client = connect_legacy(&server, revision);
        let response = request_resource(&mut client, "resources/subscribe", json!("nowhere://one"));
        expect_valid(revision, &response, None);
        assert_eq!(response["error"]["code"], -32002, "{response}");
        assert_eq!(response["error"]["data"]["uri"], "nowhere://one", "{response}");
        let response =
            request_resource(&mut client, "resources/unsubscribe", json!("nowhere://one"));
        assert_eq!(response["result"], json!({}), "{response}");
        for wrong in [json!(null), json!(7), json!(["test://one"])] {
            for method in ["resources/subscribe", "resources/unsubscribe"] {
                let response = request_resource(&mut client, method, wrong.clone());
                assert_eq!(response["error"]["code"], -32602, "{response}");
            }
        }
    }
    server.close();
}

#[test]
fn subscribe_methods_of_the_other_era_are_unknown() {
    let server = start_server(1, |_| {});
    let mut client = connect_legacy(&server, "2025-11-25");
    let response =
        client.exchange(request(1, "subscriptions/listen", json!({"notifications": {}})));
    assert_eq!(response["error"]["code"], -32601, "{response}");
    for method in ["resources/subscribe", "resources/unsubscribe"] {
        let response = client.exchange(modern(request(1, method, json!({"uri": "test://one"}))));
        expect_valid(MODERN, &response, None);
        assert_eq!(response["error"]["code"], -32601, "{response}");
    }
    drop(client);
    server.close();
}
