//! Tokens over TCP, WebSocket and standard input.

use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use corelane::auth::{Principal, TokenError, TokenVerifier};
use corelane::options::ParityMode;
use corelane::testing::block_on;
use corelane::{Options, Server};
use corelane_test_support::TestServer;
use corelane_test_support::messages::{initialize, notification, request_without_params};
use corelane_test_support::process::Process;
use serde_json::{Value, json};

use crate::CORELANE;
use crate::authorization::http::{modern_request, read, send};
use crate::authorization::{Authority, call, catalog, options, start};

const LEGACY: &str = "2025-11-25";

fn text_of(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"))
}

#[test]
fn tcp_connection_needs_token_of_initialize() {
    let authority = Authority::new();
    let server = start(authority.key_options());
    let mut client = server.connect_tcp();
    let refused = client.exchange(initialize(1, LEGACY));
    assert_eq!(refused["error"]["code"], -32010, "{refused}");
    assert_eq!(refused["error"]["data"]["retryable"], false);
    let mut with_token = initialize(2, LEGACY);
    with_token["params"]["auth_token"] = json!("key-ada");
    assert!(client.exchange(with_token)["result"].is_object());
    client.send(notification("notifications/initialized"));
    assert_eq!(text_of(&client.exchange(call("whoami"))), "ada (admin)");
    server.close();
}

#[test]
fn tcp_connection_with_invalid_token_is_closed() {
    let authority = Authority::new();
    let server = start(authority.key_options());
    let mut client = server.connect_tcp();
    let mut with_token = initialize(2, LEGACY);
    with_token["params"]["_meta"] = json!({"auth_token": "key-x"});
    let refused = client.exchange(with_token);
    assert_eq!(refused["error"]["code"], -32010, "{refused}");
    assert_eq!(refused["error"]["message"], "the token is unknown");
    client.expect_end_or_reset();
    let counters = server.close();
    assert_eq!(counters.connections.closed_invalid_credential, 1, "{counters}");
}

#[test]
fn modern_tcp_request_has_token_in_meta() {
    let authority = Authority::new();
    let server = start(authority.key_options());
    let mut client = server.connect_tcp();
    let mut message = corelane_test_support::messages::modern(call("whoami"));
    let refused = client.exchange(&message);
    assert_eq!(refused["error"]["code"], -32010, "{refused}");
    message["params"]["_meta"]["auth_token"] = json!("key-bob");
    assert_eq!(text_of(&client.exchange(&message)), "bob (user)");
    let again = corelane_test_support::messages::modern(call("whoami"));
    assert_eq!(text_of(&client.exchange(&again)), "bob (user)");
    server.close();
}

#[test]
fn tokens_beyond_those_of_a_turn_wait() {
    let authority = Authority::new();
    let mut auth = authority.jwt_options();
    auth.checks_per_turn_max = 1;
    let mut options = options(auth);
    options.engine.shards = Some(1);
    let server = TestServer::with_catalog(options, catalog());
    let names = |prefix: &str| (0..16).map(|number| format!("{prefix}{number}")).collect();
    let (of_http, of_tcp): (Vec<String>, Vec<String>) = (names("h"), names("t"));
    let token = |name: &str| authority.issuer.token(name, "");
    let address = server.http();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let requests = of_http.iter().map(|name| {
        let field = format!("Authorization: Bearer {}\r\n", token(name));
        modern_request(address, "/mcp", &call("whoami"), &field)
    });
    let requests: String = requests.collect();
    let messages = of_tcp.iter().map(|name| {
        let mut message = corelane_test_support::messages::modern(call("whoami"));
        message["params"]["_meta"]["auth_token"] = json!(token(name));
        (server.connect_tcp(), message)
    });
    let mut clients: Vec<_> = messages.collect();
    stream.write_all(requests.as_bytes()).unwrap();
    for (client, message) in &mut clients {
        client.send(message);
    }
    for name in &of_http {
        assert_eq!(read(&mut stream).text(), format!("{name} (user)"));
    }
    for (name, (client, _)) in of_tcp.iter().zip(&mut clients) {
        assert_eq!(text_of(&client.receive()), format!("{name} (user)"));
    }
    assert_eq!(server.close().auth.unavailable, 0);
}

