//! A token in a message over TCP, standard input or WebSocket decides for its message.

use corelane_test_support::TestServer;
use corelane_test_support::messages::{initialize, modern, notification, request_without_params};
use corelane_test_support::process::Process;
use corelane_test_support::sockets;
use corelane_test_support::websocket::{WebSocketClient, upgrade_request};
use serde_json::{Value, json};

use crate::authorization::transports::start_stdio;
use crate::authorization::{Authority, call, catalog, options, start};

const LEGACY: &str = "2025-11-25";

/// Sends a message and returns its response.
type Exchange<'e> = dyn FnMut(&Value) -> Value + 'e;

/// Adds a token to a message.
fn with_token(mut message: Value, token: &str) -> Value {
    message["params"]["_meta"]["auth_token"] = json!(token);
    message
}

fn caller_of(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{response}"))
}

/// Checks a connection of `key-ada` on which a message is `of_era`.
fn expect_token_decides(exchange: &mut Exchange<'_>, of_era: fn(Value) -> Value) {
    let whoami = || of_era(call("whoami"));
    for tool in ["whoami", "whoami_local"] {
        let whoami = || of_era(call(tool));
        assert!(caller_of(&exchange(&with_token(whoami(), "key-bob"))).starts_with("bob"));
        assert!(caller_of(&exchange(&whoami())).starts_with("ada"));
        assert!(caller_of(&exchange(&with_token(whoami(), "key-ada"))).starts_with("ada"));
    }
    // The rights are those of the token, too.
    let deploy = || of_era(call("deploy_app"));
    let refused = exchange(&with_token(deploy(), "key-ada"));
    assert_eq!(refused["error"]["code"], -32011, "{refused}");
    // An invalid token refuses its message only.
    let refused = exchange(&with_token(whoami(), "key-x"));
    assert_eq!(refused["error"]["code"], -32010, "{refused}");
    assert_eq!(refused["error"]["message"], "the token is unknown");
    assert_eq!(caller_of(&exchange(&whoami())), "ada (admin)");
}

/// Checks that methods that begin or last do not change the caller of a connection of `key-ada`.
fn expect_no_takeover(exchange: &mut Exchange<'_>) {
    let discover = with_token(modern(request_without_params(7, "server/discover")), "key-bob");
    let discovered = exchange(&discover);
    assert!(discovered["result"].is_object(), "{discovered}");
    assert_eq!(caller_of(&exchange(&modern(call("whoami")))), "ada (admin)");
    let mut listen = modern(request_without_params(8, "subscriptions/listen"));
    listen["params"]["notifications"] = json!({"toolsListChanged": true});
    let refused = exchange(&with_token(listen, "key-bob"));
    assert_eq!(refused["error"]["code"], -32010, "{refused}");
    assert_eq!(caller_of(&exchange(&modern(call("whoami")))), "ada (admin)");
}

fn legacy(message: Value) -> Value {
    message
}

fn start_server(authority: &Authority) -> TestServer {
    start(authority.key_options())
}

#[test]
fn token_decides_for_modern_tcp_message() {
    let authority = Authority::new();
    let server = start_server(&authority);
    let mut client = server.connect_tcp();
    let first = with_token(modern(call("whoami")), "key-ada");
    assert_eq!(caller_of(&client.exchange(first)), "ada (admin)");
    let mut exchange = |message: &Value| client.exchange(message);
    expect_token_decides(&mut exchange, modern);
    expect_no_takeover(&mut exchange);
    drop(client);
    server.close();
}

#[test]
fn token_decides_for_legacy_tcp_message() {
    let authority = Authority::new();
    let server = start_server(&authority);
    let mut client = server.connect_tcp();
    let mut begin = initialize(1, LEGACY);
    begin["params"]["auth_token"] = json!("key-ada");
    assert!(client.exchange(begin)["result"].is_object());
    client.send(notification("notifications/initialized"));
    expect_token_decides(&mut |message| client.exchange(message), legacy);
    drop(client);
    server.close();
}

