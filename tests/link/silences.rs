//! What time does to a connection of frames: signs of life, silence, halves of messages.

use std::time::Duration;

use corelane::engine::ring::Socket;
use corelane::link::Ending;

use crate::peer::{beginning, ending, ping, pong, text};
use crate::stage::{Manner, Stage};

const A: Socket = Socket(3);

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn a_silent_peer_is_asked_for_a_sign_of_life_again_and_again() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    for _ in 0..3 {
        stage.wait(milliseconds(2_999));
        assert!(stage.drain_frames(A).is_empty());
        stage.wait(milliseconds(1));
        assert_eq!(stage.drain_frames(A), ["ping"]);
    }
    assert_eq!(stage.link.statistics.frames.pings_out, 3);
}

#[test]
fn every_frame_is_a_sign_of_life() {
    let mut stage = Stage::new(Manner::Listen);
    stage.open_frames(A);
    let frames = [text("word"), ping(""), pong(), beginning("so"), ending(" on")];
    for frame in frames.iter().cycle().take(20) {
        stage.wait(milliseconds(2_900));
        stage.arrive(A, frame);
        stage.drain_bytes(A);
    }
    assert_eq!(stage.link.statistics.frames.pings_out, 0);
}

#[test]
fn a_peer_that_gives_signs_of_life_may_be_silent_for_ever() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    for _ in 0..1_000 {
        stage.wait(milliseconds(3_000));
        assert_eq!(stage.drain_frames(A), ["ping"]);
        stage.arrive(A, &pong());
    }
    assert_eq!(stage.weight(), 0);
    let counts = stage.link.statistics.frames;
    assert_eq!((counts.pings_out, counts.pongs_in), (1_000, 1_000));
}

#[test]
fn a_peer_that_gives_none_is_closed_as_idle() {
    let mut stage = Stage::new(Manner::Owe);
    let key = stage.open_frames(A);
    // It waits for an answer, and would have to say that it is there all the same.
    stage.arrive(A, &text("question"));
    for _ in 0..3 {
        stage.wait(milliseconds(3_000));
        assert_eq!(stage.drain_frames(A), ["ping"]);
    }
    stage.wait(milliseconds(1_000));
    stage.repay(key, "too late");
    assert_eq!(stage.drain_frames(A), ["close 1000 nothing was heard for too long"]);
    stage.end_input(A, &Ok(()));
    stage.closed(A);
    assert_eq!(stage.ended, [("http", Ending::Idle)]);
}

#[test]
fn a_message_that_does_not_become_whole_in_time_breaks_the_protocol() {
    let half: [&[u8]; 3] = [&text("whole")[..7], &beginning("two "), &text("whole")[..1]];
    for half in half {
        let mut stage = Stage::new(Manner::Echo);
        stage.open_frames(A);
        stage.wait(milliseconds(2_000));
        stage.arrive(A, &[&text("before"), half].concat());
        assert_eq!(stage.drain_frames(A), ["before"]);
        stage.wait(milliseconds(3_999));
        assert_eq!(stage.drain_frames(A), ["ping"]);
        stage.wait(milliseconds(1));
        let farewell = "close 1002 the message did not become whole in time";
        assert_eq!(stage.drain_frames(A), [farewell]);
        assert_eq!((stage.weight(), stage.link.statistics.frames.unfinished), (0, 1));
        stage.end_input(A, &Ok(()));
        stage.closed(A);
        assert_eq!(stage.ended, [("http", Ending::Lease)]);
    }
}

#[test]
fn other_frames_do_not_lengthen_the_time_of_a_message_in_fragments() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    stage.arrive(A, &beginning("never "));
    for _ in 0..7 {
        stage.wait(milliseconds(500));
        stage.arrive(A, &ping("I am there"));
        assert_eq!(stage.drain_frames(A), ["pong I am there"]);
    }
    stage.wait(milliseconds(500));
    assert_eq!(stage.drain_frames(A), ["close 1002 the message did not become whole in time"]);
}

#[test]
fn each_message_has_a_time_of_its_own() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    stage.arrive(A, &beginning("one"));
    for _ in 0..10 {
        stage.wait(milliseconds(2_900));
        // The end of one and the beginning of the next in one arrival.
        stage.arrive(A, &[ending(""), beginning("one")].concat());
        assert_eq!(stage.drain_frames(A), ["one"]);
    }
    stage.arrive(A, &ending(""));
    stage.wait(milliseconds(4_000));
    stage.arrive(A, &text("whole"));
    assert_eq!(stage.drain_frames(A), ["one", "ping", "whole"]);
}

#[test]
fn deadlines_that_move_leave_nothing_behind() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_frames(A);
    let mut looks = 0;
    for _ in 0..5_000 {
        stage.arrive(A, &text("halves")[..5]);
        stage.arrive(A, &text("halves")[5..]);
        stage.drain_bytes(A);
        stage.now = stage.now.after(milliseconds(10));
        while stage.link.deadline().is_some_and(|deadline| deadline <= stage.now) {
            let deadline = stage.link.deadline().unwrap();
            stage.link.expire(&mut stage.ring, deadline);
            looks += 1;
        }
    }
    // 50 s, and a deadline is at most 4 s away.
    assert!(looks < 50, "{looks} looks");
    assert!(stage.ring.closing.is_empty());
}
