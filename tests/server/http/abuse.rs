//! Misbehaving clients: incomplete heads and bodies, malformed HTTP, clients that do not read, and
//! thousands of connections and sessions.

use std::time::Duration;

use corelane_test_support::messages::{
    LEGACY, call, echo, expect_error, initialize_with_elicitation, modern, result_text,
    with_progress,
};
use corelane_test_support::{
    HttpClient, Request, TestServer, http_options, on_one_shard_and_two, over_each_ring,
};
use serde_json::json;

use crate::http::http_session::HttpSession;

#[test]
fn incomplete_request_closes_connection_after_first_message_timeout() {
    over_each_ring(http_options(), |mut options| {
        options.tcp.first_message_timeout = Duration::from_millis(30);
        let server = TestServer::with_test_tools(options);
        let good = Request::modern(&modern(echo(1, "hi")));
        let [head, body] = good.head_and_body();
        let chunked = good.clone().chunked(16).bytes();
        let unfinished: [&[u8]; 6] = [
            b"",
            b"P",
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
            &head,
            &[&head[..], &body[..body.len() - 1]].concat(),
            &chunked[..chunked.len() - 2],
        ];
        let mut closed = 0;
        for bytes in unfinished {
            let mut client = server.connect_http();
            client.send_bytes(bytes);
            client.expect_eof_or_reset();
            closed += 1;
            if bytes.is_empty() {
                continue;
            }
            // The same after a valid request.
            let mut client = server.connect_http();
            assert_eq!(result_text(&client.exchange(&good).message()), "hi");
            client.send_bytes(bytes);
            client.expect_eof_or_reset();
            closed += 1;
        }
        let counters = server.close();
        assert_eq!(counters.connections.closed_message_timeout, closed, "{counters}");
    });
}

#[test]
fn refused_requests_do_not_extend_first_message_timeout() {
    on_one_shard_and_two(|mut options| {
        options.tcp.first_message_timeout = Duration::from_millis(50);
        let server = TestServer::with_test_tools(options);
        let refused = [
            Request::new("GET", "/nowhere"),
            Request::new("GET", "/mcp"),
            Request::new("GET", "/mcp/ws"),
            Request::modern(&modern(echo(1, "hi"))).body("{"),
            Request::modern(&modern(echo(1, "hi"))).body("[]"),
            Request::modern(&modern(echo(1, "hi"))).body("{}"),
            Request::post(echo(1, "hi")).field("Mcp-Session-Id", "0".repeat(36)),
        ];
        let count = refused.len() as u64;
        for request in refused {
            let mut client = server.connect_http();
            while let Some(status) = client.try_exchange(&request) {
                assert!((400..500).contains(&status), "{status}: {request:?}");
            }
        }
        let counters = server.close();
        assert_eq!(counters.connections.closed_message_timeout, count, "{counters}");
    });
}

#[test]
fn malformed_http_gets_error_and_closes() {
    over_each_ring(http_options(), |mut options| {
        options.http.head_bytes_max = 4_096;
        let server = TestServer::with_test_tools(options);
        let line = "POST /mcp HTTP/1.1\r\nHost: localhost\r\n";
        let long = "x".repeat(5_000);
        let json = modern(echo(1, "smuggled")).to_string();
        let head = |fields: &str| format!("{line}{fields}\r\n\r\n{json}");
        let many = "X-Many: x\r\n".repeat(100);
        for (bytes, status) in [
            (format!("{json}\n"), 400),
            ("\x16\x03\x01\x02\x00\x01\x00\x01\u{fc}\x03\x03".to_owned(), 400),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 505),
            ("GET / HTTP/3.0\r\nHost: localhost\r\n\r\n".to_owned(), 505),
            ("GET /\r\n\r\n".to_owned(), 400),
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), 400),
            (head("Content-Length: 5\r\nTransfer-Encoding: chunked"), 400),
            (head("Content-Length: 5\r\nContent-Length: 6"), 400),
            (head("Content-Length: -5"), 400),
            (head("Content-Length: +5"), 400),
            (head("Content-Length: 5, 6"), 400),
            (head("Content-Length: 99999999999999999999999"), 413),
            (head("Transfer-Encoding: chunked, chunked"), 400),
            (head("Transfer-Encoding: gzip, chunked"), 501),
            (head("Transfer-Encoding: xchunked"), 501),
            (head("Transfer-Encoding : chunked"), 400),
            (head("X-Folded: a\r\n b: c"), 400),
            (head("X-Null: \0"), 400),
            (head("Host: evil.example"), 400),
            (head("Expect: 200-ok"), 417),
            (format!("{line}X-Long: {long}\r\n\r\n"), 431),
            (format!("{line}{many}\r\n"), 431),
            (format!("GET /{long} HTTP/1.1\r\nHost: localhost\r\n\r\n"), 414),
            (head("Transfer-Encoding: chunked"), 400),
            (format!("{line}Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"), 413),
        ] {
            let mut client = server.connect_http();
            client.send_bytes(bytes.as_bytes());
            let response = client.read_response();
            let shown: String = bytes.chars().take(120).collect();
            assert_eq!(response.status(), status, "{shown:?}: {response:?}");
            assert!(response.head.closes_connection(), "{shown:?}");
            expect_error(&response.message(), if status == 413 { -32012 } else { -32600 }, None);
            client.expect_eof_or_reset();
        }
        let counters = server.close();
        assert_eq!(counters.traffic.messages_in, 0, "a message was smuggled: {counters}");
    });
}

