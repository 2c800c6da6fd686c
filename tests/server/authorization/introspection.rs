//! Tokens that the authorization server is asked about (RFC 7662).

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use corelane::options::AuthOptions;
use corelane_test_support::TestServer;
use corelane_test_support::messages::initialize;
use corelane_test_support::process::Process;
use serde_json::{Value, json};

use crate::CORELANE;
use crate::authorization::http::{modern_request, post, read, send};
use crate::authorization::http_server::{HttpServer, Reply, ok, status};
use crate::authorization::{Authority, RESOURCE, call, catalog, options};

fn introspecting(authority: &Authority, url: String) -> AuthOptions {
    let mut auth = authority.key_options();
    auth.resource = Some(RESOURCE.to_owned());
    auth.issuers = vec![authority.issuer.name().to_owned()];
    auth.challenge_scopes = vec!["tools:read".to_owned()];
    auth.introspection = Some(url);
    auth.introspection_client = vec![authority.write("client.txt", "mcp server:s:1\n").into()];
    auth
}

fn start(authority: &Authority, introspection: &HttpServer) -> TestServer {
    let auth = introspecting(authority, introspection.url("/introspect"));
    TestServer::with_catalog(options(auth), catalog())
}

fn active() -> Value {
    json!({"active": true, "sub": "ada", "aud": RESOURCE, "client_id": "cli", "scope": "x"})
}

#[test]
fn opaque_token_is_asked_about_once() {
    let authority = Authority::new();
    let introspection = HttpServer::start(ok(&active()));
    let server = start(&authority, &introspection);
    // The first request waits for the answer.
    for _ in 0..20 {
        let response = post(server.http(), &call("whoami"), Some("opaque-1"));
        assert_eq!(response.text(), "ada (user)");
    }
    let request = introspection.next_request();
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("POST /introspect HTTP/1.1\r\n"), "{head}");
    // `mcp+server:s%3A1`.
    assert!(head.contains("\r\nAuthorization: Basic bWNwK3NlcnZlcjpzJTNBMQ==\r\n"), "{head}");
    assert!(head.contains("\r\nContent-Type: application/x-www-form-urlencoded\r\n"), "{head}");
    assert_eq!(body, "token=opaque-1&token_type_hint=access_token");
    assert_eq!(introspection.count(), 1);
    // API keys need no answer.
    assert_eq!(post(server.http(), &call("whoami"), Some("key-bob")).text(), "bob (user)");
    assert_eq!(introspection.count(), 1);
    server.close();
}

#[test]
fn token_that_is_not_active_gets_401() {
    let authority = Authority::new();
    let mut other_audience = active();
    other_audience["aud"] = json!("https://sibling.test/mcp");
    let mut no_audience = active();
    no_audience.as_object_mut().unwrap().remove("aud");
    let mut expired = active();
    expired["exp"] = json!(1_000);
    let mut other_issuer = active();
    other_issuer["iss"] = json!("https://evil.test");
    let mut bound = active();
    bound["cnf"] = json!({"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"});
    for (answer, reason) in [
        (json!({"active": false}), "the token is not active"),
        (other_audience, "the audience of the token is not this server"),
        (no_audience, "the token has no audience"),
        (expired, "the token has expired"),
        (other_issuer, "the issuer of the token is not accepted"),
        (bound, "the token is bound to a key, and this server verifies no such proofs"),
    ] {
        let introspection = HttpServer::start(ok(&answer));
        let server = start(&authority, &introspection);
        for _ in 0..5 {
            let refused = post(server.http(), &call("whoami"), Some("opaque-1"));
            refused.expect_invalid_token(reason);
        }
        assert_eq!(introspection.count(), 1, "{reason}");
        server.close();
    }
}

