//! What time does: pings, idle connections, messages that do not become whole.

use std::time::Duration;

use serde_json::json;
use tungstenite::protocol::frame::coding::Control;

use crate::messages::{LEGACY, call, echo, listen, text};
use crate::peer::{CONTINUATION, FINAL, PING, PONG, Peer, TEXT, frame, is_control, text_frame};
use crate::stage::{Stage, over_each_ring};

/// The next message, and how many pings came before it; each is answered.
fn said(peer: &mut Peer) -> (String, u64) {
    let mut pings = 0;
    loop {
        let frame = peer.frame().expect("a frame");
        if !is_control(&frame) {
            return (frame.to_text().expect("UTF-8").to_owned(), pings);
        }
        peer.send(FINAL | PONG, frame.payload());
        pings += 1;
    }
}

#[test]
fn a_ping_is_answered_with_its_payload() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::open(stage.address());
        for payload in [&b""[..], b"x", &[0xff; 125]] {
            peer.send(FINAL | PING, payload);
            assert_eq!(peer.heard_control(Control::Pong), payload);
        }
        // Many at once, each in its turn.
        let many: Vec<u8> =
            (0..200_u16).flat_map(|number| frame(FINAL | PING, &number.to_be_bytes())).collect();
        peer.send_bytes(&many);
        for number in 0..200_u16 {
            assert_eq!(peer.heard_control(Control::Pong), number.to_be_bytes());
        }
        peer.close(1000);
        let counters = stage.close();
        assert_eq!(counters.websockets.pings_in, 203, "{counters}");
    });
}

#[test]
fn a_silent_peer_is_pinged_and_one_that_answers_stays() {
    over_each_ring(|mut options| {
        options.websocket.ping = Duration::from_millis(10);
        options.websocket.idle_max = Duration::from_secs(20);
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        for _ in 0..5 {
            let payload = peer.heard_control(Control::Ping);
            peer.send(FINAL | PONG, &payload);
        }
        peer.say(&echo(1, "still here"));
        let (answer, pings) = said(&mut peer);
        assert!(answer.contains("still here"), "{answer}");
        drop(peer);
        let counters = stage.close();
        assert!(counters.websockets.pings_out >= 5 + pings, "{counters}");
        assert_eq!(counters.websockets.pongs_in, 5 + pings, "{counters}");
    });
}

#[test]
fn a_peer_that_says_nothing_at_all_is_closed_as_idle() {
    over_each_ring(|mut options| {
        options.websocket.ping = Duration::from_millis(10);
        options.websocket.idle_max = Duration::from_millis(100);
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        let frames = peer.rest();
        let (last, pings) = frames.split_last().expect("a close frame");
        assert_eq!(crate::peer::code(last), Some(1000));
        assert!(!pings.is_empty());
        drop(peer);
        let counters = stage.close();
        assert_eq!(counters.websockets.closed_normal, 1, "{counters}");
        assert_eq!(counters.connections.closed_idle, 1, "{counters}");
    });
}

#[test]
fn whoever_listens_or_waits_for_an_answer_is_kept_by_its_pongs() {
    over_each_ring(|mut options| {
        options.websocket.ping = Duration::from_millis(5);
        options.websocket.idle_max = Duration::from_secs(1);
        let stage = Stage::open(options);
        let mut peer = Peer::open(stage.address());
        let wish = json!({"toolsListChanged": true});
        peer.say(&listen("listening", wish));
        let told = said(&mut peer).0;
        assert!(told.contains("notifications/subscriptions/acknowledged"), "{told}");
        for _ in 0..40 {
            let payload = peer.heard_control(Control::Ping);
            peer.send(FINAL | PONG, &payload);
        }
        stage.grow("new");
        let told = said(&mut peer).0;
        assert!(told.contains("notifications/tools/list_changed"), "{told}");
        drop(peer);
        stage.close();
    });
}

#[test]
fn a_message_that_does_not_become_whole_in_time_ends_its_connection() {
    over_each_ring(|mut options| {
        options.websocket.fragment_max = Duration::from_millis(50);
        let stage = Stage::open(options);
        let whole = text_frame(echo(1, "never"));
        let unfinished: [Vec<u8>; 5] = [
            whole[..1].to_vec(),
            whole[..7].to_vec(),
            whole[..whole.len() - 1].to_vec(),
            frame(TEXT, b"{"),
            [frame(TEXT, b"{"), frame(FINAL | PONG, b""), frame(CONTINUATION, b"}")].concat(),
        ];
        for bytes in &unfinished {
            let mut peer = Peer::begin(stage.address(), LEGACY);
            peer.say(&call("it", "until-cancelled", json!({})));
            assert_eq!(stage.told(), "begun");
            peer.send_bytes(bytes);
            peer.expect_close(1002);
            assert_eq!(stage.told(), "cancelled");
        }
        // One that is whole in time is heard, however many come one after the other.
        let mut peer = Peer::begin(stage.address(), LEGACY);
        assert_eq!(text(&peer.ask(&echo(1, "in time"))), "in time");
        peer.close(1000);
        let counters = stage.close();
        assert_eq!(counters.websockets.closed_protocol, unfinished.len() as u64, "{counters}");
    });
}

#[test]
fn an_upgraded_connection_has_no_lease_to_lose() {
    over_each_ring(|mut options| {
        options.tcp.lease_max = Duration::from_millis(20);
        options.tcp.idle_max = Duration::from_millis(20);
        options.websocket.ping = Duration::from_millis(100);
        let stage = Stage::open(options);
        let mut peer = Peer::open(stage.address());
        // Long after either: it was asked for a sign of life.
        assert_eq!(peer.heard_control(Control::Ping), b"");
        peer.close(1000);
        stage.close();
    });
}
