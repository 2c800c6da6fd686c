//! `notifications/progress`: sent only with a progress token, with increasing values.

use corelane_test_support::messages::{LEGACY, call, modern};
use corelane_test_support::{LineClient, TestServer, over_each_ring, tcp_options};
use serde_json::{Value, json};

/// Sends a request; returns the notifications before its response, and the response.
fn call_with_notifications(client: &mut LineClient, request: &Value) -> (Vec<Value>, Value) {
    client.send(request);
    let mut notifications = Vec::new();
    loop {
        let message = client.receive();
        if message["id"] == request["id"] {
            return (notifications, message);
        }
        notifications.push(message);
    }
}

#[test]
fn call_without_progress_token_gets_no_progress() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        let plain = call(1, "slow", json!({"steps": 5, "step_ms": 1}));
        let mut null = plain.clone();
        null["params"]["_meta"] = json!({"progressToken": null});
        for request in [plain.clone(), null, modern(plain)] {
            let (notifications, response) = call_with_notifications(&mut client, &request);
            assert_eq!(notifications, Vec::<Value>::new());
            assert!(response.get("result").is_some(), "{response}");
        }
        drop(client);
        assert_eq!(server.close().requests.progress_notifications, 0);
    });
}

#[test]
fn progress_carries_token_and_increases() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        for token in [json!(7), json!("seven"), json!(""), json!(u64::MAX), json!(i64::MIN)] {
            let legacy = call(1, "slow", json!({"steps": 5, "step_ms": 1}));
            for mut request in [legacy.clone(), modern(legacy)] {
                request["params"]["_meta"]["progressToken"] = token.clone();
                let (notifications, response) = call_with_notifications(&mut client, &request);
                assert!(response.get("result").is_some(), "{response}");
                let steps: Vec<f64> = notifications
                    .iter()
                    .inspect(|message| assert_eq!(message["params"]["progressToken"], token))
                    .inspect(|message| assert_eq!(message["params"]["total"], 5))
                    .filter_map(|message| message["params"]["progress"].as_f64())
                    .collect();
                assert_eq!(steps, [1.0, 2.0, 3.0, 4.0, 5.0]);
            }
        }
        client.ping();
        drop(client);
        assert_eq!(server.close().requests.progress_notifications, 50);
    });
}

#[test]
fn blocking_handler_sends_progress_before_response() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        let mut request = call(1, "hash", json!({"bytes": 1000}));
        request["params"]["_meta"] = json!({"progressToken": "hash"});
        let (notifications, response) = call_with_notifications(&mut client, &request);
        assert!(response.get("result").is_some(), "{response}");
        assert_eq!(notifications.len(), 1, "{notifications:?}");
        assert_eq!(notifications[0]["params"]["progress"], 1000);
        drop(client);
        server.close();
    });
}
