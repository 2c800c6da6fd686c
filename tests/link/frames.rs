//! Messages and control frames of a connection that is well.

use corelane::engine::ring::Socket;

use crate::peer::{beginning, ending, ping, pong, text};
use crate::stage::{Manner, Stage};

const A: Socket = Socket(3);

#[test]
fn messages_are_heard_in_their_order_and_their_answers_leave_in_one_send() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    let sends = stage.link.statistics.sends;
    stage.arrive(A, &[text("one"), text("two"), text("three")].concat());
    assert_eq!(stage.heard, ["one", "two", "three"]);
    assert_eq!(stage.drain_frames(A), ["one", "two", "three"]);
    assert_eq!(stage.link.statistics.sends, sends + 1);
    assert_eq!(stage.link.statistics.frames.messages_in, 3);
}

#[test]
fn a_message_in_fragments_and_arrivals_is_one() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    let stream =
        [beginning("to"), ping("between"), pong(), ending("gether"), text("next")].concat();
    for cut in 0..=stream.len() {
        stage.heard.clear();
        stage.arrive(A, &stream[..cut]);
        stage.arrive(A, &stream[cut..]);
        assert_eq!(stage.heard, ["together", "next"], "cut at {cut}");
        assert_eq!(stage.drain_frames(A), ["pong between", "together", "next"]);
        assert_eq!(stage.weight(), 0);
    }
}

#[test]
fn a_ping_is_answered_in_its_place() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    stage.arrive(A, &[ping("1"), text("one"), ping(""), text("two"), ping("3")].concat());
    assert_eq!(stage.drain_frames(A), ["pong 1", "one", "pong", "two", "pong 3"]);
    assert_eq!(stage.link.statistics.frames.pings_in, 3);
}

#[test]
fn a_pong_that_nobody_asked_for_changes_nothing() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    stage.arrive(A, &[pong(), pong(), text("one")].concat());
    assert_eq!(stage.drain_frames(A), ["one"]);
    assert_eq!(stage.link.statistics.frames.pongs_in, 2);
}

#[test]
fn an_answer_may_come_later() {
    let mut stage = Stage::new(Manner::Owe);
    let key = stage.open_frames(A);
    stage.arrive(A, &[text("1"), text("2")].concat());
    assert!(stage.drain_frames(A).is_empty());
    stage.repay(key, "two");
    stage.repay(key, "one");
    assert_eq!(stage.drain_frames(A), ["two", "one"]);
}
