//! Checks of `Host` and `Origin`, and CORS preflight requests.

use corelane::server::Options;
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
    for host in ["localhost:1", "127.0.0.1", "[::1]:80", "LOCALHOST", "127.9.9.9:8080"] {
        expect_served(&mut client, &echo_request().field("Host", host));
    }
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1"] {
        expect_refused(&mut client, &echo_request().field("Host", host));
        expect_refused(&mut client, &Request::new("GET", "/status").field("Host", host));
    }
    client.expect_alive();
    drop(client);
    let counters = server.close();
    assert_eq!(counters.input_errors.http, 8, "{counters}");
    assert_eq!(counters.requests.tools_call, 5, "{counters}");
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
