//! Texts that are no messages: answered, and the connection kept.

use crate::messages::{LEGACY, echo, expect_error, modern, text};
use crate::peer::{FINAL, Peer, TEXT, text_frame};
use crate::stage::{Stage, options, over_each_ring};

#[test]
fn what_is_no_json_is_answered_and_the_connection_kept() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        for (wrong, code) in [
            ("{", -32700),
            ("nonsense", -32700),
            ("\"", -32700),
            ("\"\t\"", -32700),
            ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"", -32700),
            // Decoded, its string is shorter, and its rest looks broken.
            ("{\"a\":\"\\n\\n\u{e9}\u{20ac}\" x}", -32700),
            ("1", -32600),
            ("{}", -32600),
            ("[]", -32600),
        ] {
            peer.send_bytes(&text_frame(wrong));
            expect_error(&peer.heard(), code, None);
        }
        let deep = "[".repeat(100) + &"]".repeat(100);
        peer.send_bytes(&text_frame(deep));
        expect_error(&peer.heard(), -32600, None);
        // What is between them is served.
        let call = echo(1, "between");
        peer.expect_answer_to(&call);
        peer.send_bytes(&text_frame(format!("{{\n{call}\n}}")));
        expect_error(&peer.heard(), -32700, None);
        assert_eq!(text(&peer.heard()), "between");
        expect_error(&peer.heard(), -32700, None);
        peer.close(1000);
        stage.close();
    });
}

#[test]
fn a_text_of_nothing_is_nothing() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut peer = Peer::begin(stage.address(), LEGACY);
        for nothing in [&b""[..], b"\n", b"\r\n\n"] {
            peer.send(FINAL | TEXT, nothing);
        }
        assert_eq!(text(&peer.ask(&echo(1, "something"))), "something");
        peer.close(1000);
        stage.close();
    });
}

#[test]
fn a_strict_server_wants_a_newline_behind_every_text() {
    over_each_ring(|mut options| {
        options.websocket.strict_delimiter = true;
        let stage = Stage::open(options);
        for wrong in [b"".to_vec(), b"\n{}".to_vec(), echo(1, "hi").to_string().into_bytes()] {
            let mut peer = Peer::open(stage.address());
            let call = modern(echo(0, "delimited"));
            peer.expect_answer_to(&call);
            peer.send_bytes(&text_frame(format!("{call}\n")));
            assert_eq!(text(&peer.heard()), "delimited");
            peer.send(FINAL | TEXT, &wrong);
            peer.expect_close(1002);
        }
        let counters = stage.close();
        assert_eq!(counters.websockets.closed_protocol, 3, "{counters}");
    });
}

#[test]
fn answers_of_every_length_are_framed() {
    let stage = Stage::open(options());
    let mut peer = Peer::begin(stage.address(), LEGACY);
    let empty = peer.ask(&echo(0, "")).to_string().len();
    // Around the two lengths of a payload at which a header grows.
    let lengths = [0, 124, 125, 126, 127, 128, 65_534, 65_535, 65_536, 65_537, 1 << 20];
    for length in lengths.map(|length: usize| length.saturating_sub(empty)) {
        for length in [length, length + 1] {
            let message = "m".repeat(length);
            assert_eq!(text(&peer.ask(&echo(0, &message))), message);
        }
    }
    peer.close(1000);
    stage.close();
}
