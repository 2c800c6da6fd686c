//! Circuit breakers of tools.

use std::time::Duration;

use corelane::options::OverloadOptions;
use corelane_test_support::messages::{LEGACY, call, cancelled, modern, result_text};
use corelane_test_support::{LineClient, TestServer, WebSocketClient};
use serde_json::json;

use crate::overload::{Failure, assert_metric, error_of, options, post, start};

/// Breakers that open at two failures and stay open for `wait`.
fn breakers(wait: Duration) -> OverloadOptions {
    let mut overload = OverloadOptions::default();
    overload.breaker.failed_percent = 100;
    overload.breaker.calls_min = 2;
    overload.breaker.wait = wait;
    overload.breaker.wait_max = wait;
    overload.breaker.probes_max = 1;
    overload
}

const HOUR: Duration = Duration::from_hours(1);

#[test]
fn open_breaker_refuses_with_retry_hint() {
    let failure = Failure::default();
    let server = start(breakers(HOUR), &failure);
    failure.set(true);
    let mut client = server.connect_http();
    for id in 0..2 {
        assert_eq!(client.exchange(&post(id, "fragile")).status(), 200);
    }
    let response = client.exchange(&post(2, "fragile"));
    let message = response.expect_error(503, -32603, Some(json!(2)));
    let milliseconds = message["error"]["data"]["retryAfterMs"].as_u64().expect("a number");
    assert!((3_500_000..=3_600_000).contains(&milliseconds), "{message}");
    let seconds = milliseconds.div_ceil(1_000).to_string();
    assert_eq!(response.head.field("Retry-After"), Some(&*seconds));
    assert_eq!(message["error"]["data"]["retryable"], true);
    // Other tools are called, by every client.
    assert_eq!(client.exchange(&post(3, "negative")).status(), 200);
    let mut lines = server.connect_initialized(LEGACY);
    let mut websocket = WebSocketClient::initialize(server.http(), LEGACY);
    for response in [
        lines.exchange(call(4, "fragile", json!({}))),
        websocket.exchange(&call(4, "fragile", json!({}))),
    ] {
        let error = error_of(&response);
        assert_eq!((&error["code"], &error["data"]["retryable"]), (&json!(-32603), &json!(true)));
        assert!(error["data"]["retryAfterMs"].as_u64().is_some_and(|it| it > 3_500_000));
    }
    assert_metric(&server, "corelane_refused_total{reason=\"breaker\"} 3");
    assert_metric(&server, "corelane_breakers_open 1");
    drop((lines, websocket));
    let counters = server.close();
    assert_eq!(counters.overload.breakers_opened, 1, "{counters}");
}

#[test]
fn recovered_tool_closes_its_breaker() {
    let failure = Failure::default();
    let server = start(breakers(Duration::ZERO), &failure);
    let mut client = server.connect_initialized(LEGACY);
    failure.set(true);
    for id in 0..2 {
        assert!(client.exchange(call(id, "panicky", json!({})))["error"].is_object());
    }
    assert_metric(&server, "corelane_breakers_open 1");
    // The probe fails.
    assert!(client.exchange(call(2, "panicky", json!({})))["error"].is_object());
    failure.set(false);
    for id in 3..5 {
        assert_eq!(result_text(&client.exchange(call(id, "panicky", json!({})))), "fine");
    }
    assert_metric(&server, "corelane_breakers_open 0");
    drop(client);
    let overload = server.close().overload;
    assert_eq!((overload.breakers_opened, overload.breakers_half_opened), (2, 2));
    assert_eq!((overload.breakers_closed, overload.refused_breaker), (1, 0));
}

/// A server whose breaker of the tool `gated` is open and admits a probe at once.
fn start_open(failure: &Failure) -> (TestServer, LineClient) {
    let server = start(breakers(Duration::ZERO), failure);
    server.open_gate();
    failure.set(true);
    let mut client = server.connect_initialized(LEGACY);
    for id in 0..2 {
        client.exchange(call(id, "gated", json!({})));
        server.next_signal();
    }
    failure.set(false);
    server.close_gate();
    (server, client)
}

#[test]
fn half_open_breaker_admits_one_probe() {
    let (server, mut client) = start_open(&Failure::default());
    client.send(call(2, "gated", json!({})));
    server.next_signal();
    let refused = client.exchange(call(3, "gated", json!({})));
    let data = json!({"retryable": true, "retryAfterMs": 1});
    let error = json!({"code": -32603, "message": null, "data": data});
    assert_eq!((&refused["id"], error_of(&refused)), (&json!(3), error));
    server.open_gate();
    assert_eq!(result_text(&client.receive()), "waited");
    assert_eq!(result_text(&client.exchange(call(4, "gated", json!({})))), "waited");
    drop(client);
    let overload = server.close().overload;
    assert_eq!((overload.refused_breaker, overload.breakers_closed), (1, 1));
}

#[test]
fn cancelled_probe_leaves_its_place() {
    let (server, mut client) = start_open(&Failure::default());
    client.send(call(2, "gated", json!({})));
    server.next_signal();
    client.send(cancelled(2));
    client.send(call(3, "gated", json!({})));
    server.next_signal();
    server.open_gate();
    assert_eq!(result_text(&client.receive()), "waited");
    drop(client);
    assert_eq!(server.close().overload.refused_breaker, 0);
}

#[test]
fn probe_with_invalid_state_leaves_its_place() {
    let (server, mut client) = start_open(&Failure::default());
    server.open_gate();
    let mut message = modern(call(2, "gated", json!({})));
    message["params"]["requestState"] = json!("none");
    let refused = server.connect_tcp().exchange(message);
    assert_eq!(error_of(&refused)["code"], -32602);
    assert_eq!(result_text(&client.exchange(call(3, "gated", json!({})))), "waited");
    drop(client);
    let overload = server.close().overload;
    assert_eq!((overload.refused_breaker, overload.breakers_closed), (0, 1));
}

#[test]
fn tool_errors_count_only_if_configured() {
    for counts in [false, true] {
        let failure = Failure::default();
        let mut overload = breakers(HOUR);
        overload.breaker.tool_errors = counts;
        let server = start(overload, &failure);
        failure.set(true);
        let mut client = server.connect_http();
        for id in 0..2 {
            assert_eq!(client.exchange(&post(id, "negative")).status(), 200);
        }
        let expected = if counts { 503 } else { 200 };
        assert_eq!(client.exchange(&post(2, "negative")).status(), expected);
        server.close();
    }
}

#[test]
fn reload_switches_breakers_on_and_off() {
    let failure = Failure::default();
    let server = start(OverloadOptions::default(), &failure);
    failure.set(true);
    let mut client = server.connect_http();
    for id in 0..3 {
        assert_eq!(client.exchange(&post(id, "fragile")).status(), 200);
    }
    server.handle().reload_limits(&options(breakers(HOUR)));
    // The shard has the new rules once it has responded.
    server.connect_initialized(LEGACY).ping();
    for status in [200, 200, 503] {
        assert_eq!(client.exchange(&post(3, "fragile")).status(), status);
    }
    server.handle().reload_limits(&options(OverloadOptions::default()));
    server.connect_initialized(LEGACY).ping();
    assert_eq!(client.exchange(&post(4, "fragile")).status(), 200);
    assert_metric(&server, "corelane_breakers_open 0");
    server.close();
}
