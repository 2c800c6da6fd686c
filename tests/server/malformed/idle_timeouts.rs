//! Idle and slow peers: first-message timeout, idle timeout, slowloris.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use corelane_test_support::messages::{LEGACY, call, echo};
use corelane_test_support::{LineClient, TestServer, over_each_ring, tcp_options};
use serde_json::json;

/// Pause between two bytes of a slow sender.
const BYTE_INTERVAL: Duration = Duration::from_millis(5);

/// Sends single bytes without a newline until the server closes the connection.
fn send_slowly(client: &LineClient) {
    let mut stream = client.socket();
    stream.set_read_timeout(Some(BYTE_INTERVAL)).expect("read timeout is set");
    for _ in 0..4000 {
        if stream.write_all(b"x").is_err() {
            return;
        }
        match stream.read(&mut [0]) {
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Ok(0) | Err(_) => return,
            Ok(_) => panic!("the server responded to an incomplete line"),
        }
    }
    panic!("the server kept a slow connection open");
}

#[test]
fn incomplete_first_message_times_out() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.first_message_timeout = Duration::from_millis(100);
        let server = TestServer::start(options);
        let mut other = server.connect_initialized(LEGACY);
        send_slowly(&server.connect_tcp());
        // The first-message timeout no longer applies after the first message.
        other.ping();
        drop(other);
        let counters = server.close();
        assert_eq!(counters.connections.closed_message_timeout, 1, "{counters}");
        assert_eq!(counters.connections.closed_idle_timeout, 0, "{counters}");
    });
}

#[test]
fn connection_without_message_times_out() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.first_message_timeout = Duration::from_millis(50);
        let server = TestServer::start(options);
        let mut clients: Vec<LineClient> = (0..20).map(|_| server.connect_tcp()).collect();
        clients.iter_mut().for_each(LineClient::expect_end);
        drop(clients);
        let counters = server.close();
        assert_eq!(counters.connections.closed_message_timeout, 20, "{counters}");
    });
}

#[test]
fn invalid_messages_do_not_extend_first_message_timeout() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.first_message_timeout = Duration::from_millis(50);
        let server = TestServer::start(options);
        for text in ["{", "7", "[]", "[1]", "{}", r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#] {
            let mut client = server.connect_tcp();
            // Each gets an error, until the connection is closed or reset.
            while client.try_send(text).is_ok()
                && let Some(line) = client.receive_line_or_reset()
            {
                assert!(line.contains("error"), "{line}");
            }
        }
        let counters = server.close();
        assert_eq!(counters.connections.closed_message_timeout, 6, "{counters}");
    });
}

#[test]
fn valid_message_after_invalid_ones_is_first_message() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.first_message_timeout = Duration::from_secs(1);
        let server = TestServer::start(options);
        let mut client = server.connect_tcp();
        for _ in 0..10 {
            assert!(client.exchange("{").get("error").is_some());
        }
        client.handshake(LEGACY);
        for _ in 0..20 {
            assert!(client.exchange("{").get("error").is_some());
        }
        // Takes longer than the timeout.
        let response = client.exchange(call(1, "slow", json!({"steps": 1, "step_ms": 1200})));
        assert_eq!(response["id"], 1, "{response}");
        client.ping();
        drop(client);
        let counters = server.close();
        assert_eq!(counters.connections.closed_message_timeout, 0, "{counters}");
    });
}

#[test]
fn incomplete_message_does_not_reset_idle_timeout() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.idle_timeout = Duration::from_millis(100);
        let server = TestServer::start(options);
        send_slowly(&server.connect_initialized(LEGACY));
        let counters = server.close();
        assert_eq!(counters.connections.closed_idle_timeout, 1, "{counters}");
    });
}

#[test]
fn idle_connection_is_closed() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.idle_timeout = Duration::from_millis(100);
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        client.expect_end();
        drop(client);
        let counters = server.close();
        assert_eq!(counters.connections.closed_idle_timeout, 1, "{counters}");
    });
}

#[test]
fn pending_call_suspends_idle_timeout() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.idle_timeout = Duration::from_millis(50);
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        let response = client.exchange(call(1, "slow", json!({"steps": 1, "step_ms": 250})));
        assert_eq!(response["id"], 1, "{response}");
        // The idle timeout starts now.
        client.expect_end();
        drop(client);
        let counters = server.close();
        assert_eq!(counters.connections.closed_idle_timeout, 1, "{counters}");
    });
}

#[test]
fn unread_responses_do_not_suspend_idle_timeout() {
    over_each_ring(tcp_options(), |mut options| {
        options.tcp.idle_timeout = Duration::from_millis(200);
        options.tcp.connections_max = 1;
        options.tcp.send_buffer_bytes = 4 << 10;
        let server = TestServer::start(options);
        let mut client = LineClient::connect_with_buffers(server.address(), 4 << 10);
        client.handshake(LEGACY);
        client.send(echo(1, &"x".repeat(64 << 10)));
        // Its slot is freed although the peer neither reads nor closes.
        drop(server.connect_accepted());
        drop(client);
        let counters = server.close();
        assert!(counters.connections.closed_idle_timeout >= 1, "{counters}");
    });
}
