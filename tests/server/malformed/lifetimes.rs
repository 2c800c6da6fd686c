//! Connections that reach their lifetime: what runs is answered, then they are closed.

use std::time::Duration;

use corelane::Options;
use corelane_test_support::messages::{LEGACY, call, echo, modern, request_without_params};
use corelane_test_support::{
    LineClient, Request, TestServer, WebSocketClient, http_and_tcp_options, over_each_ring,
};
use serde_json::json;

/// Ends the connections that are open now, which are all older.
fn end_connections(server: &TestServer, options: &Options) {
    let mut options = options.clone();
    options.limits.connection_lifetime = Duration::from_millis(1);
    server.handle().reload_limits(&options);
}

#[test]
fn call_is_answered_before_lifetime_closes() {
    over_each_ring(http_and_tcp_options(), |options| {
        let server = TestServer::start(options.clone());
        let mut idle = server.connect_initialized(LEGACY);
        let mut client = server.connect_initialized(LEGACY);
        client.send(call(1, "slow", json!({"steps": 100, "step_ms": 10})));
        client.ping();
        end_connections(&server, &options);
        let ids: Vec<_> =
            client.receive_rest().iter().map(|response| response["id"].clone()).collect();
        assert_eq!(ids, [json!(1)]);
        assert!(idle.receive_rest().is_empty());
        drop((client, idle));
        let counters = server.close();
        assert_eq!(counters.connections.closed_lifetime, 2, "{counters}");
    });
}

#[test]
fn lifetime_closes_websocket_with_1001() {
    let options = http_and_tcp_options();
    let server = TestServer::start(options.clone());
    let client = WebSocketClient::initialize(server.http(), LEGACY);
    end_connections(&server, &options);
    client.expect_close(1001);
    let counters = server.close();
    assert_eq!(counters.connections.closed_lifetime, 1, "{counters}");
}

#[test]
fn lifetime_ends_streams_with_their_result() {
    let options = http_and_tcp_options();
    let server = TestServer::start(options.clone());
    let mut listen = modern(request_without_params(7, "subscriptions/listen"));
    listen["params"]["notifications"] = json!({"toolsListChanged": true});
    let mut tcp = server.connect_tcp();
    tcp.send(&listen);
    // It is acknowledged.
    tcp.receive();
    let mut http = server.connect_http();
    assert_eq!(http.exchange(&Request::modern(&modern(echo(1, "x")))).status(), 200);
    end_connections(&server, &options);
    let rest = tcp.receive_rest();
    assert_eq!(rest.last().map(|response| &response["id"]), Some(&json!(7)), "{rest:?}");
    http.expect_eof_or_reset();
    drop(tcp);
    server.close();
}

#[test]
fn lifetime_is_announced_in_parity_dialect() {
    let options = http_and_tcp_options();
    let server = TestServer::start(options.clone());
    let mut client: LineClient = server.connect_tcp();
    let info = json!({"name": "test", "version": "1"});
    client.send(json!({
        "type": "handshake", "protocolVersion": "1.0", "capabilities": {"tools": true},
        "clientInfo": info,
    }));
    let ack = client.receive_line_or_reset().expect("a line");
    assert!(ack.contains("handshakeAck"), "{ack}");
    end_connections(&server, &options);
    let last = client.receive_line_or_reset().expect("a line");
    assert!(last.contains(r#"{"reason":"connection_lifetime"}"#), "{last}");
    assert_eq!(client.receive_line_or_reset(), None);
    drop(client);
    server.close();
}

#[test]
fn connections_have_no_lifetime_by_default() {
    let options = http_and_tcp_options();
    assert!(options.limits.connection_lifetime.is_zero());
    let mut longer = options.clone();
    longer.limits.connection_lifetime = Duration::from_hours(1);
    let server = TestServer::start(longer);
    let mut client = server.connect_initialized(LEGACY);
    assert!(client.exchange(echo(1, "x"))["result"].is_object());
    server.handle().reload_limits(&options);
    assert!(client.exchange(echo(2, "x"))["result"].is_object());
    drop(client);
    server.close();
}
