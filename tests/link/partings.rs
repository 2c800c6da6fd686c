//! The closing handshake: told why, behind everything that was said, and never for ever.

use std::io;
use std::time::Duration;

use corelane::engine::ring::Socket;
use corelane::link::Ending;
use corelane::transport::websocket::code::CloseCode;
use corelane::transport::websocket::limits::Fault;

use crate::peer::{self, beginning, close, ping, text};
use crate::stage::{Manner, Stage};

const A: Socket = Socket(3);

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn a_peer_that_closes_hears_its_own_code_behind_its_answers() {
    let codes = [(None, "close"), (Some(1000), "close 1000"), (Some(4242), "close 4242")];
    for (code, echo) in codes {
        let mut stage = Stage::new(Manner::Echo);
        let key = stage.open_frames(A);
        stage.arrive(A, &[text("one"), ping("p"), close(code), text("no more")].concat());
        stage.arrive(A, &text("still no more"));
        stage.say(key, "and nothing is said");
        assert_eq!(stage.drain_frames(A), ["one", "pong p", echo]);
        assert_eq!(stage.left, [(key, code)]);
        assert_eq!(stage.weight(), 0);
        assert!(stage.ring.finished.contains(&A) && stage.ring.closing.is_empty());
        stage.end_input(A, &Ok(()));
        stage.closed(A);
        assert_eq!(stage.ended, [("http", Ending::Peer)]);
        assert_eq!(stage.heard, ["one"]);
    }
}

#[test]
fn what_is_owed_to_a_peer_that_closes_has_nobody_to_hear_it() {
    let mut stage = Stage::new(Manner::Owe);
    let key = stage.open_frames(A);
    stage.arrive(A, &[text("question"), close(Some(1001))].concat());
    stage.repay(key, "answer");
    assert_eq!(stage.drain_frames(A), ["close 1001"]);
    stage.end_input(A, &Ok(()));
    stage.closed(A);
}

#[test]
fn a_drain_waits_for_what_is_owed_and_then_says_that_it_goes() {
    let mut stage = Stage::new(Manner::Owe);
    let key = stage.open_frames(A);
    stage.arrive(A, &text("question"));
    let now = stage.now;
    stage.link.finish(&mut stage.ring, key, Ending::Drain, now);
    stage.arrive(A, &text("one more"));
    assert!(stage.drain_frames(A).is_empty());
    stage.repay(key, "answer");
    assert_eq!(stage.drain_frames(A), ["answer", "close 1001 the server goes down"]);
    assert!(stage.ring.finished.contains(&A) && stage.ring.closing.is_empty());
    // Its close ends it at once, whatever it says before.
    stage.arrive(A, &[text("and"), ping(""), beginning("on"), close(Some(1001))].concat());
    stage.flush();
    stage.closed(A);
    assert_eq!(stage.ended, [("http", Ending::Drain)]);
    assert_eq!(stage.heard, ["question"]);
}

#[test]
fn a_peer_that_closes_during_a_drain_is_not_made_to_wait() {
    let mut stage = Stage::new(Manner::Owe);
    let key = stage.open_frames(A);
    stage.arrive(A, &text("question"));
    let now = stage.now;
    stage.link.finish(&mut stage.ring, key, Ending::Drain, now);
    stage.arrive(A, &close(Some(1000)));
    assert_eq!(stage.drain_frames(A), ["close 1000"]);
    stage.end_input(A, &Ok(()));
    stage.closed(A);
    assert_eq!(stage.ended, [("http", Ending::Drain)]);
}

#[test]
fn one_that_has_closed_before_it_could_be_read_is_not_made_to_wait_either() {
    let mut stage = Stage::new(Manner::Owe);
    let key = stage.open_frames(A);
    stage.arrive(A, &text("question"));
    stage.say(key, "something of more than forty bytes that it does not read");
    stage.flush();
    stage.arrive(A, &[text("not heard"), close(Some(1000))].concat());
    assert_eq!(stage.heard, ["question"]);
    let now = stage.now;
    stage.link.finish(&mut stage.ring, key, Ending::Drain, now);
    let read = stage.drain_frames(A);
    assert_eq!(read[1..], ["close 1001 the server goes down"]);
    assert_eq!(stage.link.statistics.frames.closes_in, 1);
    stage.end_input(A, &Ok(()));
    stage.closed(A);
}

#[test]
fn close_frames_that_cross_are_answer_enough() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open_frames(A);
    let now = stage.now;
    stage.link.finish(&mut stage.ring, key, Ending::Drain, now);
    assert!(stage.ring.sends.contains_key(&A));
    stage.arrive(A, &close(Some(1000)));
    assert_eq!(stage.drain_frames(A), ["close 1001 the server goes down"]);
    stage.closed(A);
    assert_eq!(stage.link.statistics.frames.closes_out, 1);
}