/// Opens a WebSocket with the token of Ada.
fn open_websocket(server: &TestServer) -> WebSocketClient {
    let upgrade = upgrade_request().field("Authorization", "Bearer key-ada");
    let (_, client) = WebSocketClient::upgrade(sockets::connect(server.http()), &upgrade.bytes());
    client
}

#[test]
fn token_decides_for_websocket_message() {
    let authority = Authority::new();
    let server = start_server(&authority);
    let mut client = open_websocket(&server);
    let mut exchange = |message: &Value| client.exchange(message);
    expect_token_decides(&mut exchange, modern);
    expect_no_takeover(&mut exchange);
    drop(client);
    let mut client = open_websocket(&server).handshake(LEGACY);
    expect_token_decides(&mut |message| client.exchange(message), legacy);
    drop(client);
    server.close();
}

#[test]
fn token_decides_for_stdio_message() {
    let authority = Authority::new();
    let keys = authority.key_options().api_keys[0].display().to_string();
    let mut process: Process = start_stdio(&keys, Some("key-ada"));
    let mut client = process.take_pipes();
    // The demo tools do not name their caller: a refusal tells whether the token was read.
    let ping = || modern(call("echo"));
    let refused = client.exchange(with_token(ping(), "key-x"));
    assert_eq!(refused["error"]["message"], "the token is unknown");
    let served = client.exchange(with_token(ping(), "key-bob"));
    assert_ne!(served["error"]["code"], -32010, "{served}");
    let served = client.exchange(ping());
    assert_ne!(served["error"]["code"], -32010, "{served}");
}

#[test]
fn anonymous_connection_stays_anonymous() {
    let authority = Authority::new();
    let mut auth = authority.key_options();
    auth.anonymous = true;
    let server = TestServer::with_catalog(options(auth), catalog());
    let mut tcp = server.connect_tcp();
    let (_, mut websocket) =
        WebSocketClient::upgrade(sockets::connect(server.http()), &upgrade_request().bytes());
    let whoami = || modern(call("whoami"));
    for (token, caller) in
        [(None, "anonymous"), (Some("key-bob"), "bob (user)"), (None, "anonymous")]
    {
        let message = token.map_or_else(whoami, |token| with_token(whoami(), token));
        assert_eq!(caller_of(&tcp.exchange(&message)), caller);
        assert_eq!(caller_of(&websocket.exchange(&message)), caller);
    }
    let refused = tcp.exchange(with_token(whoami(), "key-x"));
    assert_eq!(refused["error"]["code"], -32010, "{refused}");
    assert_eq!(caller_of(&tcp.exchange(whoami())), "anonymous");
    drop((tcp, websocket));
    server.close();
}

/// A message of more than 64 KiB.
fn large(mut message: Value) -> Value {
    message["params"]["_meta"]["padding"] = json!("x".repeat(256 << 10));
    message
}

#[test]
fn large_tcp_message_needs_accepted_token() {
    let authority = Authority::new();
    let server = start_server(&authority);
    let whoami = || with_token(modern(call("whoami")), "key-ada");
    let mut client = server.connect_tcp();
    // The server may close the connection before all of it is sent.
    client.try_send(large(whoami())).ok();
    let refused: Value =
        client.receive_line_or_reset().map_or(Value::Null, |line| line.parse().expect("a message"));
    if !refused.is_null() {
        assert_eq!(refused["error"]["code"], -32012, "{refused}");
        assert_eq!(refused["id"], whoami()["id"], "{refused}");
    }
    client.expect_end_or_reset();
    let mut client = server.connect_tcp();
    assert!(caller_of(&client.exchange(whoami())).starts_with("ada"));
    assert!(caller_of(&client.exchange(large(whoami()))).starts_with("ada"));
    drop(client);
    assert_eq!(server.close().input_errors.oversize, 1);
}
