//! Violations of RFC 6455 and of the limits: each closes its connection with a specific code, and
//! no other connection.

use corelane_test_support::messages::{LEGACY, call, echo, result_text};
use corelane_test_support::websocket::{
    BINARY, CLOSE, CONTINUATION, FIN, PING, TEXT, encode_frame, text_frame,
};
use corelane_test_support::{TestServer, WebSocketClient, http_options, over_each_ring};
use serde_json::json;

use corelane::options::Utf8CloseCode;

/// Bytes that violate the protocol, and the code of the close frame.
fn protocol_errors() -> Vec<(Vec<u8>, u16)> {
    let mut unmasked = text_frame("{}");
    unmasked[1] &= 0x7f;
    let mut long = vec![FIN | TEXT, 0xfe, 0, 5];
    long.extend(b"\0\0\0\0hello");
    let mut huge = vec![FIN | TEXT, 0xff];
    huge.extend([0xff; 8]);
    huge.extend(b"\0\0\0\0");
    let part = |first: u8| encode_frame(first, b"[");
    vec![
        (encode_frame(FIN | BINARY, b"{}"), 1003),
        (encode_frame(BINARY, b"{"), 1003),
        (encode_frame(FIN | TEXT, b"\"\xff\""), 1007),
        (encode_frame(FIN | TEXT, b"\xff"), 1007),
        (encode_frame(FIN | TEXT, b"\"\xff"), 1007),
        (encode_frame(FIN | TEXT, b"{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\"}"), 1007),
        (encode_frame(FIN | TEXT, &b"\x80".repeat(5_000)), 1007),
        (unmasked, 1002),
        (encode_frame(FIN | 0x40 | TEXT, b"{}"), 1002),
        (encode_frame(FIN | 0x20 | TEXT, b"{}"), 1002),
        (encode_frame(FIN | 0x10 | TEXT, b"{}"), 1002),
        (encode_frame(FIN | 0x3, b"{}"), 1002),
        (encode_frame(FIN | 0xb, b"{}"), 1002),
        (encode_frame(PING, b""), 1002),
        (encode_frame(FIN | PING, &[b'x'; 126]), 1002),
        (encode_frame(FIN | CONTINUATION, b"{}"), 1002),
        ([part(TEXT), part(TEXT)].concat(), 1002),
        ([part(TEXT), part(FIN | TEXT)].concat(), 1002),
        (long, 1002),
        (huge, 1002),
        (encode_frame(FIN | CLOSE, &[3]), 1002),
        (encode_frame(FIN | CLOSE, &999_u16.to_be_bytes()), 1002),
        (encode_frame(FIN | CLOSE, &1005_u16.to_be_bytes()), 1002),
        (encode_frame(FIN | CLOSE, &[&1000_u16.to_be_bytes()[..], b"\xff"].concat()), 1007),
    ]
}

#[test]
fn protocol_error_closes_connection_with_its_code() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut other = WebSocketClient::initialize(server.address(), LEGACY);
        let errors = protocol_errors();
        for (bytes, code) in &errors {
            eprintln!("{code}: {}", bytes[..bytes.len().min(40)].escape_ascii());
            let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
            // Complete messages before the error get a response; calls in flight are cancelled.
            peer.send_message(&call("it", "until-cancelled", json!({})));
            assert_eq!(server.next_signal(), "begun");
            let before = echo(1, "before");
            peer.register_request(&before);
            peer.send_bytes(&[text_frame(&before), bytes.clone()].concat());
            assert_eq!(result_text(&peer.read_message()), "before");
            peer.expect_close(*code);
            assert_eq!(server.next_signal(), "cancelled");
            assert_eq!(result_text(&other.exchange(&echo(2, "unharmed"))), "unharmed");
        }
        other.close(1000);
        let counters = server.close();
        let closed = &counters.websockets;
        let of = |code| errors.iter().filter(|error| error.1 == code).count() as u64;
        assert_eq!(closed.closed_protocol_error, of(1002), "{counters}");
        assert_eq!(closed.closed_unsupported, of(1003), "{counters}");
        assert_eq!(closed.closed_invalid_data, of(1007), "{counters}");
        assert_eq!(counters.input_errors.utf8, of(1007), "{counters}");
        assert_eq!(
            counters.connections.closed_protocol_violation,
            errors.len() as u64,
            "{counters}"
        );
        assert_eq!(counters.requests.cancelled, errors.len() as u64, "{counters}");
    });
}

