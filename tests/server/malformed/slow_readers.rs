//! Peers that send requests and do not read the responses.

use std::io::{ErrorKind, Write};
use std::net::TcpStream;
use std::time::Duration;

use corelane::Options;
use corelane_test_support::messages::{
    LEGACY, call, cancelled, echo, endless, expect_error, join_lines, result_text,
};
use corelane_test_support::{LineClient, TIMEOUT, TestServer, over_each_ring, tcp_options};
use serde_json::{Value, json};

/// Responses per slow reader.
const RESPONSES: usize = 1000;

/// Message bytes of each response.
const MESSAGE_BYTES: usize = 4096;

/// Small buffers, so that backpressure starts early.
fn with_small_buffers(mut options: Options) -> Options {
    options.limits.outgoing_bytes_max = 16 << 10;
    options.tcp.send_buffer_bytes = 16 << 10;
    options.tcp.receive_buffer_bytes = 16 << 10;
    options
}

/// Writes without reading until the server stops reading, and returns the bytes written. A write
/// that blocks for 200 ms means the queue is full.
fn write_until_blocked(mut stream: &TcpStream, bytes: &[u8]) -> usize {
    stream.set_write_timeout(Some(Duration::from_millis(200))).expect("write timeout is set");
    let mut sent = 0;
    while sent < bytes.len() {
        match stream.write(&bytes[sent..]) {
            Ok(length) => sent += length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                break;
            }
            Err(error) => panic!("write failed: {error}"),
        }
    }
    stream.set_write_timeout(Some(TIMEOUT)).expect("write timeout is set");
    sent
}

#[test]
fn backpressure_pauses_only_slow_reader() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(with_small_buffers(options));
        let mut other = server.connect_initialized(LEGACY);
        let mut client = LineClient::connect_with_buffers(server.address(), 16 << 10);
        client.handshake(LEGACY);
        let message = "x".repeat(MESSAGE_BYTES);
        let requests = join_lines((0..RESPONSES).map(|id| echo(id, &message)));
        let requests = requests.as_bytes();

        let sent = write_until_blocked(client.socket(), requests);
        assert!(sent < requests.len() / 4, "{sent} bytes were accepted from a slow reader");
        for id in 0..100 {
            assert_eq!(result_text(&other.exchange(echo(id, "unaffected"))), "unaffected");
        }

        // Once the peer reads, it gets every response once and in order.
        let mut writer = client.socket().try_clone().expect("socket is cloned");
        std::thread::scope(|scope| {
            scope.spawn(move || writer.write_all(&requests[sent..]).expect("server reads"));
            for id in 0..RESPONSES {
                let response = client.receive();
                assert_eq!(response["id"], id);
                assert_eq!(result_text(&response).len(), MESSAGE_BYTES);
            }
        });
        client.shutdown_write();
        client.expect_end();
        drop((client, other));
        let counters = server.close();
        assert!(counters.traffic.read_pauses > 0, "{counters}");
        assert_eq!(counters.requests.tools_call, RESPONSES as u64 + 100, "{counters}");
    });
}

#[test]
fn closed_slow_reader_frees_its_connection_slot() {
    over_each_ring(tcp_options(), |options| {
        let mut options = with_small_buffers(options);
        options.tcp.connections_max = 1;
        let server = TestServer::start(options);
        let message = "x".repeat(MESSAGE_BYTES);
        let requests = join_lines((0..RESPONSES).map(|id| echo(id, &message)));
        for resets in [true, false] {
            let mut client = server.connect_accepted();
            client.handshake(LEGACY);
            write_until_blocked(client.socket(), requests.as_bytes());
            if resets {
                client.reset();
            } else {
                drop(client);
            }
        }
        drop(server.connect_accepted());
        let counters = server.close();
        assert!(counters.traffic.read_pauses > 0, "{counters}");
    });
}

#[test]
fn call_over_in_flight_limit_is_rejected() {
    over_each_ring(tcp_options(), |mut options| {
        options.limits.requests_in_flight_max = 4;
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        client.send_bytes(join_lines((0..4).map(endless)).as_bytes());
        for id in 4..10 {
            let response = client.exchange(endless(id));
            expect_error(&response, -32603, Some(json!(id)));
        }
        // An immediate response needs no slot; a cancellation frees one.
        assert_eq!(result_text(&client.exchange(echo(10, "at once"))), "at once");
        client.send(cancelled(2));
        let response = client.exchange(call(11, "slow", json!({"steps": 1, "step_ms": 1})));
        assert!(response.get("result").is_some(), "{response}");
        client.send_bytes(join_lines([0, 1, 3].map(cancelled)).as_bytes());
        client.ping();
        drop(client);
        let counters = server.close();
        assert_eq!(counters.requests.refused_in_flight, 6, "{counters}");
        assert_eq!(
            (counters.requests.cancelled, counters.traffic.read_pauses),
            (4, 0),
            "{counters}"
        );
    });
}

#[test]
fn unread_progress_is_dropped_but_response_is_not() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.half_close_timeout = TIMEOUT;
        let server = TestServer::start(with_small_buffers(options));
        let mut client = LineClient::connect_with_buffers(server.address(), 16 << 10);
        client.handshake(LEGACY);
        let requests = join_lines((0..200).map(|id| {
            let mut text = call(id, "slow", json!({"steps": 1000, "step_ms": 0}));
            text["params"]["_meta"] = json!({"progressToken": id});
            text
        }));
        write_until_blocked(client.socket(), requests.as_bytes());
        client.shutdown_write();
        let messages = client.receive_rest();
        let mut responses = vec![0; 200];
        let mut last = vec![0.0; 200];
        for message in &messages {
            let count = |value: &Value| usize::try_from(value.as_u64().expect("number")).unwrap();
            if message["method"] == "notifications/progress" {
                let token = count(&message["params"]["progressToken"]);
                let progress = message["params"]["progress"].as_f64().expect("number");
                assert!(progress > last[token] && responses[token] == 0, "{message}");
                last[token] = progress;
            } else {
                responses[count(&message["id"])] += 1;
            }
        }
        assert_eq!(responses, vec![1; 200]);
        drop(client);
        let counters = server.close();
        assert!(counters.requests.progress_notifications < 100_000, "{counters}");
    });
}