#[test]
fn pipelined_requests_before_malformed_one_are_answered() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        let good = Request::modern(&modern(echo(1, "whole")));
        let mut pipelined = good.bytes();
        pipelined.extend(good.bytes());
        pipelined.extend(b"nonsense\r\n\r\n");
        pipelined.extend(good.bytes());
        client.send_bytes(&pipelined);
        for _ in 0..2 {
            client.register_request(&good);
            assert_eq!(result_text(&client.read_response().message()), "whole");
        }
        assert_eq!(client.read_response().status(), 400);
        client.expect_eof_or_reset();
        drop(client);
        let counters = server.close();
        assert_eq!(counters.requests.tools_call, 2, "{counters}");
    });
}

#[test]
fn oversized_body_gets_413() {
    over_each_ring(http_options(), |mut options| {
        options.limits.message_bytes_max = 10_000;
        let server = TestServer::with_test_tools(options);
        let large = Request::modern(&modern(echo(1, &"x".repeat(20_000))));
        for request in [large.clone(), large.chunked(1_000)] {
            let mut client = server.connect_http();
            client.send_bytes(&request.bytes());
            client.read_response().expect_error(413, -32012, None);
            client.expect_eof_or_reset();
        }
        server.close();
    });
}

#[test]
fn connection_beyond_limit_gets_503_with_retry_after() {
    over_each_ring(http_options(), |mut options| {
        options.http.connections_max = 2;
        let server = TestServer::with_test_tools(options);
        let mut clients = [server.connect_http(), server.connect_http()];
        clients.iter_mut().for_each(HttpClient::expect_alive);
        let mut third = server.connect_http();
        let response = third.exchange(&Request::new("GET", "/status"));
        assert_eq!(response.status(), 503, "{response:?}");
        assert!(
            response.head.closes_connection() && response.head.field("Retry-After").is_some(),
            "{response:?}"
        );
        expect_error(&response.message(), 1001, None);
        third.expect_eof_or_reset();
        clients.iter_mut().for_each(HttpClient::expect_alive);
        drop((clients, third));
        let counters = server.close();
        assert_eq!(counters.connections.refused_limit, 1, "{counters}");
    });
}

#[test]
fn slow_stream_reader_loses_progress_but_not_response() {
    over_each_ring(http_options(), |mut options| {
        options.limits.outgoing_bytes_max = 2_000;
        options.tcp.send_buffer_bytes = 4 << 10;
        let server = TestServer::with_test_tools(options);
        let mut client = HttpClient::connect_with_buffers(server.address(), 4 << 10);
        let request = with_progress(modern(call(1, "slow", json!({"steps": 1_000, "step_ms": 0}))));
        client.send(&Request::modern(&request));
        // Other clients are served meanwhile.
        let mut other = server.connect_http();
        for _ in 0..200 {
            other.expect_alive();
        }
        client.read_stream_head();
        let mut messages = client.read_stream_to_end();
        assert_eq!(result_text(&messages.pop().expect("no response")), "took 1000 steps of 0 ms");
        let steps: Vec<_> =
            messages.iter().filter_map(|it| it["params"]["progress"].as_f64()).collect();
        assert!(steps.is_sorted() && steps.len() < 1_000, "{}", steps.len());
        client.expect_alive();
        drop((client, other));
        server.close();
    });
}

#[test]
fn slow_session_reader_is_disconnected_and_can_resume() {
    over_each_ring(http_options(), |mut options| {
        options.limits.outgoing_bytes_max = 4_000;
        options.tcp.send_buffer_bytes = 4 << 10;
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut client =
            HttpClient::connect_with_buffers(server.address(), 4 << 10).with_revision(LEGACY);
        let slow = call(1, "slow", json!({"steps": 300, "step_ms": 1}));
        client.request_stream(&session.post(&with_progress(slow)));
        let first = client.read_priming_event();
        server.wait_for_connections(0);
        let mut again = session.connect();
        again.request_stream(&session.resume(&first));
        let messages = again.read_stream_to_end();
        let response = messages.last().expect("no response");
        assert_eq!(result_text(response), "took 300 steps of 1 ms");
        assert!(messages.len() < 300, "the replay buffer is bounded");
        drop((client, again));
        let counters = server.close();
        assert_eq!(counters.connections.closed_protocol_violation, 1, "{counters}");
    });
}

