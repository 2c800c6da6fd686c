//! Messages in fragments, with control frames between them, cut anywhere.

use serde_json::json;
use tungstenite::protocol::frame::coding::Control;

use crate::messages::{LEGACY, echo, text};
use crate::peer::{CONTINUATION, FINAL, PING, PONG, Peer, TEXT, frame};
use crate::stage::{Stage, over_each_ring};

/// A text in fragments of so many bytes, with `between` between them.
fn in_fragments(text: &str, bytes: usize, between: &[u8]) -> Vec<u8> {
    let pieces: Vec<&[u8]> = text.as_bytes().chunks(bytes).collect();
    let last = pieces.len() - 1;
    let fragments = pieces.iter().enumerate().map(|(number, piece)| {
        let opcode = if number == 0 { TEXT } else { CONTINUATION };
        frame(if number == last { FINAL | opcode } else { opcode }, piece)
    });
    fragments.collect::<Vec<_>>().join(between)
}

#[test]
fn fragments_of_any_size_become_one_message() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        // Cut inside of characters as well.
        let message = "äöü€😀".repeat(20);
        let call = echo(1, &message);
        for bytes in [1, 2, 3, 7, 64, 10_000] {
            peer.expect_answer_to(&call);
            peer.send_bytes(&in_fragments(&call.to_string(), bytes, b""));
            assert_eq!(text(&peer.heard()), message);
        }
        // Empty ones are fragments, too.
        let text_of_call = call.to_string();
        let (first, second) = text_of_call.as_bytes().split_at(50);
        peer.expect_answer_to(&call);
        for (opcode, piece) in
            [(TEXT, &b""[..]), (CONTINUATION, first), (CONTINUATION, b""), (CONTINUATION, second)]
        {
            peer.send(opcode, piece);
        }
        peer.send(FINAL | CONTINUATION, b"");
        assert_eq!(text(&peer.heard()), message);
        peer.close(1000);
        stage.close();
    });
}

#[test]
fn control_frames_between_fragments_are_answered_in_their_place() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        let call = echo(1, "whole");
        let between = [frame(FINAL | PING, b"now"), frame(FINAL | PONG, b"unasked")].concat();
        peer.expect_answer_to(&call);
        peer.send_bytes(&in_fragments(&call.to_string(), 20, &between));
        let fragments = call.to_string().len().div_ceil(20);
        for _ in 1..fragments {
            assert_eq!(peer.heard_control(Control::Pong), b"now");
        }
        assert_eq!(text(&peer.heard()), "whole");
        peer.close(1000);
        let counters = stage.close();
        let expected = (fragments - 1) as u64;
        let websockets = counters.websockets;
        assert_eq!((websockets.pings_in, websockets.pongs_in), (expected, expected), "{counters}");
    });
}

#[test]
fn a_stream_of_frames_means_the_same_wherever_it_is_cut() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let calls: Vec<_> = (0..3).map(|id| echo(id, "cut")).collect();
        let mut bytes = frame(FINAL | PING, b"first");
        bytes.extend(in_fragments(&calls[0].to_string(), 30, &frame(FINAL | PONG, b"")));
        bytes.extend(in_fragments(&calls[1].to_string(), 1_000, b""));
        bytes.extend(in_fragments(&format!("{}\n", calls[2]), 40, b""));
        for step in [1, 3, 11] {
            let mut peer = Peer::begin(stage.address(), LEGACY);
            peer.expect_answers_to(&calls);
            for piece in bytes.chunks(step) {
                peer.send_bytes(piece);
            }
            assert_eq!(peer.heard_control(Control::Pong), b"first");
            for id in 0..3 {
                assert_eq!(peer.heard()["id"], json!(id));
            }
            peer.close(1000);
        }
        stage.close();
    });
}

#[test]
fn what_cannot_become_utf8_is_refused_before_the_message_is_whole() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        for pieces in [
            vec![frame(TEXT, b"\"\xce\xba\xff")],
            vec![frame(TEXT, b"\"\xe2\x82"), frame(CONTINUATION, b"\x28")],
            vec![frame(TEXT, b"\"\xf4"), frame(CONTINUATION, b"\x90")],
            // The last character is cut off.
            vec![frame(TEXT, b"\"\xe2"), frame(FINAL | CONTINUATION, b"\x82")],
        ] {
            let mut peer = Peer::open(stage.address());
            for piece in pieces {
                peer.send_bytes(&piece);
            }
            peer.expect_close(1007);
        }
        stage.close();
    });
}
