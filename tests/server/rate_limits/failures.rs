//! How often an address may fail: tokens and handshakes.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use corelane::auth::{Principal, TokenError, TokenVerifier};
use corelane::{Catalog, Options, Server};
use corelane_test_support::messages::{modern, request_without_params};
use corelane_test_support::{LineClient, TestServer, sockets};
use serde_json::{Value, json};

use crate::authorization::http::{modern_request, read};
use crate::rate_limits::{CLIENT, OTHER, options};

const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Accepts `good`, and counts what it verifies.
struct Counting(Arc<AtomicUsize>);

impl TokenVerifier for Counting {
    fn verify(&self, token: &str, _: u64) -> Result<Principal, TokenError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        match token {
            "good" => Ok(Principal::new("ada")),
            _ => Err(TokenError::Unknown),
        }
    }
}

fn limited() -> Options {
    let mut options = options(&[]);
    options.rate.failures = Some("rate=3/h".to_owned());
    options
}

/// A server that admits three failures of an address an hour, and the number of verifications.
fn start() -> (TestServer, Arc<AtomicUsize>) {
    let verified = Arc::<AtomicUsize>::default();
    let verifier = Counting(Arc::clone(&verified));
    let info = corelane::model::Implementation::new("test", "1");
    let catalog = Catalog::builder(info).build().expect("a valid catalog");
    let server = TestServer::with_server(|_| {
        Server::builder(catalog).options(limited()).token_verifier(verifier)
    });
    (server, verified)
}

fn discover() -> Value {
    modern(request_without_params(1, "server/discover"))
}

/// Sends a request with a token over HTTP. Returns its status and `Retry-After`.
fn post(server: &TestServer, from: IpAddr, token: &str) -> (u16, bool) {
    let fields = format!("Authorization: Bearer {token}\r\n");
    let request = modern_request(server.http(), "/mcp", &discover(), &fields);
    let mut stream = sockets::connect_from(from, server.http());
    stream.write_all(request.as_bytes()).expect("the request is sent");
    let response = read(&mut stream);
    (response.status, response.field("Retry-After").is_some())
}

/// Sends a message with a token over TCP. Returns the code of its error.
fn send(server: &TestServer, from: IpAddr, token: &str) -> Option<i64> {
    let mut message = discover();
    message["params"]["_meta"]["auth_token"] = json!(token);
    let response = LineClient::connect_from(from, server.tcp()).exchange(&message);
    response["error"]["code"].as_i64()
}

#[test]
fn token_after_too_many_failures_is_not_verified() {
    let (server, verified) = start();
    for number in 0..3 {
        assert_eq!(post(&server, CLIENT, &format!("bad-{number}")), (401, false));
    }
    let before = verified.load(Ordering::SeqCst);
    for number in 3..9 {
        assert_eq!(post(&server, CLIENT, &format!("bad-{number}")), (429, true));
        assert_eq!(send(&server, CLIENT, &format!("bad-{number}")), Some(1002));
    }
    assert_eq!(post(&server, CLIENT, "good"), (429, true));
    assert_eq!(verified.load(Ordering::SeqCst), before);
    // Others are not affected, and a known token is accepted from the address, too.
    assert_eq!(post(&server, OTHER, "good"), (200, false));
    assert_eq!(post(&server, CLIENT, "good"), (200, false));
    assert_eq!(send(&server, CLIENT, "good"), None);
    for number in 0..9 {
        assert_eq!(post(&server, LOOPBACK, &format!("bad-{number}")), (401, false));
    }
    let counters = server.close();
    assert_eq!((counters.auth.invalid_token, counters.auth.too_many_failures), (12, 13));
}

#[test]
fn failures_over_tcp_and_http_count_together() {
    let (server, _) = start();
    assert_eq!(send(&server, CLIENT, "bad-1"), Some(-32010));
    assert_eq!(send(&server, CLIENT, "bad-2"), Some(-32010));
    assert_eq!(post(&server, CLIENT, "bad-3"), (401, false));
    assert_eq!(send(&server, CLIENT, "bad-4"), Some(1002));
    assert_eq!(send(&server, OTHER, "bad-4"), Some(-32010));
    server.close();
}

#[test]
fn refusal_leaves_connection_and_its_token() {
    let (server, _) = start();
    let mut client = LineClient::connect_from(CLIENT, server.tcp());
    let with_token = |token: &str| {
        let mut message = discover();
        message["params"]["_meta"]["auth_token"] = json!(token);
        message
    };
    assert!(client.exchange(with_token("good"))["result"].is_object());
    for number in 0..3 {
        let refused = client.exchange(with_token(&format!("bad-{number}")));
        assert_eq!(refused["error"]["code"], -32010, "{refused}");
    }
    let refused = client.exchange(with_token("bad-3"));
    assert_eq!(refused["error"]["code"], 1002, "{refused}");
    assert_eq!(refused["error"]["data"]["retryable"], true);
    assert!(client.exchange(discover())["result"].is_object());
    drop(client);
    server.close();
}

/// Sends a first message of the parity dialect. Returns the code of its error.
pub(super) fn handshake(server: &TestServer, from: IpAddr, version: &str) -> Option<String> {
    let info = json!({"name": "test", "version": "1"});
    let message = json!({
        "type": "handshake", "protocolVersion": version, "capabilities": {"tools": true},
        "clientInfo": info,
    });
    let mut client = LineClient::connect_from(from, server.tcp());
    client.send(&message);
    let line = client.receive_line_or_reset().expect("a line");
    let response: Value = serde_json::from_str(&line).expect("JSON");
    response["error"]["code"].as_str().map(str::to_owned)
}

#[test]
fn failed_parity_handshakes_have_a_limit() {
    let server = TestServer::start(limited());
    assert_eq!(handshake(&server, CLIENT, "1.0"), None);
    for _ in 0..3 {
        let code = handshake(&server, CLIENT, "99.0");
        assert_eq!(code.as_deref(), Some("error.version_unsupported"));
    }
    assert_eq!(handshake(&server, CLIENT, "1.0").as_deref(), Some("error.rate_limited"));
    assert_eq!(handshake(&server, OTHER, "1.0"), None);
    server.close();
}

#[test]
fn reloaded_limit_of_failures_applies_at_once() {
    let (server, _) = start();
    for _ in 0..3 {
        assert_eq!(post(&server, CLIENT, "bad"), (401, false));
    }
    assert_eq!(post(&server, CLIENT, "bad"), (429, true));
    server.handle().reload_rate(&options(&[])).unwrap();
    assert_eq!(post(&server, CLIENT, "bad"), (401, false));
    let mut malformed = options(&[]);
    malformed.rate.failures = Some("3".to_owned());
    let error = server.handle().reload_rate(&malformed).unwrap_err();
    assert!(error.starts_with("rate.failures: "), "{error}");
    server.close();
}
