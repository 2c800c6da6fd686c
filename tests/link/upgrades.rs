//! A connection of requests becomes one of frames: in its place, and without losing a byte.

use std::time::Duration;

use corelane::engine::ring::Socket;
use corelane::link::{Ending, Framing, Stream};
use corelane::transport::websocket::reader::FrameReader;

use crate::peer::{self, ping, text};
use crate::stage::{Manner, Stage, UPGRADE, UPGRADED};

const A: Socket = Socket(3);

/// What a peer reads that was upgraded: the frames behind the answer to that.
fn frames_behind_upgrade(bytes: &[u8]) -> Vec<String> {
    peer::frames(bytes.strip_prefix(UPGRADED.as_bytes()).expect("the upgrade is answered first"))
}

#[test]
fn what_comes_behind_the_head_in_one_arrival_is_read_as_frames() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open_requests(A);
    stage.arrive(A, &[UPGRADE, &text("one"), &ping("p"), &text("two")].concat());
    assert_eq!(stage.link.key(A), Some(key), "the connection keeps its place");
    assert_eq!(stage.link.framing(key), Framing::Frames);
    assert_eq!(stage.heard, ["one", "two"]);
    assert_eq!(frames_behind_upgrade(&stage.drain_bytes(A)), ["one", "pong p", "two"]);
    assert_eq!(stage.link.statistics.frames.adopted, 1);
}

#[test]
fn an_upgrade_reads_the_same_wherever_it_is_cut() {
    let stream = [UPGRADE, &text("one"), &text("two")].concat();
    for cut in 0..=stream.len() {
        let mut stage = Stage::new(Manner::Echo);
        stage.open_requests(A);
        stage.arrive(A, &stream[..cut]);
        stage.arrive(A, &stream[cut..]);
        let read = frames_behind_upgrade(&stage.drain_bytes(A));
        assert_eq!(read, ["one", "two"], "cut at {cut}");
    }
}

#[test]
fn what_waited_while_the_connection_was_held_is_read_on_as_frames() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open_requests(A);
    stage.link.hold(key);
    stage.arrive(A, &[UPGRADE, &text("one")[..3]].concat());
    stage.arrive(A, &[&text("one")[3..], &text("two")].concat());
    assert_eq!(stage.link.framing(key), Framing::Requests);
    let next = stage.link.release(key);
    stage.follow(next);
    assert_eq!(stage.heard, ["one", "two"]);
    assert_eq!(frames_behind_upgrade(&stage.drain_bytes(A)), ["one", "two"]);
}

#[test]
fn only_a_connection_of_requests_that_goes_on_is_adopted() {
    let mut stage = Stage::new(Manner::Echo);
    let lines = stage.open(Socket(1));
    let ending = stage.open_requests(Socket(2));
    let frames = stage.open_frames(A);
    let now = stage.now;
    stage.link.finish(&mut stage.ring, ending, Ending::Drain, now);
    for key in [lines, ending, frames] {
        assert!(!stage.link.adopt(key, FrameReader::new(), now));
    }
    stage.arrive(A, &text("still the same"));
    assert_eq!(stage.heard, ["still the same"]);
}

#[test]
fn a_connection_may_be_one_of_frames_from_its_first_byte() {
    let mut stage = Stage::new(Manner::Echo);
    let stream = Stream { receive: A, send: A, peer: None, framing: Framing::Frames };
    let now = stage.now;
    stage.link.open(&mut stage.ring, stream, "frames", now).unwrap();
    stage.arrive(A, &text("one"));
    assert_eq!(stage.drain_frames(A), ["one"]);
    stage.wait(Duration::from_secs(3));
    assert_eq!(stage.drain_frames(A), ["ping"]);
}

#[test]
fn an_idle_connection_holds_no_buffer() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open_frames(A);
    let whole = [peer::beginning("in "), ping("with a payload"), peer::ending("two")].concat();
    for byte in whole {
        stage.arrive(A, &[byte]);
        assert!(stage.weight() < 40);
    }
    assert_eq!(stage.drain_frames(A), ["pong with a payload", "in two"]);
    stage.arrive(A, &text("whole"));
    stage.drain_bytes(A);
    assert_eq!(stage.weight(), 0);
    assert_eq!(stage.link.connections.get(key).unwrap().outgoing.capacity(), 0);
}
