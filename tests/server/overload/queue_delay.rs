//! Load shedding by the time for which calls wait for a blocking thread.

use std::time::Duration;

use corelane::options::OverloadOptions;
use corelane_test_support::TestServer;
use corelane_test_support::messages::{LEGACY, call};
use serde_json::json;

use crate::overload::{Failure, assert_metric, error_of, options, start_with};

/// A server with one blocking thread that may wait no time at all.
fn start() -> TestServer {
    let mut overload = OverloadOptions::default();
    overload.queue_target = Duration::from_nanos(1);
    overload.queue_interval = Duration::from_nanos(1);
    let mut options = options(overload);
    options.engine.blocking_threads = 1;
    start_with(options, &Failure::default())
}

#[test]
fn standing_queue_refuses_new_calls() {
    let server = start();
    let mut client = server.connect_initialized(LEGACY);
    client.send(call(0, "stubborn", json!({})));
    server.next_signal();
    // Each waits behind the first; the next one observes it, and the one after that its interval.
    for id in 1..4 {
        client.send(call(id, "stubborn", json!({})));
        client.send(call("inline", "fragile", json!({})));
        let response = client.receive();
        if response["id"] != "inline" {
            let data = json!({"retryable": true, "retryAfterMs": 1});
            let error = json!({"code": -32603, "message": null, "data": data});
            assert_eq!((&response["id"], error_of(&response)), (&json!(3), error));
            client.receive();
        }
    }
    assert_metric(&server, "corelane_refused_total{reason=\"queue\"} 1");
    assert_metric(&server, "corelane_blocking_waiting 2");
    server.open_gate();
    for _ in 0..3 {
        assert!(client.receive()["result"].is_object());
    }
    // The queue is empty.
    assert!(client.exchange(call(4, "stubborn", json!({})))["result"].is_object());
    drop(client);
    assert_eq!(server.close().overload.refused_queue, 1);
}
