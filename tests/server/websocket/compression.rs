//! permessage-deflate (RFC 7692): negotiation, both directions, and limits.

use std::net::TcpStream;

use corelane_test_support::messages::{echo, expect_error, modern, result_text};
use corelane_test_support::websocket::{CONTINUATION, FIN, TEXT, encode_frame, upgrade_request};
use corelane_test_support::{TestServer, WebSocketClient, http_options, over_each_ring};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use serde_json::Value;

use corelane::Options;

/// The RSV1 bit, which marks a compressed message.
const RSV1: u8 = 0x40;

fn deflate(text: &[u8]) -> Vec<u8> {
    let mut compress = Compress::new(Compression::best(), false);
    let mut out = Vec::with_capacity(text.len() + 64);
    compress.compress_vec(text, &mut out, FlushCompress::Sync).expect("compress");
    out.truncate(out.len() - 4);
    out
}

fn inflate(bytes: &[u8]) -> String {
    let mut out = Vec::with_capacity(1 << 20);
    let bytes = [bytes, &[0, 0, 0xff, 0xff]].concat();
    let mut decompress = Decompress::new(false);
    decompress.decompress_vec(&bytes, &mut out, FlushDecompress::Sync).expect("decompress");
    String::from_utf8(out).expect("not UTF-8")
}

fn connect_with_deflate(server: &TestServer) -> WebSocketClient {
    let request = upgrade_request().field("Sec-WebSocket-Extensions", "permessage-deflate");
    let stream = TcpStream::connect(server.address()).expect("connect");
    let (head, peer) = WebSocketClient::upgrade(stream, &request.bytes());
    let agreed = head.field("Sec-WebSocket-Extensions").expect("no extension");
    assert!(agreed.starts_with("permessage-deflate"), "{agreed}");
    peer
}

/// Reads the next message, which may be compressed.
fn read_message(peer: &mut WebSocketClient) -> Value {
    let frame = peer.read_frame().expect("connection closed before a message");
    let text = if frame.header().rsv1 {
        inflate(frame.payload())
    } else {
        frame.to_text().expect("not UTF-8").to_owned()
    };
    serde_json::from_str(&text).expect("not JSON")
}

fn enable_deflate(options: &mut Options) {
    options.websocket.deflate = true;
    options.limits.message_bytes_max = 1 << 20;
}

#[test]
fn negotiated_deflate_compresses_both_directions() {
    over_each_ring(http_options(), |mut options| {
        enable_deflate(&mut options);
        let server = TestServer::with_test_tools(options);
        let mut peer = connect_with_deflate(&server);
        let message = "again and again, ".repeat(500);
        for id in 0..3 {
            let call = modern(echo(id, &message)).to_string();
            let bytes = deflate(call.as_bytes());
            peer.send(FIN | RSV1 | TEXT, &bytes);
            let frame = peer.read_frame().expect("connection closed before a message");
            assert!(frame.header().rsv1 && frame.payload().len() < 500, "{frame:?}");
            let response: Value =
                serde_json::from_str(&inflate(frame.payload())).expect("not JSON");
            assert_eq!(result_text(&response), message);
        }
        // Fragmented, with RSV1 only in the first frame; then an uncompressed message.
        let call = modern(echo(3, &message)).to_string();
        let bytes = deflate(call.as_bytes());
        let (first, second) = bytes.split_at(bytes.len() / 2);
        peer.send_bytes(&encode_frame(RSV1 | TEXT, first));
        peer.send_bytes(&encode_frame(FIN | CONTINUATION, second));
        assert_eq!(result_text(&read_message(&mut peer)), message);
        peer.send(FIN | TEXT, modern(echo(4, "plain")).to_string().as_bytes());
        assert_eq!(result_text(&read_message(&mut peer)), "plain");
        // Several lines in one message, one of them invalid.
        let lines = format!("{}\n{{\n{}", modern(echo(5, "a")), modern(echo(6, "b")));
        peer.send(FIN | RSV1 | TEXT, &deflate(lines.as_bytes()));
        assert_eq!(result_text(&read_message(&mut peer)), "a");
        expect_error(&read_message(&mut peer), -32700, None);
        assert_eq!(result_text(&read_message(&mut peer)), "b");
        peer.close(1000);
        // A peer that does not offer the extension gets uncompressed messages.
        let mut plain = WebSocketClient::connect(server.address());
        assert_eq!(result_text(&plain.exchange(&modern(echo(1, &message)))), message);
        plain.close(1000);
        server.close();
    });
}

#[test]
fn invalid_or_oversized_deflate_closes_the_connection() {
    over_each_ring(http_options(), |mut options| {
        enable_deflate(&mut options);
        let low_ratio = options.clone();
        options.websocket.deflate_ratio_max = 2_000;
        let server = TestServer::with_test_tools(options);
        let spaces = |bytes: usize| deflate(&vec![b' '; bytes]);
        let not_utf8 = deflate(b"\"\xff\"");
        for (payload, code) in
            [(spaces(2 << 20), 1009), (b"\xff\xff\xff\xff".to_vec(), 1007), (not_utf8, 1007)]
        {
            let mut peer = connect_with_deflate(&server);
            peer.send(FIN | RSV1 | TEXT, &payload);
            peer.expect_close(code);
        }
        let counters = server.close();
        let closed = counters.websockets;
        assert_eq!((closed.closed_too_big, closed.closed_invalid_data), (1, 2), "{counters}");
        let server = TestServer::with_test_tools(low_ratio);
        let mut peer = connect_with_deflate(&server);
        peer.send(FIN | RSV1 | TEXT, &spaces(900 << 10));
        peer.expect_close(1008);
        let counters = server.close();
        assert_eq!(counters.websockets.closed_policy, 1, "{counters}");
    });
}
