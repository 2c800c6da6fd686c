//! Pings, idle timeouts and timeouts of incomplete messages.

use std::time::Duration;

use corelane_test_support::messages::{LEGACY, call, echo, listen, modern, result_text};
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
        // Those behind the call may have been lost with the connection.
        assert!((5..=5 + pings).contains(&counters.websockets.pongs_in), "{counters}");
    });
}

#[test]
fn unanswered_pings_close_connection_as_idle() {
    over_each_ring(http_options(), |mut options| {
        options.websocket.ping_interval = Duration::from_millis(10);
        options.websocket.idle_timeout = Duration::from_secs(1);
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

#[test]
fn connection_without_message_is_closed_after_upgrade() {
    over_each_ring(http_options(), |mut options| {
        options.websocket.first_message_timeout = Duration::from_millis(50);
        let server = TestServer::with_test_tools(options);
        WebSocketClient::connect(server.address()).expect_close(1002);
        // Control frames are no messages.
        let mut peer = WebSocketClient::connect(server.address());
        peer.send(FIN | PING, b"still here");
        assert_eq!(peer.read_control(Control::Pong), b"still here");
        peer.expect_close(1002);
        let counters = server.close();
        assert_eq!(counters.connections.closed_message_timeout, 2, "{counters}");
        assert_eq!(counters.websockets.closed_protocol_error, 2, "{counters}");
    });
}

#[test]
fn invalid_message_is_no_first_message() {
    over_each_ring(http_options(), |mut options| {
        options.websocket.first_message_timeout = Duration::from_millis(50);
        let server = TestServer::with_test_tools(options);
        let invalid = ["{", "7", "[]", "{}", r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, "a\nb"];
        for text in invalid {
            let mut peer = WebSocketClient::connect(server.address());
            peer.send_bytes(&text_frame(text));
            for _ in text.lines() {
                assert!(peer.read_message().get("error").is_some());
            }
            peer.expect_close(1002);
        }
        for text in ["", "\n", "\r\n\n"] {
            let mut peer = WebSocketClient::connect(server.address());
            peer.send_bytes(&text_frame(text));
            peer.expect_close(1002);
        }
        let counters = server.close();
        let closed = invalid.len() as u64 + 3;
        assert_eq!(counters.connections.closed_message_timeout, closed, "{counters}");
    });
}

#[test]
fn valid_text_beside_invalid_is_first_message() {
    over_each_ring(http_options(), |mut options| {
        options.websocket.first_message_timeout = Duration::from_millis(20);
        options.websocket.ping_interval = Duration::from_millis(100);
        let server = TestServer::with_test_tools(options);
        let valid = modern(echo(1, "hi")).to_string();
        let both = [format!("{valid}\n{{\n7"), format!("{{\n{{\n{valid}\n{{"), valid.clone()];
        for text in both {
            let mut peer = WebSocketClient::connect(server.address());
            peer.send_bytes(&text_frame(&text));
            for _ in text.lines() {
                peer.read_text();
            }
            // The ping arrives after the timeout would have expired.
            assert_eq!(peer.read_control(Control::Ping), b"");
            peer.close(1000);
        }
        server.close();
    });
}

#[test]
fn incomplete_first_message_has_fragment_timeout() {
    over_each_ring(http_options(), |mut options| {
        options.websocket.first_message_timeout = Duration::from_millis(20);
        options.websocket.ping_interval = Duration::from_millis(100);
        let server = TestServer::with_test_tools(options);
        let mut peer = WebSocketClient::connect(server.address());
        let whole = text_frame(modern(echo(1, "large")));
        let (first, rest) = whole.split_at(9);
        peer.send_bytes(first);
        assert_eq!(peer.read_control(Control::Ping), b"");
        peer.send_bytes(rest);
        let (response, _) = read_text_answering_pings(&mut peer);
        assert!(response.contains("large"), "{response}");
        drop(peer);
        server.close();
    });
}
