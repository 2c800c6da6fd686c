//! Keys that are withdrawn while the server runs.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::json;

use crate::http::{initialize, post};
use crate::{Authority, TestIssuer, call, hash_of, options, start};

#[test]
fn withdrawn_key_is_refused_on_open_connections() {
    let authority = Authority::new();
    let auth = authority.key_options();
    let path = auth.api_keys[0].clone();
    let server = start(auth.clone());
    let mut client = server.connect_tcp();
    let mut with_token = initialize();
    with_token["params"]["auth_token"] = json!("key-bob");
    assert!(client.exchange(&with_token)["result"].is_object());
    assert_eq!(post(server.http(), &call("whoami"), Some("key-bob")).text(), "bob (user)");
    fs::write(&path, format!("ada:{}:admin\n", hash_of("key-ada"))).unwrap();
    server.handle().reload_auth(&options(auth.clone())).unwrap();
    assert_eq!(post(server.http(), &call("whoami"), Some("key-ada")).text(), "ada (admin)");
    assert_eq!(post(server.http(), &call("whoami"), Some("key-bob")).status, 401);
    client.expect_end_or_reset();
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
    assert_eq!(post(server.http(), &call("whoami"), Some(&old)).status, 401);
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
    assert_eq!(post(server.http(), &call("whoami"), Some("key-bob")).status, 403);
    server.close();
}

#[test]
fn stream_of_withdrawn_key_ends() {
    let authority = Authority::new();
    let auth = authority.key_options();
    let path = auth.api_keys[0].clone();
    let server = start(auth.clone());
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let listen = json!({"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen",
                        "params": filter});
    let mut stream = open_stream(server.http(), &listen, "key-bob");
    let mut text = String::new();
    let mut bytes = [0; 1024];
    while !text.contains("acknowledged") {
        let length = stream.read(&mut bytes).unwrap();
        assert!(length > 0, "{text}");
        text.push_str(&String::from_utf8_lossy(&bytes[..length]));
    }
    text.clear();
    fs::write(&path, format!("ada:{}:admin\n", hash_of("key-ada"))).unwrap();
    server.handle().reload_auth(&options(auth)).unwrap();
    // The stream ends with the result of its request.
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("\"result\""), "{text}");
    server.close();
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
