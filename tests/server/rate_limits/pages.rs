//! Limits of what is no request of MCP: pages, and handshakes of the parity dialect.

use std::net::IpAddr;

use corelane_test_support::{HttpClient, Request, TestServer};

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
