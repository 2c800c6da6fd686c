//! Calls over WebSocket: to the server of this library, to one by tungstenite, and to servers that
//! violate RFC 6455.

use std::error::Error;
use std::io::{Read, Write};
use std::sync::mpsc;
use std::time::Duration;

use corelane::Client;
use corelane::client::{ClientBuilder, ClientError, ClientErrorKind, ReconnectOptions};
use corelane::testing::block_on;
use corelane_test_support::{TIMEOUT, TestServer, http_options, run_program};
use serde_json::{Value, json};
use tungstenite::handshake::derive_accept_key;

use super::websocket_peer::{WebSocketPeer, accept, read_head, serve};
use super::{ERAS, expect_revision, response};

use crate::CORELANE;

/// A client of the WebSocket endpoint of `server`.
pub(crate) fn client_of(server: &TestServer) -> ClientBuilder {
    Client::builder(format!("ws://{}", server.http()).as_str())
}

fn text_result(request: &Value, text: &str) -> Value {
    response(request, &json!({ "content": [{ "type": "text", "text": text }] }))
}

/// Returns the error that caused `error`.
fn cause(error: &ClientError) -> &ClientError {
    error.source().and_then(|source| source.downcast_ref()).expect("a cause")
}

#[test]
fn websocket_serves_calls_in_every_era() {
    let server = TestServer::start(http_options());
    for era in ERAS {
        let client = client_of(&server).era(era).connect_blocking().unwrap();
        for message in ["hi", &"long ".repeat(100_000)] {
            let result = client.call_tool("echo", &json!({ "message": message })).wait().unwrap();
            assert_eq!(result.text(), message, "{era:?}");
        }
        expect_revision(&client, era);
        block_on(client.close());
    }
    let counters = server.close();
    assert_eq!(counters.connections.accepted, ERAS.len() as u64);
}

#[test]
fn fragments_and_pings_of_tungstenite_are_handled() {
    let (builder, peer) = serve(|listener| {
        let mut peer = WebSocketPeer::accept(listener).handshake();
        let call = peer.receive();
        let text = text_result(&call, "in parts é").to_string();
        // Cut inside a character, with a ping between the fragments.
        let (start, end) = text.as_bytes().split_at(text.find('é').unwrap() + 1);
        let header = |first: u8, length: usize| [first, u8::try_from(length).unwrap()];
        peer.send_bytes(&header(0x01, start.len()));
        peer.send_bytes(start);
        peer.send_bytes(b"\x89\x04ping");
        peer.send_bytes(&header(0x80, end.len()));
        peer.send_bytes(end);
        assert_eq!(peer.receive_pong(), b"ping");
        assert_eq!(peer.expect_close(), Some(1000));
    });
    let client = builder.connect_blocking().unwrap();
    let result = client.call_tool("a", &json!({})).wait().unwrap();
    assert_eq!(result.text(), "in parts é");
    block_on(client.close());
    peer.join().unwrap();
}

#[test]
fn idle_connection_is_pinged_and_kept() {
    let (pinged_tx, pinged_rx) = mpsc::channel();
    let (builder, peer) = serve(move |listener| {
        let mut peer = WebSocketPeer::accept(listener).handshake();
        // The second ping follows the pong to the first.
        peer.receive_ping();
        peer.receive_ping();
        pinged_tx.send(()).unwrap();
        let call = peer.receive();
        peer.send(&text_result(&call, "kept"));
        assert_eq!(peer.expect_close(), Some(1000));
    });
    let mut options = ReconnectOptions::default();
    options.ping_interval = Some(Duration::from_millis(500));
    let client = builder.reconnect(options).connect_blocking().unwrap();
    pinged_rx.recv_timeout(TIMEOUT).unwrap();
    assert_eq!(client.call_tool("a", &json!({})).wait().unwrap().text(), "kept");
    block_on(client.close());
    peer.join().unwrap();
}

#[test]
fn headers_are_sent_with_the_upgrade_request() {
    let (builder, peer) = serve(|listener| {
        let head = read_head(&mut accept(listener));
        assert!(head.starts_with("GET /mcp/ws HTTP/1.1\r\n"), "{head}");
        assert!(head.contains("\r\nAuthorization: Bearer secret\r\n"), "{head}");
        assert!(head.contains("\r\nX-A: b\r\n"), "{head}");
    });
    builder.bearer("secret").header("X-A", "b").connect_blocking().unwrap_err();
    peer.join().unwrap();
    let error = Client::builder("ws://a").header("Sec-WebSocket-Key", "a").connect_blocking();
    assert_eq!(error.unwrap_err().kind(), ClientErrorKind::InvalidInput);
}

