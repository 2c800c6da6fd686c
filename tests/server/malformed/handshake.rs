//! Legacy handshake messages out of order.

use corelane_test_support::messages::{
    LEGACY, LEGACY_REVISIONS, call, echo, expect_error, initialize, join_lines, notification,
    request, request_without_params, result_text,
};
use corelane_test_support::{TestServer, tcp_options};
use serde_json::json;

#[test]
fn only_ping_is_served_before_initialize() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_tcp();
    let too_early = [
        request_without_params(1, "tools/list"),
        echo(1, "x"),
        call(1, "slow", json!({"steps": 1, "step_ms": 0})),
        request_without_params(1, "nope"),
    ];
    for request in &too_early {
        let response = client.exchange(request);
        expect_error(&response, -32600, Some(json!(1)));
        let message = response["error"]["message"].as_str().expect("error message");
        assert!(message.contains("initialize"), "{message}");
    }
    client.ping();
    // Out of order, so it has no effect.
    client.send(notification("notifications/initialized"));
    expect_error(&client.exchange(&too_early[0]), -32600, Some(json!(1)));

    assert_eq!(client.exchange(initialize(2, LEGACY))["result"]["protocolVersion"], LEGACY);
    assert_eq!(result_text(&client.exchange(echo(3, "ready"))), "ready");
    drop(client);
    server.close();
}

#[test]
fn requests_before_initialized_notification_are_served() {
    let server = TestServer::start(tcp_options());
    for revision in LEGACY_REVISIONS {
        let mut client = server.connect_tcp();
        // In one packet: the client waits for no response.
        let logging = request(2, "logging/setLevel", json!({"level": "info"}));
        let together = join_lines([initialize(1, revision), logging, echo(3, "early")]);
        client.send_bytes(together.as_bytes());
        assert_eq!(client.receive()["result"]["protocolVersion"], revision);
        assert_eq!(client.receive()["result"], json!({}));
        assert_eq!(result_text(&client.receive()), "early");
        expect_error(&client.exchange(request_without_params(4, "nope")), -32601, Some(json!(4)));
        expect_error(&client.exchange(initialize(5, revision)), -32600, Some(json!(5)));
        client.send(notification("notifications/initialized"));
        assert_eq!(result_text(&client.exchange(echo(6, "ready"))), "ready");
    }
    server.close();
}

#[test]
fn second_initialize_is_rejected_without_effect() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_tcp();
    client.exchange(initialize(1, "2025-06-18"));
    expect_error(&client.exchange(initialize(2, LEGACY)), -32600, Some(json!(2)));
    client.send(notification("notifications/initialized"));
    expect_error(&client.exchange(initialize(3, LEGACY)), -32600, Some(json!(3)));
    client.send(notification("notifications/initialized"));
    // Still 2025-06-18, where invalid arguments are a JSON-RPC error.
    expect_error(&client.exchange(call(4, "echo", json!({}))), -32602, Some(json!(4)));
    assert_eq!(result_text(&client.exchange(echo(5, "same"))), "same");
    drop(client);
    server.close();
}

#[test]
fn invalid_initialize_can_be_retried() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_tcp();
    let client_info = json!({"name": "x", "version": "1"});
    for params in [
        json!([]),
        json!({}),
        json!({"protocolVersion": 1, "capabilities": {}, "clientInfo": client_info}),
        json!({"capabilities": {}, "clientInfo": client_info}),
        json!({"protocolVersion": LEGACY, "clientInfo": client_info}),
        json!({"protocolVersion": LEGACY, "capabilities": [], "clientInfo": client_info}),
        json!({"protocolVersion": LEGACY, "capabilities": {}}),
        json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "x"}}),
        json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": "x"}),
    ] {
        expect_error(&client.exchange(request(1, "initialize", params)), -32602, Some(json!(1)));
        expect_error(
            &client.exchange(request_without_params(2, "tools/list")),
            -32600,
            Some(json!(2)),
        );
    }
    expect_error(&client.exchange(request_without_params(3, "initialize")), -32602, Some(json!(3)));
    client.handshake(LEGACY);
    assert_eq!(result_text(&client.exchange(echo(4, "at last"))), "at last");
    drop(client);
    server.close();
}

#[test]
fn unknown_version_negotiates_newest_legacy_version() {
    let server = TestServer::start(tcp_options());
    let long = "9".repeat(10_000);
    for revision in ["", "1.0", "2024-10-07", "2099-01-01", "2026-07-28", "2025-11-25 ", &long] {
        let mut client = server.connect_tcp();
        let response = client.exchange(initialize(1, revision));
        assert_eq!(response["result"]["protocolVersion"], LEGACY, "{response}");
    }
    server.close();
}
