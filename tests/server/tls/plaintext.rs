//! Clients that do not speak TLS, or stop to.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use corelane_test_support::{TestServer, over_each_ring};

use super::{Authority, echo};

/// Sends bytes and returns all that the server sends until it closes the connection.
fn send(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(bytes).expect("it is open");
    let mut received = Vec::new();
    // A reset ends it as well.
    stream.read_to_end(&mut received).ok();
    received
}

#[test]
fn http_without_tls_gets_400() {
    let authority = Authority::new();
    over_each_ring(authority.server_options(), |options| {
        let server = TestServer::start(options);
        let received = send(server.http(), b"GET /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n");
        let text = String::from_utf8(received).unwrap();
        assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\nThis port speaks TLS only: use https:// or wss://\n"));
    });
}

#[test]
fn line_without_tls_gets_error() {
    let authority = Authority::new();
    let server = TestServer::start(authority.server_options());
    let line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n";
    let text = String::from_utf8(send(server.tcp(), line)).unwrap();
    assert!(text.contains("this port speaks TLS only"), "{text}");
}

#[test]
fn garbage_gets_alert_and_others_are_served() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    options.tls.handshake_timeout = Duration::from_millis(200);
    let server = TestServer::start(options);
    let client = authority.client("https", server.http().port()).connect_blocking().unwrap();
    let truncated = b"\x16\x03\x01\x00\x10\x01\x00\x00\xff\x03\x03short";
    for bytes in [&b"\x00\x01\x02\x03\x04\x05\x06\x07"[..], &b"\xff".repeat(200), truncated] {
        let received = send(server.http(), bytes);
        // An alert (RFC 8446 section 6), unless the handshake is merely incomplete.
        assert!(received.is_empty() || received[0] == 21, "{received:?}");
    }
    assert_eq!(echo(&client, "hi").unwrap(), "hi");
}

#[test]
fn silent_client_is_closed_in_time() {
    let authority = Authority::new();
    let mut options = authority.server_options();
    options.tls.handshake_timeout = Duration::from_millis(100);
    let server = TestServer::start(options);
    for begin in [&b""[..], b"\x16\x03\x01\x02\x00\x01"] {
        let mut stream = TcpStream::connect(server.http()).unwrap();
        stream.write_all(begin).unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).ok();
    }
}