#[test]
fn a_fault_is_named_behind_what_was_answered_before_it() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open_frames(A);
    stage.arrive(A, &[text("one"), peer::frame(0x82, b"bytes"), text("two")].concat());
    assert_eq!(stage.drain_frames(A), ["one", "close 1003 binary messages are not taken"]);
    assert!(stage.left.is_empty());
    assert!(stage.link.outgoing(key).is_none());
    stage.end_input(A, &Ok(()));
    stage.closed(A);
    assert_eq!(stage.ended, [("http", Ending::Fault)]);
}

#[test]
fn a_fault_that_the_driver_finds_has_the_code_that_it_wants() {
    let mut stage = Stage::new(Manner::Listen);
    let key = stage.open_frames(A);
    stage.arrive(A, &text("{"));
    let fault = Fault { code: CloseCode::PROTOCOL, ..Fault::NOT_UTF8 };
    stage.link.break_off(key, fault, stage.now);
    stage.link.break_off(key, Fault::TOO_BIG, stage.now);
    assert_eq!(stage.drain_frames(A), ["close 1002 the text is not UTF-8"], "one close frame");
    // What comes of it is thrown away, and its memory with it, until it closes too.
    stage.arrive(A, &text("half of this message will never be read")[..20]);
    assert_eq!(stage.weight(), 0);
    stage.arrive(A, &text("half of this message will never be read")[20..]);
    stage.arrive(A, &close(Some(1002)));
    stage.flush();
    stage.closed(A);
    assert_eq!(stage.heard, ["{"]);
}

#[test]
fn half_a_message_does_not_hide_the_close_of_its_peer() {
    let mut stage = Stage::new(Manner::Listen);
    let key = stage.open_frames(A);
    stage.arrive(A, &text("half of this message has come")[..20]);
    assert!(stage.weight() > 0);
    let now = stage.now;
    stage.link.finish(&mut stage.ring, key, Ending::Drain, now);
    assert_eq!(stage.drain_frames(A), ["close 1001 the server goes down"]);
    assert_eq!(stage.weight(), 0);
    stage.arrive(A, &[&text("half of this message has come")[20..], &close(None)].concat());
    stage.flush();
    stage.closed(A);
}

#[test]
fn a_peer_that_does_not_close_has_its_time_and_no_more() {
    let mut stage = Stage::new(Manner::Listen);
    let key = stage.open_frames(A);
    // Just before a deadline from its life would come.
    stage.wait(milliseconds(2_990));
    let now = stage.now;
    stage.link.finish(&mut stage.ring, key, Ending::Drain, now);
    stage.wait(milliseconds(900));
    assert_eq!(stage.drain_frames(A), ["close 1001 the server goes down"]);
    for _ in 0..99 {
        stage.wait(milliseconds(10));
        stage.arrive(A, &text("talks on"));
    }
    assert!(stage.ring.closing.is_empty());
    stage.wait(milliseconds(10));
    stage.closed(A);
    assert_eq!(stage.ended, [("http", Ending::Drain)]);
}

#[test]
fn a_peer_that_never_reads_its_close_frame_is_cut() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    stage.arrive(A, &text("question"));
    stage.flush();
    stage.arrive(A, &peer::frame(0x83, b""));
    stage.flush();
    stage.wait(milliseconds(999));
    assert!(stage.ring.closing.is_empty());
    // A part of it goes, and buys no time.
    stage.sent(A, &Ok(3));
    stage.wait(milliseconds(1));
    stage.sent(A, &Err(io::Error::from_raw_os_error(125)));
    stage.closed(A);
    assert_eq!(stage.ended, [("http", Ending::Fault)]);
    assert!(stage.abandoned.is_empty());
}

#[test]
fn a_stream_that_ends_without_a_close_frame_is_closed_all_the_same() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    stage.arrive(A, &[text("one"), beginning("half a ")].concat());
    stage.end_input(A, &Ok(()));
    assert_eq!(stage.drain_frames(A), ["one", "close 1000"]);
    stage.closed(A);
    assert_eq!(stage.ended, [("http", Ending::Peer)]);
    assert_eq!(stage.heard, ["one"]);
}

#[test]
fn a_failure_on_the_way_out_ends_it_at_once() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open_frames(A);
    let now = stage.now;
    stage.link.finish(&mut stage.ring, key, Ending::Drain, now);
    stage.sent(A, &Err(io::ErrorKind::BrokenPipe.into()));
    stage.closed(A);
    assert_eq!(stage.ended, [("http", Ending::Drain)], "the first reason stands");
    assert_eq!(stage.weight(), 0);
}
