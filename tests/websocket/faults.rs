//! The table of errors of the transport contract, and everything else that breaks the protocol:
//! each ends its connection, and no other, with its own code.

use serde_json::json;

use crate::messages::{LEGACY, call, echo, text};
use crate::peer::{BINARY, CLOSE, CONTINUATION, FINAL, PING, Peer, TEXT, frame, text_frame};
use crate::stage::{Stage, options, over_each_ring};
use corelane::server::options::Utf8CloseCode;

/// Bytes that break the protocol, and the code that they are closed with.
fn faults() -> Vec<(Vec<u8>, u16)> {
    let mut unmasked = text_frame("{}");
    unmasked[1] &= 0x7f;
    let mut long = vec![FINAL | TEXT, 0xfe, 0, 5];
    long.extend(b"\0\0\0\0hello");
    let mut huge = vec![FINAL | TEXT, 0xff];
    huge.extend([0xff; 8]);
    huge.extend(b"\0\0\0\0");
    let part = |first: u8| frame(first, b"[");
    vec![
        (frame(FINAL | BINARY, b"{}"), 1003),
        (frame(BINARY, b"{"), 1003),
        (frame(FINAL | TEXT, b"\"\xff\""), 1007),
        (frame(FINAL | TEXT, b"\xff"), 1007),
        (frame(FINAL | TEXT, b"\"\xff"), 1007),
        (frame(FINAL | TEXT, b"{\"jsonrpc\":\"2.0\",\"id\":\"\xc3\"}"), 1007),
        (frame(FINAL | TEXT, &b"\x80".repeat(5_000)), 1007),
        (unmasked, 1002),
        (frame(FINAL | 0x40 | TEXT, b"{}"), 1002),
        (frame(FINAL | 0x20 | TEXT, b"{}"), 1002),
        (frame(FINAL | 0x10 | TEXT, b"{}"), 1002),
        (frame(FINAL | 0x3, b"{}"), 1002),
        (frame(FINAL | 0xb, b"{}"), 1002),
        (frame(PING, b""), 1002),
        (frame(FINAL | PING, &[b'x'; 126]), 1002),
        (frame(FINAL | CONTINUATION, b"{}"), 1002),
        ([part(TEXT), part(TEXT)].concat(), 1002),
        ([part(TEXT), part(FINAL | TEXT)].concat(), 1002),
        (long, 1002),
        (huge, 1002),
        (frame(FINAL | CLOSE, &[3]), 1002),
        (frame(FINAL | CLOSE, &999_u16.to_be_bytes()), 1002),
        (frame(FINAL | CLOSE, &1005_u16.to_be_bytes()), 1002),
        (frame(FINAL | CLOSE, &[&1000_u16.to_be_bytes()[..], b"\xff"].concat()), 1007),
    ]
}

#[test]
fn what_breaks_the_protocol_ends_its_connection_with_the_code_of_the_fault() {
    over_each_ring(|options| {
        let stage = Stage::open(options);
        let mut other = Peer::begin(stage.address(), LEGACY);
        let faults = faults();
        for (bytes, code) in &faults {
            eprintln!("{code}: {}", bytes[..bytes.len().min(40)].escape_ascii());
            let mut peer = Peer::begin(stage.address(), LEGACY);
            // What is in flight is cancelled; what came whole before is answered.
            peer.say(&call("it", "until-cancelled", json!({})));
            assert_eq!(stage.told(), "begun");
            let before = echo(1, "before");
            peer.expect_answer_to(&before);
            peer.send_bytes(&[text_frame(&before), bytes.clone()].concat());
            assert_eq!(text(&peer.heard()), "before");
            peer.expect_close(*code);
            assert_eq!(stage.told(), "cancelled");
            assert_eq!(text(&other.ask(&echo(2, "unharmed"))), "unharmed");
        }
        other.close(1000);
        let counters = stage.close();
        let closed = &counters.websockets;
        let of = |code| faults.iter().filter(|fault| fault.1 == code).count() as u64;
        assert_eq!(closed.closed_protocol, of(1002), "{counters}");
        assert_eq!(closed.closed_unsupported, of(1003), "{counters}");
        assert_eq!(closed.closed_invalid, of(1007), "{counters}");
        assert_eq!(counters.faults.utf8, of(1007), "{counters}");
        assert_eq!(counters.connections.closed_by_fault, faults.len() as u64, "{counters}");
        assert_eq!(counters.requests.cancelled, faults.len() as u64, "{counters}");
    });
}