#[test]
fn endpoint_that_is_away_gives_503() {
    let authority = Authority::new();
    let target = HttpServer::start(ok(&active()));
    let location = format!("Location: {}\r\n", target.url("/introspect"));
    let huge = "HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n{\"active\":true";
    for reply in [
        status("500 Internal Server Error", ""),
        status("401 Unauthorized", "WWW-Authenticate: Basic\r\n"),
        status("307 Temporary Redirect", &location),
        ok(&json!({})),
        ok(&json!({"active": "true"})),
        Reply::Text("not HTTP\r\n\r\n".to_owned()),
        Reply::Text(huge.to_owned()),
        Reply::Endless,
    ] {
        let introspection = HttpServer::start(reply);
        expect_unavailable(&authority, introspection.url("/introspect"));
    }
    assert_eq!(target.count(), 0);
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    expect_unavailable(&authority, format!("http://{closed}/introspect"));
}

fn expect_unavailable(authority: &Authority, url: String) {
    let auth = introspecting(authority, url);
    let server = TestServer::with_catalog(options(auth), catalog());
    let refused = post(server.http(), &call("whoami"), Some("opaque-1"));
    refused.expect_unavailable("the authorization server does not respond to introspection");
    let metrics = send(server.http(), "GET", "/metrics", "").body;
    assert!(metrics.contains("corelane_auth_refused_total{reason=\"unavailable\"} 1"), "{metrics}");
    server.close();
}

#[test]
fn tokens_beyond_the_limit_get_503() {
    let authority = Authority::new();
    let introspection = HttpServer::gated(ok(&active()));
    let mut auth = introspecting(&authority, introspection.url("/introspect"));
    auth.introspections_max = 1;
    auth.introspections_at_once_max = 1;
    let server = TestServer::with_catalog(options(auth), catalog());
    let address = server.http();
    let (responses_tx, responses) = channel();
    let begin = |token: &'static str| {
        let fields = format!("Authorization: Bearer {token}\r\n");
        let request = modern_request(address, "/mcp", &call("whoami"), &fields);
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let responses_tx = responses_tx.clone();
        thread::spawn(move || responses_tx.send(read(&mut stream)).unwrap());
    };
    begin("opaque-1");
    introspection.next_request();
    // One of the next two waits, the other one is refused.
    begin("opaque-2");
    begin("opaque-3");
    let refused = responses.recv().unwrap();
    refused.expect_unavailable("too many tokens are being introspected; try again");
    // Other clients are served meanwhile.
    assert_eq!(post(address, &call("whoami"), Some("key-bob")).text(), "bob (user)");
    introspection.open_gate();
    introspection.open_gate();
    for _ in 0..2 {
        assert_eq!(responses.recv().unwrap().text(), "ada (user)");
    }
    server.close();
}

#[test]
fn waiting_request_is_served_whatever_its_framing() {
    let authority = Authority::new();
    for is_split in [false, true] {
        let introspection = HttpServer::gated(ok(&active()));
        let server = start(&authority, &introspection);
        let address = server.http();
        let fields = "Authorization: Bearer opaque-1\r\n";
        let request = modern_request(address, "/mcp", &call("whoami"), fields);
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let lines = head.lines().filter(|line| !line.starts_with("Content-Length"));
        let head: Vec<&str> = lines.chain(["Transfer-Encoding: chunked"]).collect();
        let head = head.join("\r\n");
        let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
        // A request follows in the same packet.
        let all = format!("{head}\r\n\r\n{chunks}{request}");
        let (first, rest) = all.split_at(if is_split { head.len() + 9 } else { all.len() });
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(first.as_bytes()).unwrap();
        introspection.next_request();
        stream.write_all(rest.as_bytes()).unwrap();
        introspection.open_gate();
        for _ in 0..2 {
            assert_eq!(read(&mut stream).text(), "ada (user)");
        }
        assert_eq!(introspection.count(), 1);
        server.close();
    }
}

#[test]
fn websocket_upgrade_waits_for_the_answer() {
    let authority = Authority::new();
    let introspection = HttpServer::start(ok(&active()));
    let server = start(&authority, &introspection);
    let fields = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                  Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                  Authorization: Bearer opaque-1\r\n";
    assert_eq!(send(server.http(), "GET", "/mcp/ws", fields).status, 101);
    server.close();
}