#[test]
fn tcp_caller_without_scope_gets_error() {
    let authority = Authority::new();
    let server = start(authority.key_options());
    let mut client = server.connect_tcp();
    let mut with_token = initialize(1, LEGACY);
    with_token["params"]["auth_token"] = json!("key-bob");
    client.exchange(with_token);
    client.send(notification("notifications/initialized"));
    let refused = client.exchange(call("deploy_app"));
    assert_eq!(refused["error"]["code"], -32011, "{refused}");
    assert_eq!(refused["error"]["data"]["requiredScopes"], json!(["tools:deploy"]));
    let listed = client.exchange(request_without_params(3, "tools/list"));
    assert!(!listed.to_string().contains("deploy_app"), "{listed}");
    server.close();
}

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[test]
fn websocket_upgrade_needs_a_token() {
    let authority = Authority::new();
    let mut options = options(authority.key_options());
    // Otherwise the handshake of the parity dialect may have the token.
    options.parity.mode = ParityMode::Off;
    let server = TestServer::with_catalog(options, catalog());
    let address = server.http();
    let refused = send(address, "GET", "/mcp/ws", UPGRADE);
    refused.expect_missing_token("Bearer");
    // The query is not looked at unless it is switched on.
    let queried = send(address, "GET", "/mcp/ws?token=key-ada", UPGRADE);
    queried.expect_missing_token("Bearer");
    let fields = format!("{UPGRADE}Authorization: Bearer key-ada\r\n");
    assert_eq!(send(address, "GET", "/mcp/ws", &fields).status, 101);
    server.close();
}

#[test]
fn query_token_is_accepted_if_switched_on() {
    let authority = Authority::new();
    let mut auth = authority.key_options();
    auth.query_token = true;
    let server = start(auth);
    let address = server.http();
    assert_eq!(send(address, "GET", "/mcp/ws?token=key-ada", UPGRADE).status, 101);
    assert_eq!(send(address, "GET", "/mcp/ws?token=key%2Dada", UPGRADE).status, 101);
    let unknown = send(address, "GET", "/mcp/ws?token=key-x", UPGRADE);
    unknown.expect_unknown_key();
    // Only of GET.
    let posted =
        crate::authorization::http::post_with(address, "/mcp?token=key-ada", &call("whoami"), "");
    posted.expect_missing_token("Bearer");
    server.close();
}

#[test]
fn refusal_comes_before_the_body() {
    let authority = Authority::new();
    let server = start(authority.key_options());
    let mut stream = TcpStream::connect(server.http()).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Accept: application/json, text/event-stream\r\nContent-Length: 1000000\r\n\
                MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: whoami\r\n";
    stream.write_all(format!("{head}\r\n").as_bytes()).expect("the head is sent");
    let refused = read(&mut stream);
    refused.expect_missing_token("Bearer");
    assert_eq!(refused.field("Connection"), Some("close"));
    drop(stream);
    // With a token the server asks for the body.
    let mut stream = TcpStream::connect(server.http()).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    let fields = "Authorization: Bearer key-ada\r\nExpect: 100-continue\r\n";
    stream.write_all(format!("{head}{fields}\r\n").as_bytes()).expect("the head is sent");
    assert_eq!(read(&mut stream).status, 100);
    server.close();
}

/// Knows one token.
struct OneToken;

impl TokenVerifier for OneToken {
    fn verify(&self, token: &str, _: u64) -> Result<Principal, TokenError> {
        match token {
            "letmein" => Ok(Principal::new("guest").with_scopes(["tools:deploy"])),
            "away" => Err(TokenError::Unavailable),
            _ => Err(TokenError::Invalid("not known here".into())),
        }
    }
}

#[test]
fn verifier_of_program_decides_first() {
    let mut options: Options = corelane_test_support::http_options();
    options.engine.shards = Some(1);
    let server = Server::builder(catalog()).options(options).token_verifier(OneToken);
    let mut running = server.start().expect("the server starts");
    let address = running.http_address().expect("an address");
    let message = call("deploy_app");
    assert_eq!(
        crate::authorization::http::post(address, &message, Some("letmein")).text(),
        "deployed"
    );
    let refused = crate::authorization::http::post(address, &message, Some("other"));
    let challenge = "Bearer error=\"invalid_token\", error_description=\"not known here\"";
    refused.expect_refused(401, challenge, "invalid_token", "not known here");
    let away = crate::authorization::http::post(address, &message, Some("away"));
    away.expect_unavailable("the token cannot be verified at the moment");
    running.handle().drain();
    block_on(running.wait()).expect("the server ends");
}

/// Starts the program over standard input, with these API keys and a token in the environment.
pub(crate) fn start_stdio(keys: &str, token: Option<&str>) -> Process {
    let mut command = Command::new(CORELANE);
    command.args(["stdio", "--auth-api-keys", keys]).env_clear();
    if let Some(token) = token {
        command.env("MCP_AUTH_TOKEN", token);
    }
    Process::spawn(&mut command)
}

#[test]
fn stdio_takes_token_of_environment() {
    let authority = Authority::new();
    let keys = authority.key_options().api_keys[0].display().to_string();
    for (token, error) in
        [(Some("key-ada"), None), (Some("key-x"), Some(-32010)), (None, Some(-32010))]
    {
        let mut process = start_stdio(&keys, token);
        let mut client = process.take_pipes();
        let answer = client.exchange(initialize(1, LEGACY));
        assert_eq!(answer["error"]["code"].as_i64(), error, "{answer}");
    }
    let mut process = start_stdio(&keys, None);
    let mut client = process.take_pipes();
    let mut with_token = initialize(1, LEGACY);
    with_token["params"]["auth_token"] = json!("key-ada");
    assert!(client.exchange(with_token)["result"].is_object());
}
