//! Drains while peers are slow or have calls in flight.

use std::time::Duration;

use corelane_test_support::messages::{LEGACY, call, echo, endless, expect_error};
use corelane_test_support::{LineClient, TestServer, over_each_ring, tcp_options};
use serde_json::json;

#[test]
fn drain_answers_calls_in_flight_before_closing() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        client.send(call(1, "slow", json!({"steps": 10, "step_ms": 10})));
        client.ping();
        server.drain();
        // Not accepted any more; a request read before the drain is rejected with an error.
        client.send(echo(2, "too late"));
        let ids: Vec<_> =
            client.receive_rest().iter().map(|response| response["id"].clone()).collect();
        assert_eq!(ids.last(), Some(&json!(1)), "{ids:?}");
        assert!(ids.len() == 1 || ids == [json!(2), json!(1)], "{ids:?}");
        drop(client);
        server.close();
    });
}

#[test]
fn drain_timeout_answers_unfinished_calls() {
    over_each_ring(tcp_options(), |mut options| {
        options.engine.drain_timeout = Duration::from_millis(50);
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        client.send(endless(1));
        client.send(endless(2));
        client.ping();
        server.drain();
        let responses = client.receive_rest();
        assert_eq!(responses.len(), 2);
        for (response, id) in responses.iter().zip(1..=2) {
            expect_error(response, 1001, Some(json!(id)));
            assert_eq!(
                response["error"]["data"],
                json!({"started": true, "retryable": false}),
                "{response}"
            );
        }
        drop(client);
        let counters = server.join();
        assert_eq!((counters.requests.cut, counters.requests.cancelled), (2, 2), "{counters}");
    });
}

#[test]
fn drain_ends_once_slow_peer_reads() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.outgoing_bytes_max = 1000;
        options.tcp.send_buffer_bytes = 4 << 10;
        options.engine.drain_timeout = Duration::from_mins(1);
        let server = TestServer::start(options);
        let mut other = server.connect_initialized(LEGACY);
        let mut client = LineClient::connect_with_buffers(server.address(), 4 << 10);
        client.handshake(LEGACY);
        // Responses queue for the peer, with unread requests behind them.
        for id in 0..20 {
            client.send(echo(id, &"x".repeat(2000)));
            other.ping();
        }
        server.drain();
        let ids: Vec<i64> =
            client.receive_rest().iter().filter_map(|it| it["id"].as_i64()).collect();
        assert!(
            ids.len() < 20 && ids.iter().copied().eq(0..ids.len().try_into().unwrap()),
            "{ids:?}"
        );
        drop((client, other));
        server.close();
    });
}