#[test]
fn invalid_frame_closes_with_its_code() {
    let mut long = b"\x81\x7f".to_vec();
    long.extend((16_u64 << 20).wrapping_add(1).to_be_bytes());
    for (bytes, code, reason) in [
        (&b"\x81\x82\0\0\0\0{}"[..], 1002, "masked"),
        (b"\xc1\x02{}", 1002, "reserved bit"),
        (b"\x83\x00", 1002, "opcode"),
        (b"\x80\x02{}", 1002, "continuation"),
        (b"\x01\x01{\x81\x02{}", 1002, "begins inside"),
        (b"\x09\x00", 1002, "fragmented"),
        (b"\x82\x02{}", 1003, "binary"),
        (b"\x81\x02\"\xff", 1007, "UTF-8"),
        (b"\x81\x02\"\xc3", 1007, "UTF-8"),
        (b"\x01\x02\"\xc3\x80\x01\"", 1007, "UTF-8"),
        (b"\x88\x02\x03\xed", 1002, "close code"),
        (b"\x88\x01\x03", 1002, "truncated"),
        (&long[..], 1009, "too big"),
    ] {
        let bytes = bytes.to_vec();
        let (builder, peer) = serve(move |listener| {
            let mut peer = WebSocketPeer::accept(listener).handshake();
            peer.receive();
            peer.send_bytes(&bytes);
            assert_eq!(peer.expect_close(), Some(code), "{}", bytes.escape_ascii());
        });
        let client = builder.connect_blocking().unwrap();
        let error = client.call_tool("a", &json!({})).wait().unwrap_err();
        assert_eq!(error.kind(), ClientErrorKind::Closed);
        let cause = cause(&error);
        assert_eq!(cause.kind(), ClientErrorKind::Protocol);
        assert!(cause.to_string().contains(reason), "{cause}");
        peer.join().unwrap();
    }
}

#[test]
fn refused_upgrade_fails_connect_with_its_reason() {
    use ClientErrorKind::{Http, Protocol, Unauthorized};
    let switch =
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n";
    let length = "Content-Length: 4\r\n\r\nnope";
    for (answer, kind, reason) in [
        (
            format!("HTTP/1.1 401 Unauthorized\r\n{length}"),
            Unauthorized { challenge: None },
            "nope",
        ),
        (format!("HTTP/1.1 404 Not Found\r\n{length}"), Http { status: 404 }, "nope"),
        (format!("HTTP/1.1 200 OK\r\n{length}"), Http { status: 200 }, "nope"),
        ("SSH-2.0-OpenSSH\r\n\r\n".to_owned(), Protocol, "HTTP/1.1"),
        (format!("{switch}\r\n"), Protocol, "Sec-WebSocket-Accept"),
        (format!("{switch}Sec-WebSocket-Accept: AAAA\r\n\r\n"), Protocol, "Sec-WebSocket-Accept"),
        (format!("{switch}ACCEPT\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"), Protocol, "subproto"),
        (format!("{switch}ACCEPT\r\nSec-WebSocket-Extensions: x\r\n\r\n"), Protocol, "extension"),
        (switch.replace("Upgrade\r\n", "close\r\n") + "ACCEPT\r\n\r\n", Protocol, "Connection"),
    ] {
        let (builder, peer) = serve(move |listener| {
            let mut socket = accept(listener);
            let head = read_head(&mut socket);
            let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
            let accept = derive_accept_key(key.expect("a key").as_bytes());
            let accept = format!("Sec-WebSocket-Accept: {accept}");
            socket.write_all(answer.replace("ACCEPT", &accept).as_bytes()).unwrap();
            assert_eq!(socket.read(&mut [0]).unwrap(), 0);
        });
        let error = builder.connect_blocking().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(reason), "{error}");
        peer.join().unwrap();
    }
}

#[test]
fn unanswered_upgrade_times_out() {
    let (builder, peer) = serve(|listener| {
        let mut socket = accept(listener);
        read_head(&mut socket);
        assert_eq!(socket.read(&mut [0]).unwrap(), 0);
    });
    let builder = builder.connect_timeout(Duration::from_millis(20));
    let error = builder.connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Connect, "{error}");
    peer.join().unwrap();
}

#[test]
fn upgrade_cut_off_fails_connect() {
    let (builder, peer) = serve(|listener| {
        let mut socket = accept(listener);
        read_head(&mut socket);
        socket.write_all(b"HTTP/1.1 101 Switching").unwrap();
    });
    let error = builder.connect_blocking().unwrap_err();
    assert_eq!(error.kind(), ClientErrorKind::Closed, "{error}");
    peer.join().unwrap();
}

#[test]
fn oversized_fragments_close_with_1009() {
    let (builder, peer) = serve(|listener| {
        let mut peer = WebSocketPeer::accept(listener).handshake();
        peer.receive();
        let mut fragment = vec![0x01, 0x7f];
        fragment.extend((8_u64 << 20).to_be_bytes());
        fragment.resize(fragment.len() + (8 << 20), b'x');
        peer.send_bytes(&fragment);
        fragment[0] = 0;
        peer.send_bytes(&fragment);
        peer.send_bytes(b"\x80\x01x");
        assert_eq!(peer.expect_close(), Some(1009));
    });
    let client = builder.connect_blocking().unwrap();
    let error = client.call_tool("a", &json!({})).wait().unwrap_err();
    assert!(cause(&error).to_string().contains("too big"), "{error}");
    peer.join().unwrap();
}

#[test]
fn command_calls_a_tool_over_websocket() {
    let server = TestServer::start(http_options());
    let target = format!("ws://{}/mcp/ws", server.http());
    let result = run_program(CORELANE, ["call", &target, "echo", "message=hi"]);
    assert_eq!((result.status, result.stdout.as_str(), result.stderr.as_str()), (0, "hi\n", ""));
}