/// A call with a token in `_meta`.
fn call_with_token(id: u64, token: &str) -> Value {
    let mut message = corelane_test_support::messages::modern(call("whoami"));
    message["id"] = json!(id);
    message["params"]["_meta"]["auth_token"] = json!(token);
    message
}

fn expect_caller(answer: &Value, id: u64, caller: &str) {
    assert_eq!(
        (&answer["id"], &answer["result"]["content"][0]["text"]),
        (&json!(id), &json!(caller))
    );
}

#[test]
fn tcp_message_waits_for_the_answer() {
    let authority = Authority::new();
    let introspection = HttpServer::gated(ok(&active()));
    let server = start(&authority, &introspection);
    let (mut client, mut other) = (server.connect_tcp(), server.connect_tcp());
    // More follows in the same packet, which is answered in order.
    let mut next = corelane_test_support::messages::modern(call("whoami"));
    next["id"] = json!(2);
    client.send(format!(
        "{}\n{next}\n{}",
        call_with_token(1, "opaque-1"),
        call_with_token(3, "key-bob")
    ));
    other.send(call_with_token(7, "opaque-1"));
    introspection.next_request();
    // Other connections are served meanwhile.
    let mut third = server.connect_tcp();
    expect_caller(&third.exchange(call_with_token(9, "key-bob")), 9, "bob (user)");
    let metrics = send(server.http(), "GET", "/metrics", "").body;
    assert!(metrics.contains("queue=\"introspection\"} "), "{metrics}");
    introspection.open_gate();
    expect_caller(&other.receive(), 7, "ada (user)");
    for (id, caller) in [(1, "ada (user)"), (2, "ada (user)"), (3, "bob (user)")] {
        expect_caller(&client.receive(), id, caller);
    }
    assert_eq!(introspection.count(), 1);
    let counters = server.close();
    assert_eq!((counters.requests.tools_call, counters.auth.unavailable), (5, 0));
}

#[test]
fn tcp_token_that_is_refused_ends_connection() {
    let authority = Authority::new();
    let introspection = HttpServer::start(ok(&json!({"active": false})));
    let server = start(&authority, &introspection);
    let mut client = server.connect_tcp();
    let refused = client.exchange(call_with_token(1, "opaque-1"));
    assert_eq!(refused["error"]["code"], -32010, "{refused}");
    assert_eq!(refused["error"]["message"], "the token is not active");
    client.expect_end_or_reset();
    server.close();
}

#[test]
fn tcp_message_without_answer_gets_error() {
    let authority = Authority::new();
    let introspection = HttpServer::start(status("500 Internal Server Error", ""));
    let server = start(&authority, &introspection);
    let mut client = server.connect_tcp();
    let refused = client.exchange(call_with_token(1, "opaque-1"));
    assert_eq!(refused["error"]["data"], json!({"retryable": true, "retryAfterMs": 1000}));
    let reason = "the authorization server does not respond to introspection";
    assert_eq!(refused["error"]["message"], reason);
    server.close();
}

#[test]
fn tcp_client_may_end_input_while_waiting() {
    let authority = Authority::new();
    let introspection = HttpServer::gated(ok(&active()));
    let server = start(&authority, &introspection);
    let mut client = server.connect_tcp();
    client.send_bytes(call_with_token(1, "opaque-1").to_string().as_bytes());
    client.shutdown_write();
    let gone = server.connect_tcp();
    introspection.next_request();
    gone.reset();
    introspection.open_gate();
    expect_caller(&client.receive(), 1, "ada (user)");
    client.expect_end();
    server.close();
}