#[test]
fn protocol_error_split_at_any_byte_is_detected() {
    let server = TestServer::with_test_tools(http_options());
    for (bytes, code) in protocol_errors() {
        for cut in 1..bytes.len().min(20) {
            let mut peer = WebSocketClient::connect(server.address());
            peer.send_bytes(&bytes[..cut]);
            // The first part may close the connection already.
            peer.try_send_bytes(&bytes[cut..]).ok();
            peer.expect_close(code);
        }
    }
    server.close();
}

#[test]
fn invalid_utf8_gets_the_configured_close_code() {
    over_each_ring(http_options(), |mut options| {
        options.websocket.utf8_close_code = Utf8CloseCode::ProtocolError;
        let server = TestServer::with_test_tools(options);
        for (bytes, code) in protocol_errors() {
            let mut peer = WebSocketClient::connect(server.address());
            peer.send_bytes(&bytes);
            peer.expect_close(if code == 1007 { 1002 } else { code });
        }
        let counters = server.close();
        assert_eq!(counters.websockets.closed_invalid_data, 0, "{counters}");
    });
}

#[test]
fn oversized_message_gets_1009_from_its_header() {
    over_each_ring(http_options(), |mut options| {
        options.limits.message_bytes_max = 10_000;
        let server = TestServer::with_test_tools(options);
        let whole = encode_frame(FIN | TEXT, &[b' '; 10_001]);
        let second = encode_frame(FIN | CONTINUATION, &[b' '; 5_001]);
        let parts = [encode_frame(TEXT, &[b' '; 5_000]), second].concat();
        for bytes in [&whole[..], &whole[..8], &parts, &parts[..parts.len() - 5_001]] {
            let mut peer = WebSocketClient::connect(server.address());
            peer.send_bytes(bytes);
            peer.expect_close(1009);
        }
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        let mut most = echo(1, "as long as may be").to_string();
        most.push_str(&" ".repeat(10_000 - most.len()));
        peer.send_bytes(&text_frame(most));
        assert_eq!(result_text(&peer.read_message()), "as long as may be");
        peer.close(1000);
        let counters = server.close();
        assert_eq!(counters.websockets.closed_too_big, 4, "{counters}");
        assert_eq!(counters.input_errors.oversize, 4, "{counters}");
    });
}

#[test]
fn exhausted_memory_sends_error_and_closes_with_1011() {
    over_each_ring(http_options(), |mut options| {
        options.limits.memory_bytes_max = 100_000;
        options.limits.message_bytes_max = 90_000;
        let server = TestServer::with_test_tools(options);
        let peers = (0..2).map(|_| WebSocketClient::connect(server.address()));
        let peers: Vec<WebSocketClient> = peers
            .map(|mut peer| {
                peer.send(TEXT, &vec![b' '; 60_000]);
                peer
            })
            .collect();
        // The memory suffices for one of them.
        let refused: Vec<bool> = peers
            .into_iter()
            .map(|mut peer| {
                peer.try_send_bytes(&encode_frame(FIN | PING, b"")).ok();
                let frame = peer.read_frame().expect("connection closed before a frame");
                if frame.payload().is_empty() {
                    return false;
                }
                let text = frame.to_text().expect("not UTF-8");
                assert!(text.contains("-32603") && text.contains("memory"), "{text}");
                peer.expect_close(1011);
                true
            })
            .collect();
        assert_eq!(refused.iter().filter(|it| **it).count(), 1, "{refused:?}");
        let counters = server.close();
        assert_eq!(counters.input_errors.memory, 1, "{counters}");
        assert_eq!(counters.websockets.closed_internal, 1, "{counters}");
    });
}
