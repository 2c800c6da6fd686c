//! Checks of `Host` and `Origin`, and CORS preflight requests.

use corelane::Options;
use corelane_test_support::messages::{echo, modern, result_text};
use corelane_test_support::{HttpClient, Request, TestServer, http_options};

fn echo_request() -> Request {
    Request::modern(&modern(echo(1, "who?")))
}

fn expect_served(client: &mut HttpClient, request: &Request) {
    assert_eq!(result_text(&client.exchange(request).message()), "who?", "{request:?}");
}

/// Asserts a 403 that no page can read, on a connection that stays open.
fn expect_refused(client: &mut HttpClient, request: &Request) {
    let response = client.exchange(request);
    response.expect_error(403, -32600, None);
    assert!(response.head.field("Access-Control-Allow-Origin").is_none(), "{response:?}");
    assert!(!response.head.closes_connection(), "{response:?}");
}

#[test]
fn foreign_host_gets_403() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let hosts = ["localhost:1", "127.0.0.1", "[::1]:80", "LOCALHOST", "localhost.", "localhost:"];
    for host in hosts {
        expect_served(&mut client, &echo_request().field("Host", host));
        // The host of the target takes precedence.
        let target = format!("HTTP://{host}/mcp");
        expect_served(&mut client, &echo_request().target(&target));
        expect_served(&mut client, &echo_request().target(&target).field("Host", "evil.example"));
    }
    expect_refused(&mut client, &echo_request().target("http://evil.example/mcp"));
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1"] {
        expect_refused(&mut client, &echo_request().field("Host", host));
        expect_refused(&mut client, &Request::new("GET", "/status").field("Host", host));
    }
    client.expect_alive();
    drop(client);
    let counters = server.close();
    assert_eq!(counters.input_errors.http, 9, "{counters}");
    assert_eq!(counters.requests.tools_call, 18, "{counters}");
}

#[test]
fn foreign_origin_gets_403() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    for origin in ["http://localhost:6274", "https://127.0.0.1", "http://[::1]:3000"] {
        let request = echo_request().field("Origin", origin);
        let response = client.exchange(&request);
        assert_eq!(result_text(&response.message()), "who?");
        assert_eq!(response.head.field("Access-Control-Allow-Origin"), Some(origin));
        assert_eq!(response.head.field("Vary"), Some("Origin"));
        let exposed = response.head.field("Access-Control-Expose-Headers").unwrap_or_default();
        assert!(exposed.contains("Mcp-Session-Id"), "{response:?}");
    }
    for origin in ["http://evil.example", "null", "http://localhost.evil.example", "nonsense"] {
        expect_refused(&mut client, &echo_request().field("Origin", origin));
    }
    client.expect_alive();
    drop(client);
    server.close();
}

#[test]
fn errors_for_allowed_origin_have_cors_fields() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let origin = "http://localhost:6274";
    let from_page = || echo_request().field("Origin", origin);
    for (request, status) in [
        (from_page().field("Content-Type", "text/plain"), 415),
        (from_page().field("Accept", "text/html"), 406),
        (from_page().field("Mcp-Name", "other"), 400),
        (from_page().body("{"), 400),
        (from_page().target("/nowhere"), 404),
        (from_page().method("PUT"), 405),
        (
            from_page()
                .field("Mcp-Session-Id", "unknown")
                .field("MCP-Protocol-Version", "2025-11-25"),
            404,
        ),
    ] {
        let response = client.exchange(&request);
        assert_eq!(response.status(), status, "{response:?}");
        assert_eq!(response.head.field("Access-Control-Allow-Origin"), Some(origin), "{request:?}");
    }
    drop(client);
    server.close();
}

