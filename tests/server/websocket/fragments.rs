//! Fragmented messages, with control frames between fragments, and any split of the bytes.

use corelane_test_support::messages::{LEGACY, echo, result_text};
use corelane_test_support::websocket::{CONTINUATION, FIN, PING, PONG, TEXT, encode_frame};
use corelane_test_support::{TestServer, WebSocketClient, http_options, over_each_ring};
use serde_json::json;
use tungstenite::protocol::frame::coding::Control;

/// Encodes a text in fragments of `bytes`, with the bytes `between` after each but the last.
fn fragment_text(text: &str, bytes: usize, between: &[u8]) -> Vec<u8> {
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(bytes).collect();
    let last = pieces.len() - 1;
    let fragments = pieces.iter().enumerate().map(|(number, piece)| {
        let opcode = if number == 0 { TEXT } else { CONTINUATION };
        encode_frame(if number == last { FIN | opcode } else { opcode }, piece)
    });
    fragments.collect::<Vec<_>>().join(between)
}

#[test]
fn fragmented_message_of_any_size_is_accepted() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        // Fragments also split characters.
        let message = "äöü€😀".repeat(20);
        let call = echo(1, &message);
        for bytes in [1, 2, 3, 7, 64, 10_000] {
            peer.register_request(&call);
            peer.send_bytes(&fragment_text(&call.to_string(), bytes, b""));
            assert_eq!(result_text(&peer.read_message()), message);
        }
        // Fragments may be empty.
        let text_of_call = call.to_string();
        let (first, second) = text_of_call.as_bytes().split_at(50);
        peer.register_request(&call);
        for (opcode, piece) in
            [(TEXT, &b""[..]), (CONTINUATION, first), (CONTINUATION, b""), (CONTINUATION, second)]
        {
            peer.send(opcode, piece);
        }
        peer.send(FIN | CONTINUATION, b"");
        assert_eq!(result_text(&peer.read_message()), message);
        peer.close(1000);
        server.close();
    });
}

#[test]
fn ping_between_fragments_gets_pong_in_order() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        let call = echo(1, "whole");
        let between =
            [encode_frame(FIN | PING, b"now"), encode_frame(FIN | PONG, b"unasked")].concat();
        peer.register_request(&call);
        peer.send_bytes(&fragment_text(&call.to_string(), 20, &between));
        let fragments = call.to_string().len().div_ceil(20);
        for _ in 1..fragments {
            assert_eq!(peer.read_control(Control::Pong), b"now");
        }
        assert_eq!(result_text(&peer.read_message()), "whole");
        peer.close(1000);
        let counters = server.close();
        let expected = (fragments - 1) as u64;
        let websockets = counters.websockets;
        assert_eq!((websockets.pings_in, websockets.pongs_in), (expected, expected), "{counters}");
    });
}

#[test]
fn frames_split_at_any_byte_are_accepted() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let calls: Vec<_> = (0..3).map(|id| echo(id, "cut")).collect();
        let mut bytes = encode_frame(FIN | PING, b"first");
        bytes.extend(fragment_text(&calls[0].to_string(), 30, &encode_frame(FIN | PONG, b"")));
        bytes.extend(fragment_text(&calls[1].to_string(), 1_000, b""));
        bytes.extend(fragment_text(&format!("{}\n", calls[2]), 40, b""));
        for step in [1, 3, 11] {
            let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
            peer.register_requests(&calls);
            for piece in bytes.chunks(step) {
                peer.send_bytes(piece);
            }
            assert_eq!(peer.read_control(Control::Pong), b"first");
            for id in 0..3 {
                assert_eq!(peer.read_message()["id"], json!(id));
            }
            peer.close(1000);
        }
        server.close();
    });
}

#[test]
fn invalid_utf8_is_rejected_before_the_last_fragment() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        for pieces in [
            vec![encode_frame(TEXT, b"\"\xce\xba\xff")],
            vec![encode_frame(TEXT, b"\"\xe2\x82"), encode_frame(CONTINUATION, b"\x28")],
            vec![encode_frame(TEXT, b"\"\xf4"), encode_frame(CONTINUATION, b"\x90")],
            // The last character is incomplete.
            vec![encode_frame(TEXT, b"\"\xe2"), encode_frame(FIN | CONTINUATION, b"\x82")],
        ] {
            let mut peer = WebSocketClient::connect(server.address());
            for piece in pieces {
                peer.send_bytes(&piece);
            }
            peer.expect_close(1007);
        }
        server.close();
    });
}
