//! WebSocket messages and control frames without errors.

use corelane_engine::ring::Socket;

use super::harness::{Harness, Reaction};
use super::websocket_peer::{first_fragment, last_fragment, ping, pong, text};

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
