//! Half-closed connections: the peer has shut down its sending side and still reads.

use corelane_test_support::messages::{
    LEGACY, call, echo, endless, join_lines, request_without_params,
};
use corelane_test_support::{TIMEOUT, TestServer, over_each_ring, tcp_options};
use serde_json::{Value, json};

#[test]
fn half_closed_connection_gets_all_responses() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.half_close_timeout = TIMEOUT;
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        let now = (0..100).map(|id| echo(id, "now"));
        let later = (100..110).flat_map(|id| {
            let slow = call(id, "slow", json!({"steps": 3, "step_ms": 5}));
            [slow, call(id + 10, "hash", json!({"bytes": 100_000}))]
        });
        let requests = join_lines(now.chain(later));
        client.send_bytes(requests.as_bytes());
        client.shutdown_write();
        let responses = client.receive_rest();
        let mut ids: Vec<i64> =
            responses.iter().filter_map(|response| response["id"].as_i64()).collect();
        assert!(responses.iter().all(|response| response.get("result").is_some()));
        assert!(ids[..100].is_sorted());
        ids.sort_unstable();
        assert_eq!(ids, (0..120).collect::<Vec<_>>());
        drop(client);
        server.close();
    });
}

#[test]
fn half_close_cancels_calls_in_flight() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        // With a terminator, without one, and behind requests that are answered at once.
        for text in [endless(0).to_string(), format!("{}\n", endless(0))] {
            let mut client = server.connect_initialized(LEGACY);
            let requests = join_lines((1..=100).map(|id| echo(id, "now")));
            client.send_bytes((requests + &text).as_bytes());
            client.shutdown_write();
            let responses = client.receive_rest();
            let ids: Vec<_> = responses.iter().filter_map(|it| it["id"].as_i64()).collect();
            assert_eq!(ids, (1..=100).collect::<Vec<_>>(), "{responses:?}");
            assert!(responses.iter().all(|response| response.get("result").is_some()));
        }
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 2, "{counters}");
        assert_eq!(counters.connections.closed_by_peer, 2, "{counters}");
        assert_eq!(counters.errors.total(), 0, "{counters}");
    });
}

#[test]
fn last_line_without_terminator_is_served() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.half_close_timeout = TIMEOUT;
        let server = TestServer::start(options);
        for (text, code) in
            [(request_without_params(1, "ping").to_string(), None), ("{".to_owned(), Some(-32700))]
        {
            let mut client = server.connect_tcp();
            client.send_bytes(text.as_bytes());
            client.shutdown_write();
            let responses = client.receive_rest();
            assert_eq!(responses.len(), 1, "{responses:?}");
            assert_eq!(responses[0]["error"]["code"].as_i64(), code, "{responses:?}");
        }
        let mut client = server.connect_initialized(LEGACY);
        client
            .send_bytes(call(2, "slow", json!({"steps": 1, "step_ms": 5})).to_string().as_bytes());
        client.shutdown_write();
        assert_eq!(client.receive_rest()[0]["id"], 2);
        drop(client);
        server.close();
    });
}

#[test]
fn idle_connection_closes_after_half_close() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut client = server.connect_tcp();
        client.shutdown_write();
        assert_eq!(client.receive_rest(), Vec::<Value>::new());
        let mut client = server.connect_initialized(LEGACY);
        client.shutdown_write();
        assert_eq!(client.receive_rest(), Vec::<Value>::new());
        drop(client);
        server.close();
    });
}

#[test]
fn half_close_under_backpressure_loses_no_response() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.half_close_timeout = TIMEOUT;
        options.limits.outgoing_bytes_max = 1000;
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        let requests = join_lines((0..40).flat_map(|id| {
            let slow = call(id, "slow", json!({"steps": 1, "step_ms": 1}));
            [slow, echo(id + 40, &"x".repeat(400))]
        }));
        client.send_bytes(requests.as_bytes());
        client.shutdown_write();
        let mut ids: Vec<i64> =
            client.receive_rest().iter().filter_map(|it| it["id"].as_i64()).collect();
        ids.sort_unstable();
        assert_eq!(ids, (0..80).collect::<Vec<_>>());
        drop(client);
        let counters = server.close();
        assert!(counters.traffic.read_pauses > 0, "{counters}");
    });
}
