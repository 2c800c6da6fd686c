//! Upgrades from HTTP to WebSocket, then messages and control frames without errors.

use std::time::Duration;

use corelane_engine::ring::Socket;
use corelane_transport::websocket::reader::FrameReader;

use super::harness::{Harness, Reaction, UPGRADE_REQUEST, UPGRADE_RESPONSE};
use super::websocket_peer::{self, first_fragment, last_fragment, ping, pong, text};
use crate::connection::{CloseReason, Codec, SocketPair};

const A: Socket = Socket(3);

#[test]
fn pipelined_messages_are_answered_by_one_send() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    let sends = harness.connections.shared.statistics.sends;
    harness.receive(A, &[text("one"), text("two"), text("three")].concat());
    assert_eq!(harness.received, ["one", "two", "three"]);
    assert_eq!(harness.drain_frames(A), ["one", "two", "three"]);
    assert_eq!(harness.connections.shared.statistics.sends, sends + 1);
    assert_eq!(harness.connections.shared.statistics.websocket.messages_in, 3);
}

#[test]
fn fragments_across_receives_form_one_message() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    let stream =
        [first_fragment("to"), ping("between"), pong(), last_fragment("gether"), text("next")]
            .concat();
    for cut in 0..=stream.len() {
        harness.received.clear();
        harness.receive(A, &stream[..cut]);
        harness.receive(A, &stream[cut..]);
        assert_eq!(harness.received, ["together", "next"], "cut at {cut}");
        assert_eq!(harness.drain_frames(A), ["pong between", "together", "next"]);
        assert_eq!(harness.accounted_bytes(), 0);
    }
}

#[test]
fn ping_is_answered_in_order() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    harness.receive(A, &[ping("1"), text("one"), ping(""), text("two"), ping("3")].concat());
    assert_eq!(harness.drain_frames(A), ["pong 1", "one", "pong", "two", "pong 3"]);
    assert_eq!(harness.connections.shared.statistics.websocket.pings_in, 3);
}

#[test]
fn unsolicited_pong_is_ignored() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    harness.receive(A, &[pong(), pong(), text("one")].concat());
    assert_eq!(harness.drain_frames(A), ["one"]);
    assert_eq!(harness.connections.shared.statistics.websocket.pongs_in, 2);
}

#[test]
fn deferred_responses_are_sent_in_completion_order() {
    let mut harness = Harness::new(Reaction::Defer);
    let key = harness.open_websocket(A);
    harness.receive(A, &[text("1"), text("2")].concat());
    assert!(harness.drain_frames(A).is_empty());
    harness.send_deferred(key, "two");
    harness.send_deferred(key, "one");
    assert_eq!(harness.drain_frames(A), ["two", "one"]);
}

/// Decodes the frames behind the response to the upgrade.
fn frames_behind_upgrade(bytes: &[u8]) -> Vec<String> {
    websocket_peer::decode_frames(
        bytes.strip_prefix(UPGRADE_RESPONSE.as_bytes()).expect("upgrade is answered first"),
    )
}

#[test]
fn bytes_behind_upgrade_request_are_frames() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open_http(A);
    harness.receive(A, &[UPGRADE_REQUEST, &text("one"), &ping("p"), &text("two")].concat());
    assert_eq!(harness.connections.table.key_of(A), Some(key), "the connection keeps its key");
    assert_eq!(harness.connections.table.codec(key), Some(Codec::WebSocket));
    assert_eq!(harness.received, ["one", "two"]);
    assert_eq!(frames_behind_upgrade(&harness.drain_bytes(A)), ["one", "pong p", "two"]);
    assert_eq!(harness.connections.shared.statistics.websocket.upgraded, 1);
}

#[test]
fn upgrade_is_independent_of_split_position() {
    let stream = [UPGRADE_REQUEST, &text("one"), &text("two")].concat();
    for cut in 0..=stream.len() {
        let mut harness = Harness::new(Reaction::Echo);
        harness.open_http(A);
        harness.receive(A, &stream[..cut]);
        harness.receive(A, &stream[cut..]);
        let read = frames_behind_upgrade(&harness.drain_bytes(A));
        assert_eq!(read, ["one", "two"], "cut at {cut}");
    }
}

#[test]
fn input_held_before_upgrade_is_read_as_frames() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open_http(A);
    harness.connections.table.set_suspended(key, true);
    harness.receive(A, &[UPGRADE_REQUEST, &text("one")[..3]].concat());
    harness.receive(A, &[&text("one")[3..], &text("two")].concat());
    assert_eq!(harness.connections.table.codec(key), Some(Codec::Http));
    harness.connections.table.set_suspended(key, false);
    let next = harness.connections.try_resume(key, harness.now);
    harness.handle_event(next);
    assert_eq!(harness.received, ["one", "two"]);
    assert_eq!(frames_behind_upgrade(&harness.drain_bytes(A)), ["one", "two"]);
}

#[test]
fn only_open_http_connections_can_be_upgraded() {
    let mut harness = Harness::new(Reaction::Echo);
    let lines = harness.open(Socket(1));
    let ending = harness.open_http(Socket(2));
    let frames = harness.open_websocket(A);
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, ending, CloseReason::Drain, now);
    for key in [lines, ending, frames] {
        assert!(!harness.connections.upgrade_to_websocket(key, FrameReader::new(), now));
    }
    harness.receive(A, &text("still the same"));
    assert_eq!(harness.received, ["still the same"]);
}

#[test]
fn connection_can_start_as_websocket() {
    let mut harness = Harness::new(Reaction::Echo);
    let stream = SocketPair { receive: A, send: A, peer: None, codec: Codec::WebSocket };
    let now = harness.now;
    harness.connections.open_connection(&mut harness.ring, stream, "frames", now).unwrap();
    harness.receive(A, &text("one"));
    assert_eq!(harness.drain_frames(A), ["one"]);
    harness.advance_time(Duration::from_secs(3));
    assert_eq!(harness.drain_frames(A), ["ping"]);
}

#[test]
fn idle_websocket_connection_holds_no_buffer() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open_websocket(A);
    let whole = [first_fragment("in "), ping("with a payload"), last_fragment("two")].concat();
    for byte in whole {
        harness.receive(A, &[byte]);
        assert!(harness.accounted_bytes() < 40);
    }
    assert_eq!(harness.drain_frames(A), ["pong with a payload", "in two"]);
    harness.receive(A, &text("whole"));
    harness.drain_bytes(A);
    assert_eq!(harness.accounted_bytes(), 0);
    assert_eq!(harness.connections.table.get(key).unwrap().outgoing.capacity(), 0);
}
