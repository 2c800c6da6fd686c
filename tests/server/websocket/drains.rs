//! Draining: pending responses are sent, then the connection is closed with 1001.

use std::time::Duration;

use corelane_test_support::messages::{LEGACY, call, expect_error, listen, result_text};
use corelane_test_support::websocket::{TEXT, encode_frame};
use corelane_test_support::{
    TestServer, WebSocketClient, http_options, on_one_shard_and_two, over_each_ring,
};
use serde_json::json;

#[test]
fn drain_answers_requests_before_close_frame() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut peers: Vec<_> =
            (0..8).map(|_| WebSocketClient::initialize(server.address(), LEGACY)).collect();
        for peer in &mut peers {
            peer.send_message(&call(1, "hold", json!({})));
            assert_eq!(server.next_signal(), "begun");
        }
        server.drain();
        server.open_gate();
        for mut peer in peers {
            assert_eq!(result_text(&peer.read_message()), "held");
            peer.expect_close(1001);
        }
        let counters = server.join();
        assert_eq!(counters.requests.cancelled, 0, "{counters}");
        assert_eq!(counters.websockets.closed_going_away, 8, "{counters}");
    });
}

#[test]
fn drain_closes_idle_connections_with_1001() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let idle = WebSocketClient::initialize(server.address(), LEGACY);
        let mut halfway = WebSocketClient::initialize(server.address(), LEGACY);
        halfway.send_bytes(&encode_frame(TEXT, b"{"));
        halfway.expect_alive();
        let mut listening = WebSocketClient::connect(server.address());
        let notification = listening.exchange(&listen("all", json!({"toolsListChanged": true})));
        assert_eq!(
            notification["method"], "notifications/subscriptions/acknowledged",
            "{notification}"
        );
        server.drain();
        idle.expect_close(1001);
        halfway.expect_close(1001);
        // The subscription stream ends with its result.
        let ended = listening.read_message();
        assert_eq!((&ended["id"], ended["result"].is_object()), (&json!("all"), true), "{ended}");
        listening.expect_close(1001);
        server.join();
    });
}

#[test]
fn drain_timeout_answers_calls_before_close_frame() {
    on_one_shard_and_two(|mut options| {
        options.engine.drain_timeout = Duration::from_millis(50);
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        for id in 1..=2 {
            peer.send_message(&call(id, "until-cancelled", json!({})));
            assert_eq!(server.next_signal(), "begun");
        }
        server.drain();
        for id in 1..=2 {
            let response = peer.read_message();
            expect_error(&response, 1001, Some(json!(id)));
            assert_eq!(response["error"]["data"]["started"], true, "{response}");
        }
        peer.expect_close(1001);
        let counters = server.join();
        assert_eq!(counters.requests.cut, 2, "{counters}");
        assert_eq!(counters.websockets.closed_going_away, 1, "{counters}");
    });
}

#[test]
fn drain_cancels_open_elicitation_and_answers_call() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        let elicitation = peer.exchange(&call(1, "ask", json!({})));
        assert_eq!(elicitation["method"], "elicitation/create", "{elicitation}");
        server.drain();
        let messages = peer.read_until_response(&json!(1));
        assert_eq!(messages[0]["method"], "notifications/cancelled", "{messages:?}");
        peer.expect_close(1001);
        server.join();
    });
}

#[test]
fn draining_server_accepts_no_connections() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        peer.send_message(&call(1, "hold", json!({})));
        assert_eq!(server.next_signal(), "begun");
        let mut client = server.connect_http();
        client.expect_alive();
        server.drain();
        // The drain has started once the idle connection is closed.
        client.expect_eof_or_reset();
        let late = std::net::TcpStream::connect(server.address());
        assert!(late.is_err(), "the listener is still open");
        server.open_gate();
        assert_eq!(result_text(&peer.read_message()), "held");
        peer.expect_close(1001);
        server.join();
    });
}
