//! SIGTERM and SIGINT while calls take longer than the drain.

use corelane_test_support::messages::{LEGACY, call, echo, expect_error, modern, with_progress};
use corelane_test_support::process::{ExitResult, Signal};
use corelane_test_support::{HttpClient, Request, ServeProcess, WebSocketClient};
use serde_json::{Value, json};

use crate::CORELANE;
use crate::mcp_client::McpClient;

const SHORT_DRAIN: [&str; 2] = ["--drain-timeout", "100"];

/// Returns a call that takes longer than any test.
fn endless_call(id: i64) -> Value {
    call(id, "slow", json!({"steps": 1_000, "step_ms": 60_000}))
}

/// Asserts that a response is the error of a call that the drain has cut.
fn expect_cut(response: &Value, id: i64) {
    expect_error(response, 1001, Some(json!(id)));
    assert_eq!(
        response["error"]["data"],
        json!({"started": true, "retryable": false}),
        "{response}"
    );
}

/// Asserts that the process has ended with the log lines of a drain.
fn expect_drained(ended: &ExitResult, cause: &str, counts: &str) {
    assert_eq!(ended.status, 0, "{}", ended.stderr);
    let started = format!("drain started cause={cause}");
    assert!(ended.stderr.contains(&started), "{}", ended.stderr);
    let last = ended.stderr.lines().last().expect("the drain is logged");
    assert!(last.contains(&format!("drain finished {counts}")), "{}", ended.stderr);
}

#[test]
fn sigterm_answers_cut_tcp_call_with_error() {
    let server = ServeProcess::tcp(CORELANE, &SHORT_DRAIN);
    let mut busy = McpClient::modern(server.connect());
    let (id, _) = busy.start_slow(1_000, 60_000);
    busy.check_echo("the call before this one is in flight");
    server.process.signal(Signal::TERM);
    let response = busy.receive_response(id, "tools/call");
    expect_cut(&response, 1);
    busy.peer.expect_end_or_reset();
    drop(busy);
    expect_drained(&server.process.wait(), "SIGTERM", "served=1 cut=1");
}

#[test]
fn sigint_answers_cut_http_calls_with_error() {
    let arguments = [SHORT_DRAIN.as_slice(), &["--shards", "1"]].concat();
    let server = ServeProcess::http(CORELANE, &arguments);
    let mut silent = HttpClient::connect(server.address);
    silent.exchange(&Request::modern(&modern(echo(0, "served"))));
    // Without a progress token its response is not a stream.
    silent.send(&Request::modern(&modern(endless_call(1))));
    // Its first progress shows that the shard has read both calls.
    let mut streaming = HttpClient::connect(server.address);
    let steps = call(2, "slow", json!({"steps": 1_000, "step_ms": 50}));
    streaming.request_stream(&Request::modern(&with_progress(modern(steps))));
    streaming.read_message_without_id();
    server.process.signal(Signal::INT);
    expect_cut(&silent.read_response().expect_error(503, 1001, Some(json!(1))), 1);
    let rest = streaming.read_stream_to_end();
    expect_cut(rest.last().expect("the stream ends with a response"), 2);
    for client in [&mut silent, &mut streaming] {
        client.expect_eof_or_reset();
    }
    drop((silent, streaming));
    expect_drained(&server.process.wait(), "SIGINT", "served=1 cut=2");
}

#[test]
fn sigterm_answers_cut_websocket_call_with_error() {
    let server = ServeProcess::http(CORELANE, &SHORT_DRAIN);
    let mut client = WebSocketClient::initialize(server.address, LEGACY);
    client.send_message(&endless_call(1));
    client.expect_alive();
    server.process.signal(Signal::TERM);
    expect_cut(&client.read_message(), 1);
    client.expect_close(1001);
    expect_drained(&server.process.wait(), "SIGTERM", "served=1 cut=1");
}

#[test]
fn second_signal_ends_process_at_once() {
    for signals in [[Signal::TERM, Signal::TERM], [Signal::TERM, Signal::INT]] {
        let mut server = ServeProcess::tcp(CORELANE, &["--drain-timeout", "1h"]);
        let mut busy = McpClient::modern(server.connect());
        busy.start_slow(1_000, 60_000);
        busy.check_echo("the call before this one is in flight");
        server.process.signal(signals[0]);
        server.process.wait_for(|line| line.contains("drain started"));
        server.process.signal(signals[1]);
        let ended = server.process.wait();
        assert_eq!(ended.status, 130, "{}", ended.stderr);
        assert!(!ended.stderr.contains("drain finished"), "{}", ended.stderr);
    }
}

#[test]
fn server_accepts_connections_during_drain_delay() {
    let mut server = ServeProcess::http(CORELANE, &["--drain-delay", "1h", "--shards", "1"]);
    server.process.signal(Signal::TERM);
    server.process.wait_for(|line| line.contains("drain started"));
    // The shard may not have received the drain yet.
    let ready =
        || HttpClient::connect(server.address).exchange(&Request::new("GET", "/readyz")).status();
    while ready() == 200 {}
    assert_eq!(ready(), 503);
    server.process.signal(Signal::INT);
    assert_eq!(server.process.wait().status, 130);
}
