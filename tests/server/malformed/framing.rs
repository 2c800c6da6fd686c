//! Line framing: responses are independent of how the bytes are split and lines are terminated.

use corelane_test_support::messages::{
    LEGACY, call, echo, initialize, join_lines, modern, notification, request_without_params,
    result_text,
};
use corelane_test_support::{LineClient, TestServer, over_each_ring, tcp_options};
use serde_json::json;

/// Valid and invalid lines with every terminator, escapes and multi-byte characters.
fn session_bytes() -> Vec<u8> {
    let lines: [(String, &str); 12] = [
        (initialize(1, "2025-03-26").to_string(), "\n"),
        (notification("notifications/initialized").to_string(), "\r\n"),
        (echo("ü", "é€😀 \" \\ \n").to_string(), "\r\n"),
        (r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#.to_owned(), "\n\n\r\n\r"),
        (r#"{"jsonrpc":"2.0","id":"#.to_owned(), "\n"),
        ("{}".to_owned(), "\r\n"),
        (request_without_params(3, "nope").to_string(), "\n"),
        (echo(4, r"\u0041").to_string().replace(r"\\u", r"\u"), "\r\r\n"),
        (format!("[{},{}]", request_without_params(5, "ping"), echo(6, "x")), "\r\n"),
        (modern(echo(7, "modern")).to_string(), "\n"),
        (format!("  \t {} \t ", request_without_params(8, "ping")), "\n"),
        (call(9, "add", json!({"a": 0.5, "b": 1e3})).to_string(), "\n"),
    ];
    let mut bytes = Vec::new();
    for (line, terminator) in lines {
        bytes.extend_from_slice(line.as_bytes());
        bytes.extend_from_slice(terminator.as_bytes());
    }
    // A line of invalid UTF-8.
    bytes.extend_from_slice(b"\"\xc3(\"\n");
    bytes
}

/// Sends `parts` and returns all responses. `other` pings the same shard between two parts, so that
/// each part is read on its own.
fn send_parts(server: &TestServer, other: &mut LineClient, parts: &[&[u8]]) -> Vec<u8> {
    let mut client = server.connect_tcp();
    for part in parts {
        client.send_bytes(part);
        other.ping();
    }
    client.shutdown_write();
    client.receive_rest_bytes()
}

#[test]
fn responses_are_independent_of_split_position() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut other = server.connect_tcp();
        let bytes = session_bytes();
        let whole = send_parts(&server, &mut other, &[&bytes]);
        assert_eq!(
            whole.split(|&byte| byte == b'\n').count(),
            12 + 1,
            "{}",
            String::from_utf8_lossy(&whole)
        );
        for split in 1..bytes.len() {
            let (first, second) = bytes.split_at(split);
            let cut = send_parts(&server, &mut other, &[first, second]);
            assert!(cut == whole, "split at {split}: {}", String::from_utf8_lossy(&cut));
        }
        drop(other);
        server.close();
    });
}

#[test]
fn responses_are_equal_for_single_byte_input() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut other = server.connect_tcp();
        let bytes = session_bytes();
        let whole = send_parts(&server, &mut other, &[&bytes]);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert!(send_parts(&server, &mut other, &single) == whole);
        drop(other);
        server.close();
    });
}

#[test]
fn responses_are_equal_with_small_receive_buffers() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options.clone());
        let mut other = server.connect_tcp();
        let bytes = session_bytes().repeat(20);
        let whole = send_parts(&server, &mut other, &[&bytes]);
        drop(other);
        server.close();

        let mut narrow = options;
        narrow.engine.ring_sizes.receive_buffers = 2;
        narrow.engine.ring_sizes.receive_buffer_bytes = 16;
        let server = TestServer::start(narrow);
        let mut other = server.connect_tcp();
        assert!(send_parts(&server, &mut other, &[&bytes]) == whole);
        drop(other);
        server.close();
    });
}

#[test]
fn empty_lines_between_terminators_are_ignored() {
    let server = TestServer::start(tcp_options());
    for terminator in ["\n", "\r\n", "\n\n\n", "\r\r\n", "\n\r", "\r\n\r\n", "\n \t\n"] {
        let mut client = server.connect_tcp();
        client.send_bytes(b"\n\r\n\r \t\n\r");
        for id in 0..3 {
            client.send_bytes(
                format!("{}{terminator}", request_without_params(id, "ping")).as_bytes(),
            );
            assert_eq!(client.receive()["id"], id);
        }
        client.ping();
    }
    server.close();
}

#[test]
fn echoed_newlines_are_escaped_in_response() {
    let server = TestServer::start(tcp_options());
    let mut client = server.connect_initialized(LEGACY);
    let message = "a\nb\r\nc\rd\u{2028}e\u{0}f\u{1b}g\u{85}";
    client.send(echo(1, message));
    let line = client.receive_line().expect("response");
    assert!(!line.bytes().any(|byte| byte < b' '), "{line:?}");
    let response = serde_json::from_str(&line).expect("JSON");
    assert_eq!(result_text(&response), message);
    drop(client);
    server.close();
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    over_each_ring(tcp_options(), |options| {
        let server = TestServer::start(options);
        let mut client = server.connect_initialized(LEGACY);
        let requests = join_lines((0..1000).map(|id| echo(id, &format!("message {id}"))));
        client.send_bytes(requests.as_bytes());
        for id in 0..1000 {
            let response = client.receive();
            assert_eq!(response["id"], id);
            assert_eq!(result_text(&response), format!("message {id}"));
        }
        client.shutdown_write();
        client.expect_end();
        drop(client);
        let counters = server.close();
        assert_eq!(counters.requests.tools_call, 1000, "{counters}");
    });
}

#[test]
fn exhausted_ring_answers_all_connections_in_order() {
    over_each_ring(tcp_options(), |mut options| {
        options.engine.ring_sizes.submissions_max = 4;
        options.engine.ring_sizes.completions_max = 8;
        options.engine.ring_sizes.receive_buffers = 4;
        options.engine.ring_sizes.receive_buffer_bytes = 128;
        let server = TestServer::start(options);
        let mut clients: Vec<LineClient> =
            (0..32).map(|_| server.connect_initialized(LEGACY)).collect();
        let requests = join_lines((0..100).map(|id| echo(id, "small")));
        for client in &mut clients {
            client.send_bytes(requests.as_bytes());
        }
        for client in &mut clients {
            for id in 0..100 {
                assert_eq!(client.receive()["id"], id);
            }
        }
        drop(clients);
        server.close();
    });
}
