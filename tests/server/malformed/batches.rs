//! Batches: arrays of messages, supported by protocol version 2025-03-26 only.

use corelane_test_support::messages::{
    BATCHED, LEGACY, call, cancelled, echo, endless, expect_error, initialize, modern,
    notification, request, request_without_params,
};
use corelane_test_support::{TestServer, tcp_options};
use serde_json::{Value, json};

#[test]
fn batch_is_answered_by_one_ordered_array() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(BATCHED);
    let batch = json!([
        echo(1, "a"),
        notification("notifications/whatever"),
        request_without_params("two", "ping"),
        7,
        request_without_params(3, "nope"),
        {"jsonrpc": "2.0", "id": 4},
        [request_without_params(5, "ping")],
        {"jsonrpc": "2.0", "id": 9, "result": {}},
        request_without_params(6, "tools/list"),
    ]);
    let responses = client.exchange(batch);
    let responses = responses.as_array().expect("array");
    let shapes: Vec<(Value, Value)> = responses
        .iter()
        .map(|response| (response["id"].clone(), response["error"]["code"].clone()))
        .collect();
    let expected = [
        (json!(1), Value::Null),
        (json!("two"), Value::Null),
        (Value::Null, json!(-32600)),
        (json!(3), json!(-32601)),
        (json!(4), json!(-32600)),
        (Value::Null, json!(-32600)),
        (json!(6), Value::Null),
    ];
    assert_eq!(shapes, expected);
    client.ping();
    drop(client);
    assert_eq!(server.close().requests.batches, 1);
}

#[test]
fn empty_batch_is_invalid_request() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(BATCHED);
    expect_error(&client.exchange("[]"), -32600, Some(Value::Null));
    expect_error(&client.exchange(" [ ] "), -32600, Some(Value::Null));
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn batch_without_requests_gets_no_response() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(BATCHED);
    client.send(json!([notification("a"), notification("b"), cancelled(7)]));
    client.send(json!([{"jsonrpc": "2.0", "id": 9, "result": {}}]));
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn batch_of_other_version_is_one_invalid_request() {
    let server = TestServer::start(tcp_options());
    let batch = json!([request_without_params(1, "ping"), request_without_params(2, "ping")]);
    for (revision, id) in
        [("2024-11-05", Some(Value::Null)), ("2025-06-18", Some(Value::Null)), (LEGACY, None)]
    {
        let mut client = server.connect_initialized(revision);
        expect_error(&client.exchange(&batch), -32600, id);
        expect_error(&client.exchange("[]"), -32600, unreadable_id(revision));
        client.ping();
    }
    // Without a handshake, and with modern messages.
    let mut client = server.connect_tcp();
    expect_error(&client.exchange(&batch), -32600, None);
    expect_error(&client.exchange(json!([initialize(1, BATCHED)])), -32600, None);
    expect_error(&client.exchange(json!([modern(echo(1, "x"))])), -32600, None);
    client.ping();
    drop(client);
    server.close();
}

/// Returns the id of a response to a message whose id could not be read.
fn unreadable_id(revision: &str) -> Option<Value> {
    (revision != LEGACY).then_some(Value::Null)
}

#[test]
fn slow_calls_of_batch_are_answered_individually() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(BATCHED);
    client.send(json!([
        call(1, "slow", json!({"steps": 1, "step_ms": 1})),
        echo(2, "now"),
        call(3, "hash", json!({"bytes": 10})),
    ]));
    let now = client.receive();
    assert_eq!(now.as_array().expect("array").len(), 1, "{now}");
    assert_eq!(now[0]["id"], 2, "{now}");
    let mut later = [client.receive()["id"].clone(), client.receive()["id"].clone()];
    later.sort_by_key(Value::as_i64);
    assert_eq!(later, [json!(1), json!(3)]);
    client.send(json!([endless(4), endless(4), cancelled(4)]));
    let refused = client.receive();
    expect_error(&refused[0], -32600, Some(json!(4)));
    client.ping();
    drop(client);
    server.close();
}

#[test]
fn batch_over_in_flight_limit_is_rejected_whole() {
    let mut options = tcp_options();
    options.limits.requests_in_flight_max = 16;
    let server = TestServer::start(options);
    let mut client = server.connect_initialized(BATCHED);
    let batch = |length: u64| -> Value {
        (0..length).map(|id| request_without_params(id, "tools/list")).collect()
    };
    assert_eq!(client.exchange(batch(16)).as_array().map(Vec::len), Some(16));
    expect_error(&client.exchange(batch(17)), -32600, Some(Value::Null));
    expect_error(&client.exchange(batch(100_000)), -32600, Some(Value::Null));
    client.ping();
    drop(client);
    let counters = server.close();
    assert_eq!(counters.requests.tools_list, 16, "{counters}");
}

#[test]
fn modern_request_in_batch_is_rejected_alone() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(BATCHED);
    let listen = request("s", "subscriptions/listen", json!({"notifications": {}}));
    let batch = json!([
        request_without_params(1, "ping"),
        modern(listen.clone()),
        modern(endless(2)),
        modern(echo(3, "x")),
        request_without_params(4, "ping"),
    ]);
    let responses = client.exchange(batch);
    let responses = responses.as_array().expect("array");
    assert_eq!(responses.len(), 5, "{responses:?}");
    for (response, id) in responses[1..4].iter().zip([json!("s"), json!(2), json!(3)]) {
        expect_error(response, -32600, Some(id));
    }
    assert_eq!((&responses[0]["id"], &responses[4]["id"]), (&json!(1), &json!(4)), "{responses:?}");
    // Each of them is served outside a batch.
    let acknowledged = client.exchange(modern(listen));
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    client.ping();
    drop(client);
    assert_eq!(server.close().subscriptions.opened, 1);
}