#[test]
fn abandoned_session_calls_are_limited() {
    over_each_ring(http_options(), |mut options| {
        options.limits.requests_in_flight_max = 16;
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        let mut begun = 0;
        for number in 0..100 {
            let mut client = session.connect();
            let request = with_progress(call(number, "until-cancelled", json!({})));
            client.send(&session.post(&request));
            let head = client.read_head();
            if head.status == 200 {
                client.start_stream(&head);
                begun += 1;
                assert_eq!(server.next_signal(), "begun");
                client.reset();
            } else {
                assert_eq!((head.status, head.field("Retry-After")), (503, Some("1")));
                client.discard_body(head);
            }
        }
        assert_eq!(begun, 16);
        session.connect().exchange(&session.delete()).expect_empty_body(204);
        for _ in 0..16 {
            assert_eq!(server.next_signal(), "cancelled");
        }
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 16, "{counters}");
    });
}

#[test]
fn abandoned_response_is_sent_on_no_other_stream() {
    over_each_ring(http_options(), |mut options| {
        options.limits.requests_in_flight_max = 1;
        options.tcp.send_buffer_bytes = 4 << 10;
        let server = TestServer::with_test_tools(options);
        let session = HttpSession::initialize(server.address(), LEGACY);
        // The unread end of this stream takes the only place.
        let mut slow =
            HttpClient::connect_with_buffers(server.address(), 4 << 10).with_revision(LEGACY);
        let request = call("slow", "slow", json!({"steps": 1_000, "step_ms": 0}));
        slow.send(&session.post(&with_progress(request)));
        let is_free = || {
            let response =
                session.connect().exchange(&session.post(&echo("slow", "free"))).message();
            response.get("result").is_some()
        };
        while !is_free() {}
        let mut refused = session.connect();
        refused.send(&session.post(&call("refused", "hold", json!({}))));
        assert_eq!(server.next_signal(), "begun");
        slow.read_stream_head();
        assert!(slow.read_stream_to_end().len() > 1);
        server.open_gate();
        // The call succeeds if the kernel took the whole stream.
        let head = refused.read_head();
        assert!(matches!(head.status, 200 | 503), "{head:?}");
        refused.discard_body(head);
        let mut client = session.connect();
        let response = loop {
            let request = call("mine", "slow", json!({"steps": 20, "step_ms": 1}));
            client.send(&session.post(&request));
            let head = client.read_head();
            if head.status == 200 {
                break client.read_body(head).message();
            }
            client.discard_body(head);
        };
        assert_eq!(
            (&response["id"], result_text(&response)),
            (&json!("mine"), "took 20 steps of 1 ms")
        );
        drop((slow, refused, client));
        server.close();
    });
}

#[test]
fn abandoned_sessions_are_evicted() {
    let mut options = http_options();
    options.http.sessions_max = 100;
    let server = TestServer::with_test_tools(options);
    let mut client = server.connect_http().with_revision(LEGACY);
    let request = Request::post(initialize_with_elicitation(1, LEGACY));
    for _ in 0..10_000 / PIPELINED {
        for _ in 0..PIPELINED {
            client.send(&request);
        }
        for _ in 0..PIPELINED {
            let response = client.read_response();
            assert!(response.head.field("Mcp-Session-Id").is_some(), "{response:?}");
        }
    }
    let status = client.exchange(&Request::new("GET", "/status")).message();
    assert_eq!(status["sessions"], 100, "{status}");
    drop(client);
    server.close();
}

/// Requests that are pipelined.
const PIPELINED: usize = 100;

#[test]
fn server_stops_reading_when_client_does_not_read() {
    over_each_ring(http_options(), |mut options| {
        options.limits.outgoing_bytes_max = 10_000;
        options.tcp.send_buffer_bytes = 4 << 10;
        let server = TestServer::with_test_tools(options);
        let mut client = HttpClient::connect_with_buffers(server.address(), 4 << 10);
        let good = Request::modern(&modern(echo(1, &"x".repeat(1_000))));
        let mut sent = 0;
        let mut other = server.connect_http();
        // The server reads this many; more would wait in the kernel.
        for _ in 0..20 {
            client.register_request(&good);
            client.send_bytes(&good.bytes());
            other.expect_alive();
            sent += 1;
        }
        for _ in 0..sent {
            assert_eq!(client.read_response().status(), 200);
        }
        client.expect_alive();
        drop((client, other));
        server.close();
    });
}
