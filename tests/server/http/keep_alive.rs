//! Persistent connections, pipelined requests and all forms of request bodies.

use corelane_test_support::messages::{call, echo, modern, result_text};
use corelane_test_support::{Request, TestServer, http_options, over_each_ring};
use serde_json::json;

#[test]
fn persistent_connection_serves_many_requests() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        for number in 0..100 {
            let message = format!("number {number}");
            let response = client.exchange(&Request::modern(&modern(echo(number, &message))));
            assert_eq!(result_text(&response.message()), message);
            assert!(!response.head.closes_connection(), "{response:?}");
        }
        drop(client);
        let counters = server.close();
        assert_eq!(counters.connections.accepted, 1, "{counters}");
        assert_eq!(counters.traffic.sends, 100, "one send for each response: {counters}");
    });
}

#[test]
fn pipelined_requests_are_answered_in_one_send() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        let mut pipelined = Vec::new();
        for number in 0..8 {
            let request = Request::modern(&modern(echo(number, "hi")));
            client.register_request(&request);
            pipelined.extend(request.bytes());
        }
        client.send_bytes(&pipelined);
        for number in 0..8 {
            assert_eq!(client.read_response().message()["id"], number);
        }
        drop(client);
        let counters = server.close();
        assert_eq!(counters.traffic.sends, 1, "{counters}");
    });
}

#[test]
fn pipelined_request_waits_for_slow_response() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        let slow = modern(call("slow", "hold", json!({})));
        let requests = [
            Request::modern(&modern(echo("first", "1"))),
            Request::modern(&slow),
            Request::modern(&modern(echo("last", "2"))),
            Request::new("GET", "/healthz"),
        ];
        for request in &requests {
            client.send(request);
        }
        assert_eq!(client.read_response().message()["id"], "first");
        assert_eq!(server.next_signal(), "begun");
        server.open_gate();
        assert_eq!(result_text(&client.read_response().message()), "held");
        assert_eq!(client.read_response().message()["id"], "last");
        assert_eq!(client.read_response().status(), 200);
        drop(client);
        server.close();
    });
}

#[test]
fn chunked_body_is_accepted() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        for chunk_bytes in [1, 7, 64, 10_000] {
            let message = "x".repeat(5_000);
            let request = Request::modern(&modern(echo(1, &message))).chunked(chunk_bytes);
            assert_eq!(result_text(&client.exchange(&request).message()), message);
        }
        drop(client);
        server.close();
    });
}

#[test]
fn request_split_at_any_byte_is_accepted() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let request = Request::modern(&modern(echo(1, "cut"))).chunked(50);
    let bytes = request.bytes();
    for cut in 1..bytes.len() {
        client.register_request(&request);
        client.send_bytes(&bytes[..cut]);
        client.send_bytes(&bytes[cut..]);
        assert_eq!(result_text(&client.read_response().message()), "cut");
    }
    drop(client);
    server.close();
}

#[test]
fn expect_continue_gets_100() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        let request = Request::modern(&modern(echo(1, "at last"))).field("Expect", "100-continue");
        for _ in 0..2 {
            let [head, body] = request.head_and_body();
            client.register_request(&request);
            client.send_bytes(&head);
            assert_eq!(client.read_head().status, 100);
            client.send_bytes(&body);
            assert_eq!(result_text(&client.read_response().message()), "at last");
        }
        // The body arrived with the head: no 100 response is sent.
        assert_eq!(result_text(&client.exchange(&request).message()), "at last");
        drop(client);
        server.close();
    });
}

#[test]
fn expect_continue_on_invalid_head_gets_final_status() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut client = server.connect_http();
        let request = Request::modern(&modern(echo(1, "never")))
            .field("Expect", "100-continue")
            .field("Content-Type", "text/plain");
        client.send_bytes(&request.head_and_body()[0]);
        let response = client.read_response();
        response.expect_error(415, -32600, None);
        // The server cannot know whether the body will follow.
        assert!(response.head.closes_connection(), "{response:?}");
        client.expect_eof_or_reset();
        drop(client);
        server.close();
    });
}

#[test]
fn connection_close_or_http_1_0_closes_connection() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let request = Request::modern(&modern(echo(1, "once")));
        for request in [request.clone().field("Connection", "close"), request.http_1_0()] {
            let mut client = server.connect_http();
            let response = client.exchange(&request);
            assert_eq!(result_text(&response.message()), "once");
            assert!(response.head.closes_connection(), "{response:?}");
            client.expect_eof();
        }
        let counters = server.close();
        assert_eq!(counters.traffic.sends, 2, "{counters}");
    });
}

#[test]
fn head_request_gets_fields_of_get() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    for path in ["/", "/healthz", "/readyz", "/status"] {
        let whole = client.exchange(&Request::new("GET", path));
        let head = client.exchange(&Request::new("HEAD", path));
        assert_eq!((whole.status(), head.status()), (200, 200), "{path}");
        for field in ["Content-Type", "Content-Length", "Content-Security-Policy"] {
            assert_eq!(whole.head.field(field), head.head.field(field), "{path}");
        }
        assert_eq!(whole.head.field("Content-Length"), Some(&*whole.body.len().to_string()));
        client.expect_alive();
    }
    drop(client);
    server.close();
}

#[test]
fn options_request_lists_allowed_methods() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    for (path, methods) in [
        ("/mcp", "POST, GET, DELETE, OPTIONS"),
        ("*", "POST, GET, DELETE, OPTIONS"),
        ("/", "GET, HEAD, OPTIONS"),
        ("/healthz", "GET, HEAD, OPTIONS"),
        ("/readyz", "GET, HEAD, OPTIONS"),
        ("/status", "GET, HEAD, OPTIONS"),
    ] {
        let response = client.exchange(&Request::new("OPTIONS", path));
        response.expect_empty_body(204);
        assert_eq!(response.head.field("Allow"), Some(methods), "{path}");
        if path != "*" {
            let response = client.exchange(&Request::new("PATCH", path).body("{}"));
            response.expect_error(405, -32600, None);
        }
    }
    client.exchange(&Request::new("GET", "/nowhere")).expect_error(404, -32600, None);
    client.expect_alive();
    drop(client);
    server.close();
}

#[test]
fn request_target_variants_are_accepted() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    for target in ["/mcp/", "/mcp?x=y", "http://localhost/mcp"] {
        let request = Request::modern(&modern(echo(1, "here"))).target(target);
        assert_eq!(result_text(&client.exchange(&request).message()), "here", "{target}");
    }
    drop(client);
    server.close();
}
