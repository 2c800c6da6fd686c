//! How connections end: by either side, with a word and without.

use serde_json::json;

use crate::messages::{LEGACY, call, echo, text};
use crate::peer::{CLOSE, FINAL, Peer, TEXT, frame, text_frame};
use crate::stage::{Stage, on_one_shard_and_two, over_each_ring};

#[test]
fn a_peer_that_closes_is_answered_with_its_own_code() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let codes = [1000, 1001, 1002, 1003, 1007, 1008, 1009, 1011, 3000, 4999];
        for code in codes {
            Peer::open(stage.address()).close(code);
        }
        let mut peer = Peer::open(stage.address());
        let reason = [&1000_u16.to_be_bytes()[..], "genug für heute".as_bytes()].concat();
        peer.send(FINAL | CLOSE, &reason);
        let payload = peer.heard_control(tungstenite::protocol::frame::coding::Control::Close);
        assert_eq!(payload, 1000_u16.to_be_bytes());
        peer.expect_end();
        drop(peer);
        // One without a code gets none.
        let mut peer = Peer::open(stage.address());
        peer.send(FINAL | CLOSE, b"");
        let frame = peer.frame().expect("a close frame");
        assert!(frame.payload().is_empty(), "{frame}");
        peer.expect_end();
        drop(peer);
        let counters = stage.close();
        let expected = codes.len() as u64 + 2;
        assert_eq!(counters.websockets.closed_by_peer, expected, "{counters}");
        assert_eq!(counters.connections.closed_by_peer, expected, "{counters}");
    });
}

#[test]
fn what_came_before_a_close_frame_is_answered_and_what_comes_behind_it_is_not() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        let calls: Vec<_> = (0..2).map(|id| echo(id, "hi")).collect();
        peer.expect_answers_to(&calls);
        let close = frame(FINAL | CLOSE, &1000_u16.to_be_bytes());
        let bytes = [text_frame(&calls[0]), close, text_frame(&calls[1])].concat();
        peer.send_bytes(&bytes);
        assert_eq!(text(&peer.heard()), "hi");
        let frame = peer.frame().expect("a close frame");
        assert_eq!(crate::peer::code(&frame), Some(1000));
        peer.expect_end();
        drop(peer);
        let counters = stage.close();
        assert_eq!(counters.requests.tools_call, 1, "{counters}");
    });
}

#[test]
fn a_peer_that_closes_waits_for_nothing_any_more() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        peer.say(&call(1, "until-cancelled", json!({})));
        assert_eq!(stage.told(), "begun");
        peer.close(1000);
        assert_eq!(stage.told(), "cancelled");
        let counters = stage.close();
        assert_eq!(counters.requests.cancelled, 1, "{counters}");
    });
}

#[test]
fn a_peer_that_leaves_without_a_close_frame_waits_for_nothing_either() {
    on_one_shard_and_two(|options| {
        let stage = Stage::open(options);
        for leave in [
            |peer: Peer| drop(peer),
            Peer::reset,
            |mut peer: Peer| {
                peer.finish();
                // It still reads, and hears that the server ends it.
                let rest = peer.rest();
                assert!(
                    rest.iter().all(|frame| crate::peer::code(frame) == Some(1000)),
                    "{rest:?}"
                );
            },
        ] {
            let mut peer = Peer::begin(stage.address(), LEGACY);
            peer.say(&call(1, "until-cancelled", json!({})));
            assert_eq!(stage.told(), "begun");
            // In the middle of a message, even.
            peer.send_bytes(&frame(TEXT, b"{\"jsonrpc\"")[..9]);
            leave(peer);
            assert_eq!(stage.told(), "cancelled");
        }
        let counters = stage.close();
        assert_eq!(counters.websockets.closed_abnormally, 3, "{counters}");
        assert_eq!(counters.requests.cancelled, 3, "{counters}");
    });
}

#[test]
fn a_peer_that_does_not_close_in_return_is_cut() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::open(stage.address());
        peer.send(FINAL | 0x3, b"");
        let rest = peer.rest();
        assert_eq!(rest.len(), 1, "{rest:?}");
        assert_eq!(crate::peer::code(&rest[0]), Some(1002));
        // It goes on talking, to nobody.
        peer.try_send_bytes(&text_frame(echo(1, "hello?"))).ok();
        stage.until_connections(0);
        drop(peer);
        let counters = stage.close();
        assert_eq!(counters.requests.tools_call, 0, "{counters}");
    });
}
