//! `subscriptions/listen` over HTTP: each request has its own event stream.

use std::time::Duration;

use corelane_test_support::messages::listen;
use corelane_test_support::{
    HttpClient, Request, TestServer, http_options, on_one_shard_and_two, over_each_ring,
};
use serde_json::{Value, json};

const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
const RESOURCE_UPDATED: &str = "notifications/resources/updated";

/// Opens a subscription. Returns its connection and the accepted filter.
fn open_subscription(server: &TestServer, id: &str, filter: Value) -> (HttpClient, Value) {
    let mut client = server.connect_http();
    client.request_stream(&Request::modern(&listen(id, filter)));
    let mut message = client.read_message_without_id();
    assert_eq!(message["method"], "notifications/subscriptions/acknowledged", "{message}");
    assert_eq!(subscription_id(&message), id, "{message}");
    let granted = message["params"]["notifications"].take();
    (client, granted)
}

fn subscription_id(message: &Value) -> &Value {
    &message["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
}

fn expect_notification(client: &mut HttpClient, method: &str, id: &str) {
    let message = client.read_message_without_id();
    assert_eq!(message["method"], method, "{message}");
    assert_eq!(subscription_id(&message), id, "{message}");
}

#[test]
fn subscription_receives_acknowledgement_then_notifications() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let filter = json!({"toolsListChanged": true, "resourceSubscriptions": ["test://one"]});
        let mut clients: Vec<_> =
            (0..8).map(|_| open_subscription(&server, "s", filter.clone())).collect();
        for (_, granted) in &clients {
            assert_eq!(granted["toolsListChanged"], true, "{granted}");
        }
        server.add_tool("more");
        for (client, _) in &mut clients {
            expect_notification(client, TOOLS_CHANGED, "s");
        }
        server.handle().notify_resource_updated("test://one");
        for (client, _) in &mut clients {
            expect_notification(client, RESOURCE_UPDATED, "s");
        }
        drop(clients);
        let counters = server.close();
        assert_eq!(counters.subscriptions.notifications_sent, 16, "{counters}");
    });
}

#[test]
fn disconnect_ends_subscription() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        for resets in [false, true] {
            let (client, _) = open_subscription(&server, "s", json!({"toolsListChanged": true}));
            if resets {
                client.reset();
            } else {
                drop(client);
            }
            server.wait_for_connections(0);
        }
        server.add_tool("more");
        let counters = server.close();
        let streams = &counters.subscriptions;
        assert_eq!((streams.closed, streams.notifications_sent), (2, 0), "{counters}");
    });
}

#[test]
fn drain_ends_subscriptions_with_result() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut clients: Vec<_> = (0..4)
            .map(|_| open_subscription(&server, "s", json!({"toolsListChanged": true})).0)
            .collect();
        server.drain();
        for client in &mut clients {
            let response = client.read_message_without_id();
            assert_eq!(response["id"], "s", "{response}");
            assert!(response["result"].is_object(), "{response}");
            client.expect_end_of_stream();
            client.expect_eof_or_reset();
        }
        drop(clients);
        server.join();
    });
}

#[test]
fn subscription_is_not_idle_and_gets_keepalive_comments() {
    over_each_ring(http_options(), |mut options| {
        options.tcp.idle_timeout = Duration::from_millis(40);
        options.http.sse_keepalive_interval = Duration::from_millis(15);
        let server = TestServer::with_test_tools(options);
        let mut idle = server.connect_http();
        idle.expect_alive();
        let (mut client, _) = open_subscription(&server, "s", json!({"toolsListChanged": true}));
        idle.expect_eof_or_reset();
        for _ in 0..5 {
            assert!(client.read_event().expect("stream ended").is_comment);
        }
        server.add_tool("more");
        let event = loop {
            let event = client.read_event().expect("stream ended");
            if !event.is_comment {
                break event;
            }
        };
        assert!(event.data.is_some_and(|data| data.contains(TOOLS_CHANGED)));
        drop(client);
        server.close();
    });
}

#[test]
fn invalid_subscription_filter_gets_400() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let wrong = Request::modern(&listen("s", json!({"resourceSubscriptions": 7})));
    client.exchange(&wrong).expect_error(400, -32602, Some(json!("s")));
    client.expect_alive();
    drop(client);
    server.close();
}

#[test]
fn request_behind_subscription_is_not_read() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let (mut client, _) = open_subscription(&server, "s", json!({"toolsListChanged": true}));
        client.send(&Request::new("GET", "/healthz"));
        server.add_tool("more");
        expect_notification(&mut client, TOOLS_CHANGED, "s");
        // The stream ends only with its connection, so the request is never read.
        drop(client);
        server.wait_for_connections(0);
        server.close();
    });
}

#[test]
fn abandoned_subscriptions_leave_no_state() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        for _ in 0..10_000 / CONCURRENT {
            let clients: Vec<_> = (0..CONCURRENT)
                .map(|_| open_subscription(&server, "s", json!({"toolsListChanged": true})).0)
                .collect();
            clients.into_iter().for_each(HttpClient::reset);
        }
        server.wait_for_status(|status| status["streams"] == 0 && status["connections"] == 1);
        let counters = server.close();
        assert_eq!(counters.subscriptions.closed, 10_000, "{counters}");
    });
}

/// Streams that are open at the same time.
const CONCURRENT: usize = 100;
