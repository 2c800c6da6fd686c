//! What `corelane_auth_checks_total` counts, by result and over every transport.

use std::net::SocketAddr;

use corelane_test_support::TestServer;
use corelane_test_support::messages::{initialize, modern};
use serde_json::{Value, json};

use crate::authorization::http::{post, send};
use crate::authorization::http_server::{HttpServer, ok};
use crate::authorization::{Authority, TestIssuer, call, catalog, options};

/// A server of one shard, whose table of verified tokens every connection uses.
fn start(auth: corelane::options::AuthOptions) -> TestServer {
    let mut options = options(auth);
    options.engine.shards = Some(1);
    TestServer::with_catalog(options, catalog())
}

/// The results that `/metrics` counts, without zeros.
fn results(address: SocketAddr) -> Vec<String> {
    let metrics = send(address, "GET", "/metrics", "").body;
    let samples = metrics.lines().filter_map(|line| {
        line.strip_prefix("corelane_auth_checks_total{result=\"")?.split_once("\"} ")
    });
    let counted = samples.filter(|(_, count)| *count != "0");
    counted.map(|(result, count)| format!("{result} {count}")).collect()
}

#[test]
fn checks_over_http_are_counted_by_result() {
    let authority = Authority::new();
    let server = start(authority.jwt_options());
    let (address, issuer) = (server.http(), &authority.issuer);
    let with = |name: &str, value: Value| {
        let mut claims = issuer.claims("ada", "");
        claims[name] = value;
        issuer.sign(&claims)
    };
    let valid = issuer.token("ada", "");
    for token in [&valid, &valid, &valid] {
        assert_eq!(post(address, &call("whoami"), Some(token)).status, 200);
    }
    for token in [
        with("exp", json!(1_000)),
        with("nbf", json!(u32::MAX)),
        with("iss", json!("https://evil.test")),
        with("aud", json!("https://other.test")),
        with("aud", Value::Null),
        with("sub", json!(7)),
        with("cnf", json!({"kid": "x"})),
        "e30.e30.AAAA".to_owned(),
        "opaque".to_owned(),
        TestIssuer::new().token("ada", ""),
        TestIssuer::with_key("key-2").token("ada", ""),
        // No check: the first is malformed, the second request has no token.
        "a,b".to_owned(),
    ] {
        assert_eq!(post(address, &call("whoami"), Some(&token)).status, 401);
    }
    assert_eq!(post(address, &call("whoami"), None).status, 401);
    let expected = [
        "hit 2",
        "verified 1",
        "malformed 2",
        "issuer 1",
        "bad_signature 2",
        "expired 1",
        "not_yet_valid 1",
        "audience 2",
        "binding 1",
        "unknown 1",
    ];
    assert_eq!(results(address), expected);
    server.close();
}

#[test]
fn checks_of_tcp_and_websocket_are_counted() {
    let authority = Authority::new();
    let server = start(authority.key_options());
    let mut with_token = initialize(1, "2025-11-25");
    with_token["params"]["auth_token"] = json!("key-ada");
    let mut client = server.connect_tcp();
    assert!(client.exchange(with_token)["result"].is_object());
    let mut unknown = modern(call("whoami"));
    unknown["params"]["_meta"]["auth_token"] = json!("key-x");
    assert_eq!(server.connect_tcp().exchange(unknown)["error"]["code"], -32010);
    assert_eq!(results(server.http()), ["verified 1", "unknown 1"]);
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nAuthorization: Bearer ";
    for (key, status) in [("key-ada", 101), ("key-bob", 101), ("key-x", 401)] {
        let upgraded = send(server.http(), "GET", "/mcp/ws", &format!("{upgrade}{key}\r\n"));
        assert_eq!(upgraded.status, status);
    }
    assert_eq!(results(server.http()), ["hit 1", "verified 2", "unknown 2"]);
    server.close();
}

#[test]
fn introspected_tokens_are_counted() {
    let authority = Authority::new();
    let claims = authority.issuer.claims("ada", "");
    let mut active = claims;
    active["active"] = json!(true);
    let introspection = HttpServer::start(ok(&active));
    let mut auth = authority.jwt_options();
    auth.key_sets.clear();
    auth.introspection = Some(introspection.url("/introspect"));
    let server = start(auth);
    assert_eq!(post(server.http(), &call("whoami"), Some("opaque-1")).status, 200);
    // The request that has waited finds the token.
    assert_eq!(results(server.http()), ["hit 1", "verified 1"]);
    introspection.set(ok(&json!({"active": false})));
    for _ in 0..2 {
        assert_eq!(post(server.http(), &call("whoami"), Some("opaque-2")).status, 401);
    }
    assert_eq!(results(server.http()), ["hit 1", "verified 1", "unknown 2"]);
    introspection.set(ok(&json!({})));
    assert_eq!(post(server.http(), &call("whoami"), Some("opaque-3")).status, 503);
    assert_eq!(results(server.http()), ["hit 1", "verified 1", "unknown 2", "unavailable 1"]);
    server.close();
}