#[test]
fn drain_answers_messages_that_wait() {
    let authority = Authority::new();
    let introspection = HttpServer::gated(ok(&active()));
    let mut options = options(introspecting(&authority, introspection.url("/introspect")));
    options.engine.shards = Some(1);
    let server = TestServer::with_catalog(options, catalog());
    let address = server.http();
    let mut tcp = server.connect_tcp();
    tcp.send(call_with_token(1, "opaque-1"));
    introspection.next_request();
    let mut large = call("whoami");
    large["params"]["_meta"]["test/padding"] = json!("x".repeat(60_000));
    let mut requests: Vec<_> = [call("whoami"), large]
        .iter()
        .map(|message| {
            let fields = "Authorization: Bearer opaque-1\r\n";
            let request = modern_request(address, "/mcp", message, fields);
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            (stream, request.len() as u64)
        })
        .collect();
    let received: u64 = requests.iter().map(|(_, length)| length).sum();
    let mut idle = server.connect_tcp();
    while server.handle().counters().traffic.bytes_in < received {
        thread::yield_now();
    }
    server.drain();
    // The drain has begun.
    idle.expect_end();
    introspection.open_gate();
    expect_caller(&tcp.receive(), 1, "ada (user)");
    tcp.expect_end();
    for (stream, _) in &mut requests {
        assert_eq!(read(stream).text(), "ada (user)");
    }
    drop(requests);
    server.join();
}

#[test]
fn waiting_messages_are_bounded_in_memory() {
    let authority = Authority::new();
    let introspection = HttpServer::gated(ok(&active()));
    let mut options = options(introspecting(&authority, introspection.url("/introspect")));
    options.engine.shards = Some(1);
    // A quarter of it is for what handlers and waiting messages hold.
    options.limits.memory_bytes_max = 600_000;
    options.limits.message_bytes_max = 256 << 10;
    let server = TestServer::with_catalog(options, catalog());
    let mut large = call_with_token(1, "opaque-1");
    large["params"]["_meta"]["test/padding"] = json!("x".repeat(60_000));
    let (answers_tx, answers) = channel();
    for _ in 0..3 {
        let (mut client, large) = (server.connect_tcp(), large.clone());
        let answers_tx = answers_tx.clone();
        thread::spawn(move || answers_tx.send(client.exchange(&large)).unwrap());
    }
    // Two of them wait.
    let refused = answers.recv().unwrap();
    assert_eq!(refused["error"]["code"], -32603, "{refused}");
    introspection.open_gate();
    for _ in 0..2 {
        expect_caller(&answers.recv().unwrap(), 1, "ada (user)");
    }
    assert_eq!(server.close().requests.refused_memory, 1);
}

#[test]
fn stdio_message_waits_for_the_answer() {
    let authority = Authority::new();
    let introspection = HttpServer::gated(ok(&active()));
    let mut command = Command::new(CORELANE);
    command.args(["stdio", "--auth-introspection", &introspection.url("/introspect")]);
    command.args(["--auth-resource", RESOURCE, "--auth-issuers", authority.issuer.name()]);
    command.env_clear().env("MCP_AUTH_TOKEN", "opaque-1");
    let mut process = Process::spawn(&mut command);
    let mut client = process.take_pipes();
    client.send(initialize(1, "2025-11-25"));
    introspection.next_request();
    introspection.open_gate();
    assert!(client.receive()["result"].is_object());
}

#[test]
fn unusable_introspection_does_not_start() {
    let authority = Authority::new();
    let try_start = |change: &dyn Fn(&mut AuthOptions)| {
        let mut auth = introspecting(&authority, "https://as.test/introspect".to_owned());
        change(&mut auth);
        TestServer::try_start(options(auth)).err().map(|error| error.to_string())
    };
    let plain =
        try_start(&|auth| auth.introspection = Some("http://as.test/introspect".to_owned()));
    assert!(plain.unwrap().contains("must begin with https"));
    let audience = try_start(&|auth| auth.resource = None);
    assert!(audience.unwrap().contains("auth.introspection needs auth.resource"));
    let unused = try_start(&|auth| {
        auth.introspection = None;
        auth.issuers.clear();
    });
    assert!(unused.unwrap().contains("auth.introspection_client needs auth.introspection"));
    let malformed = try_start(&|auth| {
        auth.introspection_client = vec![authority.write("bad.txt", "only-a-secret").into()];
    });
    let malformed = malformed.unwrap();
    assert!(malformed.contains("write CLIENT_ID:CLIENT_SECRET"), "{malformed}");
    assert!(!malformed.contains("only-a-secret"), "{malformed}");
}
