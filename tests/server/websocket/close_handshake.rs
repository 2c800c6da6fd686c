//! How connections end: by either side, with a close frame or without.

use corelane_test_support::messages::{LEGACY, call, echo, result_text};
use corelane_test_support::websocket::{CLOSE, FIN, TEXT, close_code, encode_frame, text_frame};
use corelane_test_support::{
    TestServer, WebSocketClient, http_options, on_one_shard_and_two, over_each_ring,
};
use serde_json::json;

#[test]
fn close_frame_is_echoed_with_its_code() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let codes = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1011, 3000, 4999];
        for code in codes {
            WebSocketClient::connect(server.address()).close(code);
        }
        let mut peer = WebSocketClient::connect(server.address());
        let reason = [&1000_u16.to_be_bytes()[..], "genug für heute".as_bytes()].concat();
        peer.send(FIN | CLOSE, &reason);
        let payload = peer.read_control(tungstenite::protocol::frame::coding::Control::Close);
        assert_eq!(payload, 1000_u16.to_be_bytes());
        peer.expect_eof();
        drop(peer);
        // A close frame without a code is answered without one.
        let mut peer = WebSocketClient::connect(server.address());
        peer.send(FIN | CLOSE, b"");
        let frame = peer.read_frame().expect("no close frame");
        assert!(frame.payload().is_empty(), "{frame:?}");
        peer.expect_eof();
        drop(peer);
        let counters = server.close();
        let expected = codes.len() as u64 + 2;
        assert_eq!(counters.websockets.closed_by_peer, expected, "{counters}");
        assert_eq!(counters.connections.closed_by_peer, expected, "{counters}");
    });
}

#[test]
fn messages_after_close_frame_are_ignored() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        let calls: Vec<_> = (0..2).map(|id| echo(id, "hi")).collect();
        peer.register_requests(&calls);
        let close = encode_frame(FIN | CLOSE, &1000_u16.to_be_bytes());
        let bytes = [text_frame(&calls[0]), close, text_frame(&calls[1])].concat();
        peer.send_bytes(&bytes);
        assert_eq!(result_text(&peer.read_message()), "hi");
        let frame = peer.read_frame().expect("no close frame");
        assert_eq!(close_code(&frame), Some(1000));
        peer.expect_eof();
        drop(peer);
        let counters = server.close();
        assert_eq!(counters.requests.tools_call, 1, "{counters}");
    });
}

#[test]
fn close_frame_cancels_requests() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        peer.send_message(&call(1, "until-cancelled", json!({})));
        assert_eq!(server.next_signal(), "begun");
        peer.close(1000);
        assert_eq!(server.next_signal(), "cancelled");
        let counters = server.close();
        assert_eq!(counters.requests.cancelled, 1, "{counters}");
    });
}

#[test]
fn disconnect_without_close_frame_cancels_requests() {
    on_one_shard_and_two(|options| {
        let server = TestServer::with_test_tools(options);
        for leave in [
            |peer: WebSocketClient| drop(peer),
            WebSocketClient::reset,
            |mut peer: WebSocketClient| {
                peer.shutdown_write();
                // The peer still reads and receives the close frame of the server.
                let rest = peer.read_to_end();
                assert!(rest.iter().all(|frame| close_code(frame) == Some(1000)), "{rest:?}");
            },
        ] {
            let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
            peer.send_message(&call(1, "until-cancelled", json!({})));
            assert_eq!(server.next_signal(), "begun");
            // The connection ends inside a frame.
            peer.send_bytes(&encode_frame(TEXT, b"{\"jsonrpc\"")[..9]);
            leave(peer);
            assert_eq!(server.next_signal(), "cancelled");
        }
        let counters = server.close();
        assert_eq!(counters.websockets.closed_abnormally, 3, "{counters}");
        assert_eq!(counters.requests.cancelled, 3, "{counters}");
    });
}

#[test]
fn peer_without_close_reply_is_disconnected() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::connect(server.address());
        peer.send(FIN | 0x3, b"");
        let rest = peer.read_to_end();
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert_eq!(close_code(&rest[0]), Some(1002));
        // Messages after the close frame are ignored.
        peer.try_send_bytes(&text_frame(echo(1, "hello?"))).ok();
        server.wait_for_connections(0);
        drop(peer);
        let counters = server.close();
        assert_eq!(counters.requests.tools_call, 0, "{counters}");
    });
}
