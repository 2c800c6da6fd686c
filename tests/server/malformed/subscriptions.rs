//! Malformed `subscriptions/listen` requests, and rapid opening and closing of subscriptions.

use corelane_test_support::messages::{cancelled, expect_error, join_lines, modern, request};
use corelane_test_support::{TestServer, over_each_ring, tcp_options};
use serde_json::{Value, json};

#[expect(clippy::needless_pass_by_value, reason = "most callers pass a literal")]
fn listen_request(id: impl Into<Value>, filter: Value) -> Value {
    modern(request(id, "subscriptions/listen", json!({"notifications": filter})))
}

#[test]
fn invalid_subscription_filter_is_rejected() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut client = server.connect_tcp();
        let invalid = [json!(7), json!([]), json!({"toolsListChanged": "yes"})];
        for (id, filter) in (0..).zip(invalid) {
            let response = client.exchange(listen_request(id, filter));
            expect_error(&response, -32602, Some(json!(id)));
        }
        let acknowledged =
            client.exchange(listen_request("right", json!({"toolsListChanged": true})));
        assert_eq!(
            acknowledged["method"], "notifications/subscriptions/acknowledged",
            "{acknowledged}"
        );
        drop(client);
        let counters = server.close();
        assert_eq!((counters.subscriptions.opened, counters.subscriptions.closed), (1, 1));
    });
}

#[test]
fn churned_subscriptions_are_all_ended() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.subscriptions_per_connection_max = 8;
        let server = TestServer::start(options);
        for resets in [false, true] {
            let mut client = server.connect_tcp();
            let mut lines_text = String::new();
            for round in 0..200 {
                let id = round % 10;
                let uris = [format!("test://{round}"), "test://all".to_owned()];
                let filter = json!({"toolsListChanged": true, "resourceSubscriptions": uris});
                lines_text +=
                    &join_lines([listen_request(id, filter), cancelled((round + 7) % 10)]);
            }
            client.send_bytes(lines_text.as_bytes());
            for _ in 0..200 {
                client.receive();
            }
            if resets {
                client.reset();
            } else {
                client.shutdown_write();
                client.expect_end();
            }
        }
        let counters = server.close();
        let streams = &counters.subscriptions;
        assert!(streams.opened > 0, "{counters}");
        assert_eq!(streams.opened, streams.closed, "{counters}");
    });
}
