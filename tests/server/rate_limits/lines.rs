//! Limits over TCP, WebSocket and standard input: errors, notifications, batches.

use corelane_test_support::messages::{
    BATCHED, LEGACY, call, echo, initialize, modern, notification, request_without_params,
};
use corelane_test_support::process::Process;
use corelane_test_support::websocket::WebSocketClient;
use corelane_test_support::{LineClient, TestServer};
use serde_json::{Value, json};

use crate::CORELANE;
use crate::rate_limits::{CLIENT, OTHER, expect_rate_limited, options, start};

fn is_admitted(response: &Value) -> bool {
    let is_limited = response["error"]["code"] == 1002;
    assert!(is_limited || response["result"].is_object(), "{response}");
    !is_limited
}

#[test]
fn tcp_request_over_limit_gets_error() {
    let server = start(&["tools/call rate=2/h"]);
    let mut client = server.connect_initialized(LEGACY);
    for id in 0..2 {
        assert!(client.exchange(echo(id, "x"))["result"].is_object());
    }
    let refused = client.exchange(echo(2, "x"));
    assert_eq!(refused["id"], 2);
    expect_rate_limited(&refused, "2 in 3600 seconds (all)", 1_800);
    // Neither the connection nor other methods are affected.
    client.ping();
    assert!(client.exchange(request_without_params(3, "tools/list"))["result"].is_object());
    drop(client);
    let counters = server.close();
    assert_eq!(counters.overload.refused_rate, 1, "{counters}");
}

#[test]
fn closed_connections_leave_their_keys_to_others() {
    let mut options = options(&["tools/call rate=2/h per=session"]);
    options.rate.keys_max = 16;
    let server = TestServer::start(options);
    for _ in 0..64 {
        let mut client = LineClient::connect_from(CLIENT, server.tcp());
        assert!(is_admitted(&client.exchange(modern(echo(0, "x")))));
        client.shutdown_write();
        client.expect_end();
    }
    let mut client = LineClient::connect_from(OTHER, server.tcp());
    let admitted = [0, 1, 2].map(|id| is_admitted(&client.exchange(modern(echo(id, "x")))));
    assert_eq!(admitted, [true, true, false]);
    drop(client);
    let counters = server.close();
    assert_eq!(counters.requests.rate_overflows, 0, "{counters}");
}

#[test]
fn websocket_request_over_limit_gets_error() {
    let server = start(&["tools/call rate=1/h"]);
    let mut client = WebSocketClient::initialize(server.http(), LEGACY);
    assert!(client.exchange(&echo(1, "x"))["result"].is_object());
    let refused = client.exchange(&echo(2, "x"));
    expect_rate_limited(&refused, "1 in 3600 seconds (all)", 3_600);
    let listed = client.exchange(&request_without_params(3, "tools/list"));
    assert!(listed["result"].is_object(), "{listed}");
    drop(client);
    server.close();
}

#[test]
fn stdio_request_over_limit_gets_error() {
    let arguments = ["stdio", "--rate-rules", "ping rate=1/h"];
    let mut process = Process::start(CORELANE, &arguments);
    let mut client = process.take_pipes();
    assert!(client.exchange(initialize(1, LEGACY))["result"].is_object());
    client.send(notification("notifications/initialized"));
    client.ping();
    let refused = client.exchange(request_without_params(2, "ping"));
    expect_rate_limited(&refused, "1 in 3600 seconds (all)", 3_600);
}

#[test]
fn notification_over_limit_is_dropped_and_counted() {
    let server = start(&["notifications/* rate=1/h"]);
    // `initialized` is not limited: the connection would not serve requests without it.
    let mut client = server.connect_initialized(LEGACY);
    for _ in 0..3 {
        client.send(notification("notifications/roots/list_changed"));
    }
    client.ping();
    drop(client);
    let counters = server.close();
    assert_eq!(counters.requests.notifications_dropped, 2, "{counters}");
    assert_eq!(counters.overload.refused_rate, 0, "{counters}");
}

#[test]
fn messages_of_batch_are_limited_one_by_one() {
    let server = start(&["ping rate=2/h"]);
    let mut client = server.connect_initialized(BATCHED);
    let pings: Vec<Value> = (1..=3).map(|id| request_without_params(id, "ping")).collect();
    let responses = client.exchange(Value::Array(pings));
    let responses = responses.as_array().expect("an array");
    let admitted: Vec<bool> = responses.iter().map(is_admitted).collect();
    assert_eq!(admitted, [true, true, false]);
    drop(client);
    server.close();
}

#[test]
fn sessions_of_one_client_are_limited_apart() {
    let server = start(&["ping rate=1/h per=session"]);
    for _ in 0..3 {
        let mut client = server.connect_initialized(LEGACY);
        client.ping();
        assert!(!is_admitted(&client.exchange(request_without_params(2, "ping"))));
    }
    server.close();
}

#[test]
fn addresses_are_limited_apart() {
    let server = start(&["ping rate=1/h per=address"]);
    for from in [CLIENT, OTHER] {
        let mut client = LineClient::connect_from(from, server.tcp());
        client.handshake(LEGACY);
        client.ping();
        let refused = client.exchange(request_without_params(2, "ping"));
        expect_rate_limited(&refused, "1 in 3600 seconds (address)", 3_600);
    }
    // A proxy on this machine is exempt.
    let mut local = server.connect_initialized(LEGACY);
    (0..9).for_each(|_| local.ping());
    drop(local);
    server.close();
}

#[test]
fn unknown_tools_share_one_limit() {
    let server = start(&["tools/call rate=2/h per=tool"]);
    let mut client = server.connect_initialized(LEGACY);
    let codes: Vec<Value> = (0..4)
        .map(|id| client.exchange(call(id, &format!("none-{id}"), json!({}))))
        .map(|response| response["error"]["code"].clone())
        .collect();
    assert_eq!(codes, [json!(-32602), json!(-32602), json!(1002), json!(1002)]);
    assert!(client.exchange(echo(5, "x"))["result"].is_object());
    drop(client);
    server.close();
}

#[test]
fn no_spelling_of_uri_avoids_limit() {
    let server = TestServer::with_test_tools(options(&["resources/read docs://plan rate=1/h"]));
    let mut client = server.connect_initialized(LEGACY);
    let read = |uri: &str| {
        json!({"jsonrpc": "2.0", "id": 1, "method": "resources/read",
                                  "params": {"uri": uri}})
    };
    let spellings = [
        "docs://plan",
        "docs://pl%61n",
        "DOCS://plan",
        "docs://Plan",
        "docs://plan?",
        "docs://other",
    ];
    let codes = spellings.map(|uri| client.exchange(read(uri))["error"]["code"].clone());
    // None of them exists.
    let mut expected = [1002; 6];
    (expected[0], expected[5]) = (-32002, -32002);
    assert_eq!(codes, expected.map(|code| json!(code)));
    drop(client);
    server.close();
}

#[test]
fn server_without_rules_limits_nothing() {
    let server = start(&[]);
    let mut client = server.connect_initialized(LEGACY);
    (0..2_000).for_each(|_| client.ping());
    drop(client);
    let counters = server.close();
    assert_eq!((counters.overload.refused_rate, counters.requests.rate_overflows), (0, 0));
}
