//! Limits of running calls.

use corelane::options::OverloadOptions;
use corelane_test_support::LineClient;
use corelane_test_support::messages::{LEGACY, call, cancelled, result_text};
use serde_json::json;

use crate::overload::{Failure, error_of, options, post, start};

/// What a refused call gets.
fn refusal() -> serde_json::Value {
    json!({"code": -32603, "message": null, "data": {"retryable": true, "retryAfterMs": 1000}})
}

#[test]
fn call_above_tool_limit_is_refused() {
    let mut overload = OverloadOptions::default();
    overload.tool_calls_max = 1;
    let server = start(overload, &Failure::default());
    let mut client = server.connect_initialized(LEGACY);
    client.send(call(1, "gated", json!({})));
    assert_eq!(server.next_signal(), "gated");
    let refused = client.exchange(call(2, "gated", json!({})));
    assert_eq!((&refused["id"], error_of(&refused)), (&json!(2), refusal()));
    let response = server.connect_http().exchange(&post(3, "gated"));
    let message = response.expect_error(503, -32603, Some(json!(3)));
    assert_eq!(error_of(&message), refusal());
    assert_eq!(response.head.field("Retry-After"), Some("1"));
    client.send(call(4, "other", json!({})));
    assert_eq!(server.next_signal(), "other");
    server.open_gate();
    for _ in 0..2 {
        assert_eq!(result_text(&client.receive()), "waited");
    }
    // The call that has ended has made room.
    assert_eq!(result_text(&client.exchange(call(5, "gated", json!({})))), "waited");
    drop(client);
    assert_eq!(server.close().overload.refused_concurrency, 2);
}

// It connects from several addresses of 127.0.0.0/8.
#[cfg(target_os = "linux")]
#[test]
fn address_gets_half_of_the_calls() {
    let mut overload = OverloadOptions::default();
    overload.tool_calls_max = 4;
    let server = start(overload, &Failure::default());
    let connect = |host| {
        let mut client = LineClient::connect_from([127, 0, 0, host].into(), server.tcp());
        client.handshake(LEGACY);
        client
    };
    let mut of_one_address = [connect(2), connect(2)];
    for client in &mut of_one_address {
        client.send(call(1, "gated", json!({})));
        assert_eq!(server.next_signal(), "gated");
    }
    for client in &mut of_one_address {
        assert_eq!(error_of(&client.exchange(call(2, "gated", json!({})))), refusal());
    }
    let mut other = connect(3);
    for id in 1..=2 {
        other.send(call(id, "gated", json!({})));
        assert_eq!(server.next_signal(), "gated");
    }
    server.open_gate();
    for client in of_one_address.iter_mut().chain([&mut other]) {
        assert_eq!(result_text(&client.receive()), "waited");
    }
    drop((of_one_address, other));
    assert_eq!(server.close().overload.refused_concurrency, 2);
}

#[test]
fn total_limit_counts_all_tools() {
    let mut overload = OverloadOptions::default();
    overload.calls_max = 1;
    let server = start(overload, &Failure::default());
    let mut client = server.connect_initialized(LEGACY);
    client.send(call(1, "gated", json!({})));
    server.next_signal();
    assert_eq!(error_of(&client.exchange(call(2, "other", json!({})))), refusal());
    // Inline handlers and requests without a handler are served.
    assert_eq!(result_text(&client.exchange(call(3, "fragile", json!({})))), "fine");
    client.ping();
    server.open_gate();
    assert_eq!(client.receive()["id"], 1);
    drop(client);
    server.close();
}

#[test]
fn cancelled_call_counts_until_it_ends() {
    let mut overload = OverloadOptions::default();
    overload.tool_calls = vec![("stubborn".to_owned(), 1)];
    let server = start(overload, &Failure::default());
    let mut client = server.connect_initialized(LEGACY);
    client.send(call(1, "stubborn", json!({})));
    server.next_signal();
    client.send(cancelled(1));
    assert_eq!(error_of(&client.exchange(call(2, "stubborn", json!({})))), refusal());
    for id in 3..5 {
        client.send(call(id, "other", json!({})));
        server.next_signal();
    }
    server.open_gate();
    drop(client);
    server.close();
}

#[test]
fn reload_changes_limit_of_running_calls() {
    let server = start(OverloadOptions::default(), &Failure::default());
    let mut client = server.connect_initialized(LEGACY);
    let mut overload = OverloadOptions::default();
    overload.tool_calls_max = 1;
    server.handle().reload_limits(&options(overload.clone()));
    client.ping();
    client.send(call(1, "gated", json!({})));
    server.next_signal();
    assert_eq!(error_of(&client.exchange(call(2, "gated", json!({})))), refusal());
    overload.tool_calls_max = 2;
    server.handle().reload_limits(&options(overload));
    client.ping();
    client.send(call(3, "gated", json!({})));
    server.next_signal();
    server.open_gate();
    drop(client);
    server.close();
}
