//! How many connections an address may open.

use std::net::IpAddr;

use corelane_test_support::messages::{echo, modern};
use corelane_test_support::{HttpClient, LineClient, Request, TestServer};
use serde_json::json;

use crate::rate_limits::{CLIENT, OTHER, options};

/// Opens a connection over TCP; returns the code of the error that it gets, if any.
fn connect(server: &TestServer, from: IpAddr) -> (LineClient, Option<i64>) {
    let mut client = LineClient::connect_from(from, server.tcp());
    client.try_send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).ok();
    let line = client.receive_line_or_reset().expect("a line");
    let message: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let code = message["error"]["code"].as_i64();
    (client, code)
}

#[test]
fn address_opens_connections_at_its_rate() {
    for shards in [1, 4] {
        let mut options = options(&[]);
        options.engine.shards = Some(shards);
        options.rate.connections = Some("rate=3/d".to_owned());
        let server = TestServer::start(options);
        let mut codes = Vec::new();
        for _ in 0..6 {
            // Closed at once: it is not the number of open ones that counts.
            codes.push(connect(&server, CLIENT).1);
        }
        let refused = Some(1002);
        assert_eq!(codes, [None, None, None, refused, refused, refused]);
        assert_eq!(connect(&server, OTHER).1, None);
        let local = IpAddr::from([127, 0, 0, 1]);
        assert!((0..9).all(|_| connect(&server, local).1.is_none()));
        let counters = server.close();
        assert_eq!(counters.connections.refused_rate, 3, "{counters}");
    }
}

#[test]
fn http_connection_over_rate_gets_429() {
    let mut options = options(&[]);
    options.rate.connections = Some("rate=1/d".to_owned());
    let server = TestServer::start(options);
    let call = Request::modern(&modern(echo(7, "x")));
    let mut first = HttpClient::connect_from(CLIENT, server.http());
    assert_eq!(first.exchange(&call).status(), 200);
    let mut second = HttpClient::connect_from(CLIENT, server.http());
    let refused = second.read_response();
    let message = refused.expect_error(429, 1002, None);
    assert_eq!(message["error"]["data"], json!({"retryable": true, "retryAfterMs": 1000}));
    assert_eq!(refused.head.field("Retry-After"), Some("1"));
    assert_eq!(refused.head.field("Connection"), Some("close"));
    second.expect_eof_or_reset();
    // An open connection is not affected.
    assert_eq!(first.exchange(&call).status(), 200);
    drop(first);
    server.close();
}

#[test]
fn address_has_open_connections_up_to_its_limit() {
    let mut options = options(&[]);
    options.rate.connections_per_address_max = 2;
    let server = TestServer::start(options);
    let mut open: Vec<LineClient> = Vec::new();
    for _ in 0..2 {
        let (client, code) = connect(&server, CLIENT);
        assert_eq!(code, None);
        open.push(client);
    }
    assert_eq!(connect(&server, CLIENT).1, Some(1001));
    assert_eq!(connect(&server, OTHER).1, None);
    drop(open);
    let counters = server.close();
    assert_eq!(counters.connections.refused_address_share, 1, "{counters}");
}
