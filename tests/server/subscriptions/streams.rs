//! Subscription streams of modern clients: acknowledgement, delivery, cancellation and end.

use corelane_test_support::mcp_schema::expect_valid;
use corelane_test_support::messages::{MODERN, call, cancelled, listen, modern};
use corelane_test_support::test_tools::plain_tool;
use serde_json::{Value, json};

use crate::subscriptions::test_catalog::{
    RESOURCE_UPDATED, TOOLS_CHANGED, connect_legacy, expect_no_message, expect_notification,
    list_tools, open_subscription, start_server, subscription_id,
};

#[test]
fn subscription_acknowledgement_contains_the_accepted_filter() {
    let server = start_server(1, |_| {});
    let mut client = server.connect_tcp();
    let granted = open_subscription(
        &mut client,
        1,
        json!({
            "toolsListChanged": true,
            "promptsListChanged": true,
            "resourcesListChanged": false,
            "resourceSubscriptions": ["test://one", "test://absent"],
            "fromTheFuture": {"anything": 7},
        }),
    );
    // The server has no prompts; an unknown resource may be added later.
    let uris = ["test://one", "test://absent"];
    assert_eq!(granted, json!({"toolsListChanged": true, "resourceSubscriptions": uris}));
    assert_eq!(open_subscription(&mut client, 2, json!({})), json!({}));
    drop(client);
    server.close();
}

#[test]
fn notifications_carry_their_subscription_id() {
    let server = start_server(1, |_| {});
    let mut client = server.connect_tcp();
    let ids = [json!(7), json!("7"), json!(-1), json!(u64::MAX), json!("a \"b\" \u{1F980}")];
    for id in &ids {
        open_subscription(&mut client, id.clone(), json!({"toolsListChanged": true}));
    }
    open_subscription(&mut client, "other", json!({"resourceSubscriptions": ["test://one"]}));
    server.handle().update_catalog(|catalog| catalog.tool(plain_tool("more"))).unwrap();
    let mut received: Vec<Value> = ids
        .iter()
        .map(|_| {
            let message = client.receive();
            expect_valid(MODERN, &message, None);
            assert_eq!(message["method"], TOOLS_CHANGED);
            subscription_id(&message).clone()
        })
        .collect();
    let sorted = |ids: &mut Vec<Value>| ids.sort_by_key(ToString::to_string);
    let mut expected = ids.to_vec();
    sorted(&mut expected);
    sorted(&mut received);
    assert_eq!(received, expected);
    server.handle().notify_resource_updated("test://two");
    server.handle().notify_resource_updated("test://one");
    let message = expect_notification(&mut client, RESOURCE_UPDATED, "other");
    assert_eq!(message["params"]["uri"], "test://one");
    expect_no_message(&mut client);
    drop(client);
    let counters = server.close();
    assert_eq!(counters.subscriptions.notifications_encoded, 2, "{counters}");
    assert_eq!(counters.subscriptions.notifications_sent, 6, "{counters}");
}

#[test]
fn cancelled_subscription_ends_silently_and_frees_its_id() {
    let server = start_server(1, |_| {});
    let mut client = server.connect_tcp();
    open_subscription(&mut client, 1, json!({"toolsListChanged": true}));
    open_subscription(&mut client, 2, json!({"resourceSubscriptions": ["test://one"]}));
    // Ids of no stream are ignored.
    for id in [json!("1"), json!(99), json!(1), json!(1)] {
        client.send(cancelled(id));
    }
    expect_no_message(&mut client);
    server.handle().update_catalog(|catalog| catalog.tool(plain_tool("more"))).unwrap();
    server.handle().notify_resource_updated("test://one");
    expect_notification(&mut client, RESOURCE_UPDATED, 2);
    open_subscription(&mut client, 1, json!({"resourceSubscriptions": ["test://one"]}));
    drop(client);
    server.close();
}

