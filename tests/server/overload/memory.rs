//! The memory guard, with readings of the test.

use std::time::Duration;

use corelane::internal::MemoryReading;
use corelane::options::OverloadOptions;
use corelane_test_support::messages::{LEGACY, call, expect_error, listen, modern, result_text};
use corelane_test_support::{LineClient, Request, TestServer};
use serde_json::{Value, json};

use crate::overload::{Failure, assert_metric, options, post, start};

/// A guard whose steps begin at 60, 70, 80 and 90 percent, and that reads nothing itself.
fn guarded() -> OverloadOptions {
    let mut overload = OverloadOptions::default();
    overload.memory.refuse_connections_percent = 60;
    overload.memory.refuse_messages_percent = 70;
    overload.memory.end_streams_percent = 80;
    overload.memory.close_slowest_percent = 90;
    overload.memory.message_bytes_max = 4_096;
    overload.memory.interval = Duration::from_hours(1);
    overload
}

/// Applies a reading; `client` observes that the shard has received it.
fn read(server: &TestServer, client: &mut LineClient, used_bytes: u64) {
    let reading = MemoryReading { used_bytes, limit_bytes: 100, stalled_percent: 0 };
    server.handle().apply_memory_reading(&reading);
    client.ping();
}

/// A call with an argument of this length, which the handler keeps.
fn padded(id: u32, length: usize) -> Value {
    call(id, "gated", json!({"padding": "x".repeat(length)}))
}

#[test]
fn short_memory_refuses_new_connections() {
    let server = start(guarded(), &Failure::default());
    let mut client = server.connect_initialized(LEGACY);
    let mut http = server.connect_http();
    assert_eq!(http.exchange(&post(1, "fragile")).status(), 200);
    read(&server, &mut client, 60);
    let mut refused = server.connect_tcp();
    expect_error(&refused.receive(), 1001, None);
    refused.expect_end_or_reset();
    let response = server.connect_http().exchange(&post(2, "fragile"));
    assert_eq!((response.status(), response.head.field("Retry-After")), (503, Some("1")));
    // Those that are open are served, and so are operators.
    assert_eq!(http.exchange(&post(3, "fragile")).status(), 200);
    assert_metric(&server, "corelane_memory_pressure 1");
    assert_metric(&server, "corelane_refused_total{reason=\"memory\"} 2");
    read(&server, &mut client, 55);
    expect_error(&server.connect_tcp().receive(), 1001, None);
    read(&server, &mut client, 54);
    drop(server.connect_initialized(LEGACY));
    drop((client, http));
    assert_eq!(server.close().overload.pressure_steps, 2);
}

#[test]
fn short_memory_refuses_large_messages() {
    let server = start(guarded(), &Failure::default());
    server.open_gate();
    let mut client = server.connect_initialized(LEGACY);
    let mut other = server.connect_initialized(LEGACY);
    let mut http = server.connect_http();
    let large = Request::modern(&modern(padded(1, 5_000)));
    assert_eq!(http.exchange(&large).status(), 200);
    assert_eq!(result_text(&client.exchange(padded(1, 5_000))), "waited");
    read(&server, &mut client, 70);
    assert_eq!(http.exchange(&large).status(), 413);
    expect_error(&client.exchange(padded(2, 5_000)), -32012, Some(json!(2)));
    assert_eq!(result_text(&other.exchange(padded(3, 1_000))), "waited");
    read(&server, &mut other, 10);
    assert_eq!(result_text(&other.exchange(padded(4, 5_000))), "waited");
    drop((client, other, http));
    server.close();
}

#[test]
fn short_memory_ends_streams_with_results() {
    let server = start(guarded(), &Failure::default());
    let mut client = server.connect_initialized(LEGACY);
    let mut listener = server.connect_tcp();
    listener.send(listen(1, json!({"toolsListChanged": true})));
    assert_eq!(listener.receive()["method"], "notifications/subscriptions/acknowledged");
    read(&server, &mut client, 80);
    let end = listener.receive();
    assert_eq!(end["id"], 1);
    assert!(end["result"].is_object(), "{end}");
    let refused = listener.exchange(listen(2, json!({"toolsListChanged": true})));
    expect_error(&refused, -32603, Some(json!(2)));
    read(&server, &mut client, 10);
    listener.send(listen(3, json!({"toolsListChanged": true})));
    assert_eq!(listener.receive()["method"], "notifications/subscriptions/acknowledged");
    drop((client, listener));
    assert_eq!(server.close().overload.streams_shed, 1);
}

#[test]
fn short_memory_closes_largest_holder() {
    let server = start(guarded(), &Failure::default());
    let mut client = server.connect_initialized(LEGACY);
    let mut large = server.connect_initialized(LEGACY);
    large.send(padded(1, 4_000_000));
    server.next_signal();
    client.send(padded(1, 100));
    server.next_signal();
    let reading = MemoryReading { used_bytes: 90, limit_bytes: 100, stalled_percent: 0 };
    server.handle().apply_memory_reading(&reading);
    expect_error(&large.receive(), -32603, None);
    large.expect_end_or_reset();
    server.open_gate();
    assert_eq!(result_text(&client.receive()), "waited");
    drop(client);
    assert_eq!(server.close().connections.closed_memory_limit, 1);
}

#[test]
fn reload_switches_memory_guard_off() {
    let server = start(guarded(), &Failure::default());
    let mut client = server.connect_initialized(LEGACY);
    read(&server, &mut client, 100);
    server.handle().reload_limits(&options(OverloadOptions::default()));
    client.ping();
    drop(server.connect_initialized(LEGACY));
    assert_metric(&server, "corelane_memory_pressure 0");
    // Without steps a reading changes nothing.
    read(&server, &mut client, 100);
    assert_metric(&server, "corelane_memory_pressure 0");
    drop(client);
    server.close();
}