#[test]
fn framing_errors_for_allowed_origin_have_cors_fields() {
    let mut options = http_options();
    options.limits.message_bytes_max = 1_000;
    options.http.head_bytes_max = 1_000;
    let server = TestServer::with_test_tools(options);
    let origin = "http://localhost:6274";
    let good = || echo_request().field("Origin", origin);
    let chunked = |body: &str| {
        let [head, _] = good().chunked(1).head_and_body();
        [head, body.as_bytes().to_vec()].concat()
    };
    for (bytes, status) in [
        (good().body(vec![b' '; 1_001]).bytes(), 413),
        (good().body(vec![b' '; 1_001]).chunked(100).bytes(), 413),
        (good().field("Expect", "else").bytes(), 417),
        (good().field("X", "x".repeat(1_000)).bytes(), 431),
        (good().field("Transfer-Encoding", "gzip").bytes(), 501),
        (good().method("CONNECT").bytes(), 501),
        (good().add_field("MCP-Protocol-Version", "other").bytes(), 400),
        (good().add_field("Host", "localhost").bytes(), 400),
        (good().field("a b", "c").bytes(), 400),
        (chunked("nonsense\r\n"), 400),
        (chunked("0\r\nA b: c\r\n\r\n"), 400),
    ] {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        for pieces in [bytes.len(), 7] {
            let mut client = server.connect_http();
            for piece in bytes.chunks(pieces) {
                client.send_bytes(piece);
            }
            let response = client.read_response();
            assert_eq!(response.status(), status, "{text}: {response:?}");
            let allowed = response.head.field("Access-Control-Allow-Origin");
            assert_eq!(allowed, Some(origin), "{text}");
            assert_eq!(response.head.field("Vary"), Some("Origin"), "{text}");
        }
        // Not to another origin, nor under a name that others control.
        for (ours, foreign) in [(origin, "http://evil.example"), ("localhost\r", "evil.example\r")]
        {
            let mut client = server.connect_http();
            client.send_bytes(text.replace(ours, foreign).as_bytes());
            let response = client.read_response();
            assert_eq!(response.status(), status, "{text}: {response:?}");
            let allowed = response.head.field("Access-Control-Allow-Origin");
            assert_eq!(allowed, None, "{text}");
        }
    }
    server.close();
}

#[test]
fn connection_limit_for_allowed_origin_has_cors_fields() {
    let mut options = http_options();
    options.http.connections_max = 1;
    options.engine.shards = Some(1);
    let server = TestServer::with_test_tools(options);
    let mut first = server.connect_http();
    first.expect_alive();
    let origin = "http://localhost:6274";
    let response = server.connect_http().exchange(&echo_request().field("Origin", origin));
    assert_eq!(response.status(), 503, "{response:?}");
    assert_eq!(response.head.field("Access-Control-Allow-Origin"), Some(origin));
    drop(first);
    server.close();
}

#[test]
fn cors_preflight_lists_methods_and_fields() {
    let server = TestServer::with_test_tools(http_options());
    let mut client = server.connect_http();
    let headers = "content-type, mcp-method, mcp-param-region";
    let preflight = Request::new("OPTIONS", "/mcp")
        .field("Origin", "http://localhost:6274")
        .field("Access-Control-Request-Method", "POST")
        .field("Access-Control-Request-Headers", headers);
    let response = client.exchange(&preflight);
    response.expect_empty_body(204);
    for (name, value) in [
        ("Access-Control-Allow-Origin", "http://localhost:6274"),
        ("Access-Control-Allow-Methods", "POST, GET, DELETE, OPTIONS"),
        ("Access-Control-Allow-Headers", headers),
        ("Access-Control-Max-Age", "86400"),
        ("Vary", "Origin"),
    ] {
        assert_eq!(response.head.field(name), Some(value), "{response:?}");
    }
    expect_refused(&mut client, &preflight.field("Origin", "https://evil.example"));
    client.expect_alive();
    drop(client);
    server.close();
}

#[test]
fn configured_hosts_and_origins_replace_the_defaults() {
    let mut options: Options = http_options();
    options.http.hosts = vec!["mcp.example".to_owned()];
    options.http.origins = vec!["https://app.example".to_owned()];
    let server = TestServer::with_test_tools(options);
    let mut client = server.connect_http();
    let request = echo_request().field("Host", "mcp.example");
    expect_served(&mut client, &request);
    expect_served(&mut client, &request.clone().field("Origin", "https://app.example"));
    expect_refused(&mut client, &request.clone().field("Host", "localhost"));
    expect_refused(&mut client, &request.field("Origin", "https://other.example"));
    drop(client);
    server.close();
}