#[test]
fn drain_ends_subscriptions_with_result() {
    let server = start_server(1, |_| {});
    let mut client = server.connect_tcp();
    for id in [json!("one"), json!(2)] {
        open_subscription(&mut client, id, json!({"toolsListChanged": true}));
    }
    let reader = std::thread::spawn(move || client.receive_rest());
    let counters = server.close();
    let mut ended = reader.join().unwrap();
    ended.sort_by_key(|message| message["id"].to_string());
    assert_eq!(ended.len(), 2, "{ended:?}");
    for (message, id) in ended.iter().zip([json!("one"), json!(2)]) {
        expect_valid(MODERN, message, Some("subscriptions/listen"));
        assert_eq!(message["id"], id);
        assert_eq!(message["result"]["resultType"], "complete");
        let meta = &message["result"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/subscriptionId"], id);
        assert_eq!(meta["io.modelcontextprotocol/serverInfo"]["name"], "subscriptions");
    }
    assert_eq!(counters.connections.closed_draining, 1, "{counters}");
}

#[test]
fn disconnect_ends_subscriptions() {
    let server = start_server(1, |_| {});
    for ends_in_order in [true, false] {
        let mut client = server.connect_tcp();
        open_subscription(&mut client, 1, json!({"toolsListChanged": true}));
        if ends_in_order {
            client.shutdown_write();
            client.expect_end();
        } else {
            client.reset();
        }
    }
    // Messages to a closed connection have no effect on others.
    let mut client = server.connect_tcp();
    open_subscription(&mut client, 1, json!({"toolsListChanged": true}));
    server.handle().update_catalog(|catalog| catalog.tool(plain_tool("more"))).unwrap();
    expect_notification(&mut client, TOOLS_CHANGED, 1);
    drop(client);
    server.close();
}

#[test]
fn list_change_is_visible_everywhere_when_notified() {
    const CHANGES: usize = 10;
    let server = start_server(2, |_| {});
    // The kernel distributes the connections over both shards.
    let mut clients: Vec<_> = (0..16).map(|_| server.connect_tcp()).collect();
    for client in &mut clients {
        open_subscription(client, "s", json!({"toolsListChanged": true}));
    }
    for change in 0..CHANGES {
        let name = format!("more-{change}");
        server.handle().update_catalog(|catalog| catalog.tool(plain_tool(name.clone()))).unwrap();
        for client in &mut clients {
            expect_notification(client, TOOLS_CHANGED, "s");
            assert_eq!(list_tools(client).last(), Some(&name));
        }
    }
    for client in &mut clients {
        expect_no_message(client);
    }
    drop(clients);
    let counters = server.close();
    let streams = &counters.subscriptions;
    assert_eq!(streams.notifications_sent, 16 * CHANGES as u64, "{counters}");
    assert!(streams.notifications_encoded <= 2 * CHANGES as u64, "{counters}");
}

#[test]
fn subscription_has_no_request_timeout() {
    let server = start_server(1, |options| {
        options.limits.requests_in_flight_max = 1;
        options.limits.request_timeout = std::time::Duration::from_millis(20);
    });
    let mut client = server.connect_tcp();
    for id in 0..3 {
        open_subscription(&mut client, id, json!({"resourceSubscriptions": ["test://one"]}));
    }
    // Takes longer than `request_timeout`.
    let response = client.exchange(modern(call("late", "until-cancelled", json!({}))));
    assert_eq!(response["error"]["code"], -32603, "{response}");
    expect_no_message(&mut client);
    server.handle().notify_resource_updated("test://one");
    let mut received: Vec<i64> = (0..3)
        .map(|_| subscription_id(&client.receive()).as_i64().expect("id is not a number"))
        .collect();
    received.sort_unstable();
    assert_eq!(received, [0, 1, 2]);
    drop(client);
    server.close();
}

#[test]
fn subscription_prevents_idle_timeout() {
    let server = start_server(1, |options| {
        options.tcp.idle_timeout = std::time::Duration::from_millis(50);
    });
    let mut listener = server.connect_tcp();
    open_subscription(&mut listener, 1, json!({"resourceSubscriptions": ["test://one"]}));
    let mut idle = connect_legacy(&server, "2025-11-25");
    idle.expect_end();
    server.handle().notify_resource_updated("test://one");
    expect_notification(&mut listener, RESOURCE_UPDATED, 1);
    // Without subscriptions the idle timeout applies.
    listener.send(cancelled(1));
    listener.expect_end();
    assert_eq!(server.close().connections.closed_idle_timeout, 2);
}

#[test]
fn subscription_id_is_in_use_until_it_ends() {
    let server = start_server(1, |_| {});
    let mut client = server.connect_tcp();
    open_subscription(&mut client, "s", json!({}));
    for second in [listen("s", json!({})), modern(call("s", "touch", json!({"name": "x"})))] {
        let response = client.exchange(second);
        assert_eq!(response["error"]["code"], -32600, "{response}");
    }
    drop(client);
    server.close();
}
