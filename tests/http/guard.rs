//! Who may ask: hosts, origins, and what browsers ask before they ask.

use corelane::server::Options;

use crate::client::Client;
use crate::messages::{echo, modern, text};
use crate::request::Request;
use crate::stage::{Stage, options};

fn asking() -> Request {
    Request::modern(&modern(echo(1, "who?")))
}

fn expect_served(client: &mut Client, request: &Request) {
    assert_eq!(text(&client.ask(request).message()), "who?", "{request:?}");
}

/// Refused, told nothing that a page could read, and the connection is kept.
fn expect_refused(client: &mut Client, request: &Request) {
    let answer = client.ask(request);
    answer.expect_error(403, -32600, None);
    assert!(answer.head.field("Access-Control-Allow-Origin").is_none(), "{answer:?}");
    assert!(!answer.head.closes(), "{answer:?}");
}

#[test]
fn a_name_that_somebody_pointed_at_this_machine_is_refused() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    for host in ["localhost:1", "127.0.0.1", "[::1]:80", "LOCALHOST", "127.9.9.9:8080"] {
        expect_served(&mut client, &asking().field("Host", host));
    }
    for host in ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1"] {
        expect_refused(&mut client, &asking().field("Host", host));
        expect_refused(&mut client, &Request::new("GET", "/status").field("Host", host));
    }
    client.expect_alive();
    drop(client);
    let counters = stage.close();
    assert_eq!(counters.faults.http, 8, "{counters}");
    assert_eq!(counters.requests.tools_call, 5, "{counters}");
}

#[test]
fn a_page_from_elsewhere_is_refused() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    for origin in ["http://localhost:6274", "https://127.0.0.1", "http://[::1]:3000"] {
        let request = asking().field("Origin", origin);
        let answer = client.ask(&request);
        assert_eq!(text(&answer.message()), "who?");
        assert_eq!(answer.head.field("Access-Control-Allow-Origin"), Some(origin));
        assert_eq!(answer.head.field("Vary"), Some("Origin"));
        let exposed = answer.head.field("Access-Control-Expose-Headers").unwrap_or_default();
        assert!(exposed.contains("Mcp-Session-Id"), "{answer:?}");
    }
    for origin in ["http://evil.example", "null", "http://localhost.evil.example", "nonsense"] {
        expect_refused(&mut client, &asking().field("Origin", origin));
    }
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn errors_can_be_read_by_the_pages_that_may_ask() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let origin = "http://localhost:6274";
    let asking = || asking().field("Origin", origin);
    for (request, status) in [
        (asking().field("Content-Type", "text/plain"), 415),
        (asking().field("Accept", "text/html"), 406),
        (asking().field("Mcp-Name", "other"), 400),
        (asking().body("{"), 400),
        (asking().target("/nowhere"), 404),
        (asking().verb("PUT"), 405),
        (
            asking().field("Mcp-Session-Id", "unknown").field("MCP-Protocol-Version", "2025-11-25"),
            404,
        ),
    ] {
        let answer = client.ask(&request);
        assert_eq!(answer.status(), status, "{answer:?}");
        assert_eq!(answer.head.field("Access-Control-Allow-Origin"), Some(origin), "{request:?}");
    }
    drop(client);
    stage.close();
}

#[test]
fn a_browser_that_asks_first_is_told_what_it_may_send() {
    let stage = Stage::open(options());
    let mut client = stage.connect();
    let headers = "content-type, mcp-method, mcp-param-region";
    let preflight = Request::new("OPTIONS", "/mcp")
        .field("Origin", "http://localhost:6274")
        .field("Access-Control-Request-Method", "POST")
        .field("Access-Control-Request-Headers", headers);
    let answer = client.ask(&preflight);
    answer.expect_bare(204);
    for (name, value) in [
        ("Access-Control-Allow-Origin", "http://localhost:6274"),
        ("Access-Control-Allow-Methods", "POST, GET, DELETE, OPTIONS"),
        ("Access-Control-Allow-Headers", headers),
        ("Access-Control-Max-Age", "86400"),
        ("Vary", "Origin"),
    ] {
        assert_eq!(answer.head.field(name), Some(value), "{answer:?}");
    }
    expect_refused(&mut client, &preflight.field("Origin", "https://evil.example"));
    client.expect_alive();
    drop(client);
    stage.close();
}

#[test]
fn hosts_and_origins_that_are_listed_are_the_only_ones() {
    let mut options: Options = options();
    options.http.hosts = vec!["mcp.example".to_owned()];
    options.http.origins = vec!["https://app.example".to_owned()];
    let stage = Stage::open(options);
    let mut client = stage.connect();
    let asking = asking().field("Host", "mcp.example");
    expect_served(&mut client, &asking);
    expect_served(&mut client, &asking.clone().field("Origin", "https://app.example"));
    expect_refused(&mut client, &asking.clone().field("Host", "localhost"));
    expect_refused(&mut client, &asking.field("Origin", "https://other.example"));
    drop(client);
    stage.close();
}
