//! Connections that the peer resets.

use corelane_test_support::messages::{LEGACY, call, echo, endless, join_lines, result_text};
use corelane_test_support::{LineClient, TestServer, over_each_ring, tcp_options};
use serde_json::json;

#[test]
fn reset_inside_message_spares_other_connections() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.connections_max = 3;
        let server = TestServer::start(options);
        let mut other = server.connect_initialized(LEGACY);
        let text = echo(1, &"long ".repeat(1000)).to_string();
        for cut in [1, 10, 100, 1000, 4096, text.len()] {
            let mut client = server.connect_accepted();
            client.handshake(LEGACY);
            client.send_bytes(&text.as_bytes()[..cut]);
            other.ping();
            client.reset();
            assert_eq!(result_text(&other.exchange(echo(2, "unaffected"))), "unaffected");
        }
        // Every connection slot is free again.
        let mut again = [server.connect_accepted(), server.connect_accepted()];
        again.iter_mut().for_each(LineClient::ping);
        drop((again, other));
        let counters = server.close();
        assert!(counters.connections.closed_socket_error >= 6, "{counters}");
    });
}

#[test]
fn reset_cancels_calls_in_flight() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut other = server.connect_initialized(LEGACY);
        let mut client = server.connect_initialized(LEGACY);
        for id in 0..5 {
            client.send(endless(id));
            client.send(call(id + 5, "hash", json!({"bytes": 1 << 30})));
        }
        other.ping();
        client.reset();
        // The blocking threads are free again; without cancellation this would take minutes.
        let hashed = other.exchange(call(1, "hash", json!({"bytes": 1000})));
        assert_eq!(hashed["id"], 1, "{hashed}");
        drop(other);
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 10, "{counters}");
        assert_eq!(counters.requests.timed_out, 0, "{counters}");
    });
}

#[test]
fn reset_with_pending_responses_spares_other_connections() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut other = server.connect_initialized(LEGACY);
        let requests = join_lines((0..200).map(|id| echo(id, &"x".repeat(2000))));
        for _ in 0..20 {
            let mut client = server.connect_initialized(LEGACY);
            client.send_bytes(requests.as_bytes());
            client.reset();
            assert_eq!(result_text(&other.exchange(echo(1, "unaffected"))), "unaffected");
        }
        drop(other);
        server.close();
    });
}