#[test]
fn a_fault_is_the_same_wherever_its_bytes_are_cut() {
    let stage = Stage::open(options());
    for (bytes, code) in faults() {
        for cut in 1..bytes.len().min(20) {
            let mut peer = Peer::open(stage.address());
            peer.send_bytes(&bytes[..cut]);
            // It may be broken by what has come already.
            peer.try_send_bytes(&bytes[cut..]).ok();
            peer.expect_close(code);
        }
    }
    stage.close();
}

#[test]
fn what_is_not_utf8_gets_the_code_that_is_configured() {
    over_each_ring(|mut options| {
        options.websocket.utf8_close_code = Utf8CloseCode::ProtocolError;
        let stage = Stage::open(options);
        for (bytes, code) in faults() {
            let mut peer = Peer::open(stage.address());
            peer.send_bytes(&bytes);
            peer.expect_close(if code == 1007 { 1002 } else { code });
        }
        let counters = stage.close();
        assert_eq!(counters.websockets.closed_invalid, 0, "{counters}");
    });
}

#[test]
fn a_message_longer_than_may_be_is_refused_by_its_header() {
    over_each_ring(|mut options| {
        options.limits.message_bytes_max = 10_000;
        let stage = Stage::open(options);
        let whole = frame(FINAL | TEXT, &[b' '; 10_001]);
        let second = frame(FINAL | CONTINUATION, &[b' '; 5_001]);
        let parts = [frame(TEXT, &[b' '; 5_000]), second].concat();
        for bytes in [&whole[..], &whole[..8], &parts, &parts[..parts.len() - 5_001]] {
            let mut peer = Peer::open(stage.address());
            peer.send_bytes(bytes);
            peer.expect_close(1009);
        }
        let mut peer = Peer::begin(stage.address(), LEGACY);
        let mut most = echo(1, "as long as may be").to_string();
        most.push_str(&" ".repeat(10_000 - most.len()));
        peer.send_bytes(&text_frame(most));
        assert_eq!(text(&peer.heard()), "as long as may be");
        peer.close(1000);
        let counters = stage.close();
        assert_eq!(counters.websockets.closed_too_big, 4, "{counters}");
        assert_eq!(counters.faults.oversize, 4, "{counters}");
    });
}

#[test]
fn a_server_short_of_memory_says_so_and_closes() {
    over_each_ring(|mut options| {
        options.limits.memory_bytes_max = 100_000;
        options.limits.message_bytes_max = 90_000;
        let stage = Stage::open(options);
        let peers = (0..2).map(|_| Peer::open(stage.address()));
        let peers: Vec<Peer> = peers
            .map(|mut peer| {
                peer.send(TEXT, &vec![b' '; 60_000]);
                peer
            })
            .collect();
        // One of them is told.
        let told: Vec<bool> = peers
            .into_iter()
            .map(|mut peer| {
                peer.try_send_bytes(&frame(FINAL | PING, b"")).ok();
                let frame = peer.frame().expect("a frame");
                if frame.payload().is_empty() {
                    return false;
                }
                let text = frame.to_text().expect("UTF-8");
                assert!(text.contains("-32603") && text.contains("memory"), "{text}");
                peer.expect_close(1011);
                true
            })
            .collect();
        assert_eq!(told.iter().filter(|it| **it).count(), 1, "{told:?}");
        let counters = stage.close();
        assert_eq!(counters.faults.memory, 1, "{counters}");
        assert_eq!(counters.websockets.closed_internal, 1, "{counters}");
    });
}
