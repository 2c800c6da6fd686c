//! Calls over `request_timeout`.

use std::time::Duration;

use corelane_test_support::messages::{
    LEGACY, call, cancelled, echo, endless, expect_error, join_lines, modern, result_text,
};
use corelane_test_support::{TestServer, over_each_ring, tcp_options};
use serde_json::json;

#[test]
fn call_past_deadline_gets_error() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.request_timeout = Duration::from_millis(30);
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        for request in [endless(1), modern(endless(1))] {
            expect_error(&client.exchange(request), -32603, Some(json!(1)));
        }
        expect_error(
            &client.exchange(call("h", "hash", json!({"bytes": 1 << 30}))),
            -32603,
            Some(json!("h")),
        );
        // The ids are free again, and calls within the timeout succeed.
        assert_eq!(result_text(&client.exchange(echo(1, "goes on"))), "goes on");
        let in_time = client.exchange(call("h", "slow", json!({"steps": 1, "step_ms": 0})));
        assert!(in_time.get("result").is_some(), "{in_time}");
        client.shutdown_write();
        client.expect_end();
        drop(client);
        let counters = server.close();
        assert_eq!(counters.requests.timed_out, 3, "{counters}");
        assert_eq!(counters.requests.cancelled, 0, "{counters}");
    });
}

#[test]
fn call_is_either_cancelled_or_timed_out() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.request_timeout = Duration::from_millis(50);
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        client.send(endless(1));
        client.send(endless(2));
        client.send(cancelled(1));
        expect_error(&client.receive(), -32603, Some(json!(2)));
        client.send(cancelled(2));
        client.ping();
        drop(client);
        let counters = server.close();
        assert_eq!((counters.requests.timed_out, counters.requests.cancelled), (1, 1));
    });
}

#[test]
fn timed_out_calls_free_their_slots() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.request_timeout = Duration::from_millis(30);
        options.limits.requests_in_flight_max = 2;
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        for round in 0..3 {
            let ids = [2 * round, 2 * round + 1];
            client.send_bytes(join_lines(ids.map(endless)).as_bytes());
            let mut answered = ids.map(|_| client.receive());
            answered.sort_by_key(|response| response["id"].as_i64());
            for (response, id) in answered.iter().zip(ids) {
                expect_error(response, -32603, Some(json!(id)));
            }
        }
        client.ping();
        drop(client);
        let counters = server.close();
        assert_eq!(counters.requests.timed_out, 6, "{counters}");
    });
}
