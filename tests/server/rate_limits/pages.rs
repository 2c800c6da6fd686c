//! Limits of what is no request of MCP: pages, and handshakes of the parity dialect.

use std::io::Write;
use std::net::IpAddr;

use corelane_test_support::{HttpClient, Request, TestServer, sockets};

use crate::authorization::http::read;
use crate::rate_limits::failures::handshake;
use crate::rate_limits::{CLIENT, OTHER, start};

/// Returns the status of a GET, and whether it has `Retry-After`.
fn get(server: &TestServer, from: IpAddr, path: &str) -> (u16, bool) {
    let response =
        HttpClient::connect_from(from, server.http()).exchange(&Request::new("GET", path));
    (response.status(), response.head.field("Retry-After").is_some())
}

#[test]
fn pages_have_limits_and_probes_have_none() {
    for rule in ["http/* rate=3/h per=address", "* rate=3/h per=address"] {
        let server = start(&[rule]);
        for path in ["/", "/status", "/metrics"] {
            assert_eq!(get(&server, CLIENT, path), (200, false), "{rule} {path}");
        }
        for path in ["/", "/status", "/metrics"] {
            assert_eq!(get(&server, CLIENT, path), (429, true), "{rule} {path}");
            assert_eq!(get(&server, OTHER, path), (200, false), "{rule} {path}");
        }
        for _ in 0..9 {
            assert_eq!(get(&server, CLIENT, "/healthz"), (200, false));
            assert_eq!(get(&server, CLIENT, "/readyz"), (200, false));
        }
        assert_eq!(server.close().overload.refused_rate, 3);
    }
}

#[test]
fn refused_requests_and_parity_have_limits() {
    for (rule, path, status) in [
        ("http/refused rate=2/h per=address", "/unknown", 404),
        ("* rate=2/h per=address", "/unknown", 404),
    ] {
        let server = start(&[rule]);
        for _ in 0..2 {
            assert_eq!(get(&server, CLIENT, path), (status, false), "{rule} {path}");
        }
        assert_eq!(get(&server, CLIENT, path), (429, true), "{rule} {path}");
        assert_eq!(get(&server, OTHER, path), (status, false), "{rule} {path}");
        assert_eq!(get(&server, CLIENT, "/healthz"), (200, false), "{rule}");
        server.close();
    }
    let schema = "/parity/schemas/protocol.request.schema.json";
    let [schemas, events] = ["parity/schemas", "parity/events"];
    for (class, path, status) in [(schemas, schema, 200), (events, "/parity/events", 404)] {
        for rule in [class, "*"] {
            let server = start(&[&format!("{rule} rate=1/h per=address")]);
            let get = |from: IpAddr| {
                let fields = "Mcp-Session-Id: x\r\nAccept: text/event-stream, application/json";
                let head = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n\r\n");
                let mut stream = sockets::connect_from(from, server.http());
                stream.write_all(head.as_bytes()).expect("the server reads");
                read(&mut stream).status
            };
            assert_eq!([get(CLIENT), get(CLIENT), get(OTHER)], [status, 429, status], "{rule}");
            server.close();
        }
    }
}

#[test]
fn rule_is_for_the_page_that_it_names() {
    let server = start(&["http/metrics rate=1/h"]);
    assert_eq!(get(&server, CLIENT, "/metrics"), (200, false));
    assert_eq!(get(&server, OTHER, "/metrics"), (429, true));
    assert_eq!(get(&server, OTHER, "/status"), (200, false));
    server.close();
}

#[test]
fn parity_handshakes_have_a_limit() {
    let server = start(&["parity/handshake rate=2/h per=address"]);
    let handshake = |from: IpAddr| handshake(&server, from, "1.0");
    assert_eq!([handshake(CLIENT), handshake(CLIENT)], [None, None]);
    assert_eq!(handshake(CLIENT).as_deref(), Some("error.rate_limited"));
    assert_eq!(handshake(OTHER), None);
    server.close();
}
