//! Pings, idle timeouts and timeouts of incomplete messages.

use std::time::Duration;

use corelane_test_support::messages::{LEGACY, call, echo, listen, result_text};
use corelane_test_support::websocket::{
    CONTINUATION, FIN, PING, PONG, TEXT, close_code, encode_frame, is_control, text_frame,
};
use corelane_test_support::{TestServer, WebSocketClient, http_options, over_each_ring};
use serde_json::json;
use tungstenite::protocol::frame::coding::Control;

/// Reads the next message and answers pings. Returns the text and the number of pings.
fn read_text_answering_pings(peer: &mut WebSocketClient) -> (String, u64) {
    let mut pings = 0;
    loop {
        let frame = peer.read_frame().expect("connection closed before a message");
        if !is_control(&frame) {
            return (frame.to_text().expect("not UTF-8").to_owned(), pings);
        }
        peer.send(FIN | PONG, frame.payload());
        pings += 1;
    }
}

#[test]
fn ping_gets_pong_with_same_payload() {
    over_each_ring(http_options(), |options| {
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::connect(server.address());
        for payload in [&b""[..], b"x", &[0xff; 125]] {
            peer.send(FIN | PING, payload);
            assert_eq!(peer.read_control(Control::Pong), payload);
        }
        // Several pings at once are answered in order.
        let many: Vec<u8> = (0..200_u16)
            .flat_map(|number| encode_frame(FIN | PING, &number.to_be_bytes()))
            .collect();
        peer.send_bytes(&many);
        for number in 0..200_u16 {
            assert_eq!(peer.read_control(Control::Pong), number.to_be_bytes());
        }
        peer.close(1000);
        let counters = server.close();
        assert_eq!(counters.websockets.pings_in, 203, "{counters}");
    });
}

#[test]
fn pong_keeps_idle_connection_open() {
    over_each_ring(http_options(), |mut options| {
        options.websocket.ping_interval = Duration::from_millis(10);
        options.websocket.idle_timeout = Duration::from_secs(20);
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        for _ in 0..5 {
            let payload = peer.read_control(Control::Ping);
            peer.send(FIN | PONG, &payload);
        }
        peer.send_message(&echo(1, "still here"));
        let (response, pings) = read_text_answering_pings(&mut peer);
        assert!(response.contains("still here"), "{response}");
        drop(peer);
        let counters = server.close();
        assert!(counters.websockets.pings_out >= 5 + pings, "{counters}");
        assert_eq!(counters.websockets.pongs_in, 5 + pings, "{counters}");
    });
}

#[test]
fn unanswered_pings_close_connection_as_idle() {
    over_each_ring(http_options(), |mut options| {
        options.websocket.ping_interval = Duration::from_millis(10);
        options.websocket.idle_timeout = Duration::from_millis(100);
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        let frames = peer.read_to_end();
        let (last, pings) = frames.split_last().expect("no close frame");
        assert_eq!(close_code(last), Some(1000));
        assert!(!pings.is_empty());
        drop(peer);
        let counters = server.close();
        assert_eq!(counters.websockets.closed_normal, 1, "{counters}");
        assert_eq!(counters.connections.closed_idle_timeout, 1, "{counters}");
    });
}

#[test]
fn pongs_keep_subscribed_connection_open() {
    over_each_ring(http_options(), |mut options| {
        options.websocket.ping_interval = Duration::from_millis(5);
        options.websocket.idle_timeout = Duration::from_secs(1);
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::connect(server.address());
        let filter = json!({"toolsListChanged": true});
        peer.send_message(&listen("listening", filter));
        let notification = read_text_answering_pings(&mut peer).0;
        assert!(
            notification.contains("notifications/subscriptions/acknowledged"),
            "{notification}"
        );
        for _ in 0..40 {
            let payload = peer.read_control(Control::Ping);
            peer.send(FIN | PONG, &payload);
        }
        server.add_tool("new");
        let notification = read_text_answering_pings(&mut peer).0;
        assert!(notification.contains("notifications/tools/list_changed"), "{notification}");
        drop(peer);
        server.close();
    });
}

#[test]
fn incomplete_message_closes_connection_after_fragment_timeout() {
    over_each_ring(http_options(), |mut options| {
        options.websocket.fragment_timeout = Duration::from_millis(50);
        let server = TestServer::with_test_tools(options);
        let whole = text_frame(echo(1, "never"));
        let unfinished: [Vec<u8>; 5] = [
            whole[..1].to_vec(),
            whole[..7].to_vec(),
            whole[..whole.len() - 1].to_vec(),
            encode_frame(TEXT, b"{"),
            [
                encode_frame(TEXT, b"{"),
                encode_frame(FIN | PONG, b""),
                encode_frame(CONTINUATION, b"}"),
            ]
            .concat(),
        ];
        for bytes in &unfinished {
            let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
            peer.send_message(&call("it", "until-cancelled", json!({})));
            assert_eq!(server.next_signal(), "begun");
            peer.send_bytes(bytes);
            peer.expect_close(1002);
            assert_eq!(server.next_signal(), "cancelled");
        }
        // A message that is complete in time gets a response.
        let mut peer = WebSocketClient::initialize(server.address(), LEGACY);
        assert_eq!(result_text(&peer.exchange(&echo(1, "in time"))), "in time");
        peer.close(1000);
        let counters = server.close();
        assert_eq!(
            counters.websockets.closed_protocol_error,
            unfinished.len() as u64,
            "{counters}"
        );
    });
}

#[test]
fn tcp_timeouts_do_not_apply_after_upgrade() {
    over_each_ring(http_options(), |mut options| {
        options.tcp.first_message_timeout = Duration::from_millis(20);
        options.tcp.idle_timeout = Duration::from_millis(20);
        options.websocket.ping_interval = Duration::from_millis(100);
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::connect(server.address());
        // The ping arrives after both timeouts would have expired.
        assert_eq!(peer.read_control(Control::Ping), b"");
        peer.close(1000);
        server.close();
    });
}
