//! Keys that are withdrawn, and tokens that expire, while the server runs.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use corelane_engine::clock::unix_ms;
use corelane_test_support::messages::LEGACY;
use corelane_test_support::sockets;
use corelane_test_support::websocket::{CLOSE, FIN, WebSocketClient, upgrade_request};
use serde_json::json;
use tungstenite::protocol::frame::coding::Control;

use crate::authorization::http::{initialize, post};
use crate::authorization::{Authority, TestIssuer, call, hash_of, options, start};

#[test]
fn withdrawn_key_is_refused_on_open_connections() {
    let authority = Authority::new();
    let auth = authority.key_options();
    let path = auth.api_keys[0].clone();
    let server = start(auth.clone());
    let mut with_token = initialize();
    with_token["params"]["auth_token"] = json!("key-bob");
    // More than are checked in one turn.
    let mut clients: Vec<_> = (0..80).map(|_| server.connect_tcp()).collect();
    for client in &mut clients {
        assert!(client.exchange(&with_token)["result"].is_object());
    }
    assert_eq!(post(server.http(), &call("whoami"), Some("key-bob")).text(), "bob (user)");
    fs::write(&path, format!("ada:{}:admin\n", hash_of("key-ada"))).unwrap();
    server.handle().reload_auth(&options(auth.clone())).unwrap();
    assert_eq!(post(server.http(), &call("whoami"), Some("key-ada")).text(), "ada (admin)");
    let withdrawn = post(server.http(), &call("whoami"), Some("key-bob"));
    withdrawn.expect_unknown_key();
    for client in &mut clients {
        client.expect_end_or_reset();
    }
    // A file that cannot be read changes nothing.
    fs::write(&path, "broken").unwrap();
    assert!(server.handle().reload_auth(&options(auth)).is_err());
    assert_eq!(post(server.http(), &call("whoami"), Some("key-ada")).text(), "ada (admin)");
    server.close();
}

#[test]
fn rotated_key_set_replaces_keys() {
    let authority = Authority::new();
    let auth = authority.jwt_options();
    let server = start(auth.clone());
    let old = authority.issuer.token("ada", "");
    assert_eq!(post(server.http(), &call("whoami"), Some(&old)).status, 200);
    let next = TestIssuer::with_key("key-2");
    authority.write("keys.json", &next.key_set().to_string());
    server.handle().reload_auth(&options(auth)).unwrap();
    let refused = post(server.http(), &call("whoami"), Some(&old));
    refused.expect_invalid_token("the issuer has no key with the id of the token");
    assert_eq!(post(server.http(), &call("whoami"), Some(&next.token("ada", ""))).status, 200);
    server.close();
}

#[test]
fn changed_rules_apply_at_once() {
    let authority = Authority::new();
    let auth = authority.key_options();
    let server = start(auth.clone());
    assert_eq!(post(server.http(), &call("whoami"), Some("key-bob")).status, 200);
    let mut stricter = auth;
    stricter.rules = vec!["tools/call whoami tier=admin".to_owned()];
    server.handle().reload_auth(&options(stricter)).unwrap();
    post(server.http(), &call("whoami"), Some("key-bob")).expect_admin_required();
    server.close();
}

#[test]
fn websocket_of_withdrawn_key_closes_with_1008() {
    let authority = Authority::new();
    let auth = authority.key_options();
    let path = auth.api_keys[0].clone();
    let server = start(auth.clone());
    let upgrade = upgrade_request().field("Authorization", "Bearer key-bob");
    let stream = sockets::connect(server.http());
    let (_, client) = WebSocketClient::upgrade(stream, &upgrade.bytes());
    let mut client = client.handshake(LEGACY);
    fs::write(&path, format!("ada:{}:admin\n", hash_of("key-ada"))).unwrap();
    server.handle().reload_auth(&options(auth)).unwrap();
    let close = client.read_control(Control::Close);
    assert_eq!(close, [&1008_u16.to_be_bytes()[..], b"the token is no longer valid"].concat());
    client.send(FIN | CLOSE, &close[..2]);
    client.expect_eof();
    let counters = server.close();
    assert_eq!(counters.websockets.closed_policy, 1, "{counters}");
    assert_eq!(counters.connections.closed_invalid_credential, 1, "{counters}");
}

#[test]
fn stream_of_withdrawn_key_ends() {
    let authority = Authority::new();
    let auth = authority.key_options();
    let path = auth.api_keys[0].clone();
    let server = start(auth.clone());
    let mut stream = open_acknowledged_stream(server.http(), "key-bob");
    fs::write(&path, format!("ada:{}:admin\n", hash_of("key-ada"))).unwrap();
    server.handle().reload_auth(&options(auth)).unwrap();
    // The stream ends with the result of its request.
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("\"result\""), "{text}");
    server.close();
}

#[test]
fn stream_of_expired_token_ends() {
    let authority = Authority::new();
    let mut auth = authority.jwt_options();
    auth.leeway = Duration::ZERO;
    let server = start(auth);
    let mut claims = authority.issuer.claims("ada", "");
    let expires_at = claims["iat"].as_u64().unwrap() + 4;
    claims["exp"] = json!(expires_at);
    let token = authority.issuer.sign(&claims);
    let mut stream = open_acknowledged_stream(server.http(), &token);
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let now = unix_ms() / 1_000;
    assert!(text.contains("\"result\"") && now >= expires_at, "{text}");
    let refused = post(server.http(), &call("whoami"), Some(&token));
    refused.expect_invalid_token("the token has expired");
    server.close();
}

/// Opens a stream of notifications, and waits until the server has acknowledged it.
fn open_acknowledged_stream(address: SocketAddr, key: &str) -> TcpStream {
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let listen = json!({"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen",
                        "params": filter});
    let mut stream = open_stream(address, &listen, key);
    let (mut text, mut bytes) = (String::new(), [0; 1024]);
    while !text.contains("acknowledged") {
        let length = stream.read(&mut bytes).expect("the start of the stream");
        assert!(length > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
    stream
}

/// Sends a request whose response is a stream that ends with its connection.
fn open_stream(address: SocketAddr, message: &serde_json::Value, key: &str) -> TcpStream {
    let mut message = message.clone();
    message["params"]["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let text = message.to_string();
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    let length = text.len();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nAuthorization: Bearer {key}\r\n\
         MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n\
         Connection: close\r\nContent-Length: {length}\r\n\r\n{text}"
    );
    stream.write_all(head.as_bytes()).expect("the request is sent");
    stream
}
