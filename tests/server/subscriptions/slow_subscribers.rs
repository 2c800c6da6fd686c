//! Subscribers that do not read.

use corelane_test_support::LineClient;
use corelane_test_support::messages::{LEGACY, modern, request, request_without_params};
use corelane_test_support::test_tools::plain_tool;
use serde_json::json;

use crate::subscriptions::test_catalog::{
    TOOLS_CHANGED, open_subscription, start_server, subscription_id,
};

/// Changes while a peer does not read; far more than fit into any queue.
const CHANGES: usize = 3000;

#[test]
fn slow_subscriber_receives_coalesced_resource_updates() {
    let server = start_server(1, |options| {
        options.limits.outgoing_bytes_max = 16 << 10;
        options.limits.memory_bytes_max = 1 << 20;
        options.tcp.send_buffer_bytes = 16 << 10;
        options.tcp.receive_buffer_bytes = 16 << 10;
    });
    let mut slow = LineClient::connect_with_buffers(server.address(), 16 << 10);
    let mut quick = server.connect_tcp();
    let long = format!("test://{}", "x".repeat(1000));
    let uris = [long.as_str(), "test://last"];
    for id in 0..3 {
        open_subscription(&mut slow, id, json!({"resourceSubscriptions": uris}));
    }
    open_subscription(&mut quick, "q", json!({"resourceSubscriptions": uris}));
    for _ in 0..CHANGES {
        server.handle().notify_resource_updated(&long);
        assert_eq!(quick.receive()["params"]["uri"], long.as_str());
    }
    server.handle().notify_resource_updated("test://last");
    assert_eq!(quick.receive()["params"]["uri"], "test://last");
    // Each stream receives both updates, possibly late, and the last one exactly once.
    let mut last = [0; 3];
    let mut received = 0;
    while last.iter().sum::<i32>() < 3 {
        let message = slow.receive();
        received += 1;
        if message["params"]["uri"] == "test://last" {
            let id = subscription_id(&message).as_u64().expect("id is not a number");
            last[usize::try_from(id).unwrap()] += 1;
        }
    }
    assert_eq!(last, [1, 1, 1]);
    assert!(received < CHANGES, "{received} frames were queued for a peer that did not read");
    // The order of the two updates on a stream is not fixed: the long one may still follow.
    slow.send(modern(request("end", "server/discover", json!({}))));
    loop {
        let message = slow.receive();
        if message["id"] == "end" {
            break;
        }
        assert_eq!(message["params"]["uri"], long.as_str());
    }
    drop((slow, quick));
    let counters = server.close();
    let streams = &counters.subscriptions;
    assert!(streams.notifications_deferred >= 3, "{counters}");
    assert!(streams.deferred_sent >= 3, "{counters}");
    assert_eq!(counters.input_errors.memory, 0, "{counters}");
}

#[test]
fn slow_session_receives_coalesced_list_changes() {
    let server = start_server(1, |options| {
        options.limits.outgoing_bytes_max = 4 << 10;
        options.tcp.send_buffer_bytes = 4 << 10;
        options.tcp.receive_buffer_bytes = 4 << 10;
    });
    let mut slow = LineClient::connect_with_buffers(server.address(), 4 << 10);
    slow.handshake(LEGACY);
    slow.ping();
    slow.send(request(1, "resources/subscribe", json!({"uri": "test://one"})));
    assert_eq!(slow.receive()["result"], json!({}));
    let mut quick = server.connect_tcp();
    open_subscription(&mut quick, "q", json!({"resourceSubscriptions": ["test://one"]}));
    // Once the queue is full, notifications are suppressed, list changes included.
    for number in 0..CHANGES {
        server.handle().notify_resource_updated("test://one");
        quick.receive();
        if number % 1000 == 999 {
            let name = format!("more-{number}");
            server.handle().update_catalog(|catalog| catalog.tool(plain_tool(name))).unwrap();
        }
    }
    let mut lists = 0;
    slow.send(request_without_params("behind", "ping"));
    let mut answered = false;
    while lists == 0 || !answered {
        let message = slow.receive();
        lists += u32::from(message["method"] == TOOLS_CHANGED);
        answered |= message["id"] == "behind";
    }
    assert!((1..=3).contains(&lists), "{lists}");
    drop((slow, quick));
    let counters = server.close();
    assert!(counters.subscriptions.notifications_deferred > 0, "{counters}");
}
