//! Catalog changes while the server runs, by the host program and by handlers.

use corelane_test_support::messages::{LEGACY, call, cancelled, modern, result_text};
use corelane_test_support::test_tools::plain_tool;
use serde_json::json;

use crate::subscriptions::test_catalog::{
    RESOURCE_UPDATED, TOOLS_CHANGED, connect_legacy, expect_no_message, expect_notification,
    list_tools, open_subscription, start_server,
};

#[test]
fn catalog_change_by_handler_is_visible_when_awaited() {
    let server = start_server(2, |_| {});
    let mut listener = server.connect_tcp();
    open_subscription(&mut listener, 1, json!({"toolsListChanged": true}));
    for (tool, name) in [("grow", "from-a-shard"), ("grow-aside", "from-a-thread")] {
        let mut client = server.connect_tcp();
        let response = client.exchange(modern(call(1, tool, json!({"name": name}))));
        assert_eq!(result_text(&response), "grown", "{response}");
        let response = client.exchange(modern(call(2, name, json!({}))));
        assert_eq!(result_text(&response), "plain", "{response}");
        expect_notification(&mut listener, TOOLS_CHANGED, 1);
    }
    drop(listener);
    server.close();
}

#[test]
fn invalid_catalog_change_is_rejected() {
    let server = start_server(1, |_| {});
    let mut client = server.connect_tcp();
    open_subscription(&mut client, 1, json!({"toolsListChanged": true}));
    let before = list_tools(&mut client);
    let refused = server.handle().update_catalog(|catalog| catalog.tool(plain_tool("grow")));
    assert!(refused.is_err());
    let response = client.exchange(modern(call("c", "grow", json!({"name": "grow"}))));
    assert_eq!(response["result"]["isError"], true, "{response}");
    // A change that leaves all lists as they are sends no notification.
    server.handle().update_catalog(|catalog| catalog).unwrap();
    assert_eq!(list_tools(&mut client), before);
    expect_no_message(&mut client);
    drop(client);
    server.close();
}

#[test]
fn panicking_catalog_change_does_not_block_the_next() {
    let server = start_server(1, |_| {});
    let handle = server.handle();
    let panicked =
        std::thread::spawn(move || handle.update_catalog(|_| panic!("on purpose"))).join();
    assert!(panicked.is_err());
    server.handle().update_catalog(|catalog| catalog.tool(plain_tool("after"))).unwrap();
    let mut client = server.connect_tcp();
    assert_eq!(list_tools(&mut client).last().map(String::as_str), Some("after"));
    drop(client);
    server.close();
}

#[test]
fn panicking_catalog_change_by_handler_fails_its_call() {
    let server = start_server(1, |_| {});
    let mut client = server.connect_tcp();
    let before = list_tools(&mut client);
    let response = client.exchange(modern(call(1, "break", json!({}))));
    assert_eq!(response["error"]["code"], -32603, "{response}");
    let response = client.exchange(modern(call(2, "grow", json!({"name": "after"}))));
    assert_eq!(result_text(&response), "grown", "{response}");
    assert_eq!(list_tools(&mut client).len(), before.len() + 1);
    drop(client);
    server.close();
}

#[test]
fn catalog_change_waiting_for_thread_leaves_shard_running() {
    let server = start_server(1, |options| {
        options.engine.blocking_threads = 1;
        options.engine.blocking_queue_max = 1;
    });
    let mut client = server.connect_tcp();
    let mut runs = modern(call("runs", "hold-a-thread", json!({})));
    runs["params"]["_meta"]["progressToken"] = json!("p");
    client.send(runs);
    // The first call occupies the only thread, the second the only place in the queue.
    assert_eq!(client.receive()["params"]["progressToken"], "p");
    client.send(modern(call("waits", "hold-a-thread", json!({}))));
    client.send(modern(call("grows", "grow", json!({"name": "late"}))));
    // The shard continues while the catalog change waits for a thread.
    assert!(!list_tools(&mut client).contains(&"late".to_owned()));
    for id in ["runs", "waits"] {
        client.send(cancelled(id));
    }
    let response = client.receive();
    assert_eq!((&response["id"], result_text(&response)), (&json!("grows"), "grown"), "{response}");
    assert!(list_tools(&mut client).contains(&"late".to_owned()));
    drop(client);
    server.close();
}

#[test]
fn concurrent_catalog_changes_are_all_applied() {
    let server = start_server(2, |_| {});
    let mut client = server.connect_tcp();
    let before = list_tools(&mut client).len();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let handle = server.handle();
            scope.spawn(move || {
                for number in 0..5 {
                    let name = format!("tool-{thread}-{number}");
                    handle.update_catalog(|catalog| catalog.tool(plain_tool(name))).unwrap();
                }
            });
        }
    });
    assert_eq!(list_tools(&mut client).len(), before + 20);
    drop(client);
    server.close();
}

#[test]
fn resource_update_by_handler_reaches_subscribers_everywhere() {
    let server = start_server(2, |_| {});
    let mut listeners: Vec<_> = (0..8).map(|_| server.connect_tcp()).collect();
    for client in &mut listeners {
        open_subscription(client, 1, json!({"resourceSubscriptions": ["test://one"]}));
    }
    for tool in ["touch", "touch-aside"] {
        let mut client = server.connect_tcp();
        let response = client.exchange(modern(call(1, tool, json!({"name": "test://one"}))));
        assert_eq!(result_text(&response), "touched", "{response}");
        for client in &mut listeners {
            assert_eq!(
                expect_notification(client, RESOURCE_UPDATED, 1)["params"]["uri"],
                "test://one"
            );
        }
    }
    for client in &mut listeners {
        expect_no_message(client);
    }
    drop(listeners);
    server.close();
}

#[test]
fn call_in_flight_survives_removal_of_its_tool() {
    let server = start_server(1, |_| {});
    let mut client = connect_legacy(&server, LEGACY);
    client.send(call("waits", "until-cancelled", json!({})));
    client.ping();
    server.handle().update_catalog(|catalog| catalog.remove_tool("until-cancelled")).unwrap();
    assert_eq!(client.receive()["method"], TOOLS_CHANGED);
    let response = client.exchange(call(2, "until-cancelled", json!({})));
    assert_eq!(response["error"]["code"], -32602, "{response}");
    // The first call is still running and can be cancelled.
    client.send(cancelled("waits"));
    client.ping();
    drop(client);
    assert_eq!(server.close().requests.cancelled, 1);
}
