//! What ends by time, and what does not.

use std::time::Duration;

use corelane::engine::ring::Socket;
use corelane::link::Ending;

use crate::stage::{Manner, Stage};

const A: Socket = Socket(1);

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn one_that_says_nothing_whole_loses_its_lease() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open(A);
    for _ in 0..29 {
        stage.wait(milliseconds(100));
        // A byte now and then is no message.
        stage.arrive(A, b"x");
        assert!(stage.ring.closing.is_empty());
    }
    stage.wait(milliseconds(100));
    stage.closed(A);
    assert_eq!(stage.ended, [("tcp", Ending::Lease)]);
    assert_eq!((stage.weight(), stage.link.deadline()), (0, None));
}

#[test]
fn one_that_falls_silent_is_ended_and_each_message_counts_anew() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open(A);
    for _ in 0..10 {
        stage.arrive(A, b"x\n");
        stage.drain(A);
        stage.wait(milliseconds(9_900));
    }
    assert!(stage.ring.closing.is_empty());
    stage.wait(milliseconds(100));
    stage.closed(A);
    assert_eq!(stage.ended, [("tcp", Ending::Idle)]);
}

#[test]
fn one_that_waits_for_an_answer_is_not_silent() {
    let mut stage = Stage::new(Manner::Owe);
    let key = stage.open(A);
    stage.arrive(A, b"x\n");
    for _ in 0..100 {
        stage.wait(milliseconds(5_000));
    }
    assert!(stage.ring.closing.is_empty());
    stage.repay(key, "at last");
    stage.drain(A);
    stage.wait(milliseconds(9_999));
    assert!(stage.ring.closing.is_empty(), "its silence begins with the answer");
    stage.wait(milliseconds(1));
    stage.closed(A);
    assert_eq!(stage.ended, [("tcp", Ending::Idle)]);
}

#[test]
fn one_that_does_not_read_its_answer_is_silent() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open(A);
    stage.arrive(A, b"question\n");
    stage.flush();
    stage.wait(milliseconds(6_000));
    // A part of it goes: it reads, slowly.
    stage.sent(A, &Ok(3));
    stage.wait(milliseconds(9_999));
    assert!(stage.ring.closing.is_empty());
    stage.wait(milliseconds(1));
    assert!(stage.ring.closing.contains(&A));
}

#[test]
fn a_goodbye_has_its_whole_time_and_no_more() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open(A);
    stage.arrive(A, b"x\n");
    stage.drain(A);
    // Just before a deadline from its life would come.
    stage.wait(milliseconds(2_990));
    let now = stage.now;
    stage.link.finish(&mut stage.ring, key, Ending::Fault, now);
    assert!(stage.ring.finished.contains(&A));
    for _ in 0..99 {
        stage.wait(milliseconds(10));
        stage.arrive(A, b"talks on\n");
    }
    assert!(stage.ring.closing.is_empty());
    stage.wait(milliseconds(10));
    stage.closed(A);
    assert_eq!(stage.ended, [("tcp", Ending::Fault)]);
}

#[test]
fn pipes_have_all_the_time_there_is() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_pipes("pipes", A, Socket(2));
    assert_eq!(stage.link.deadline(), None);
    stage.wait(Duration::from_hours(1_000));
    stage.arrive(A, b"x\n");
    assert_eq!(stage.drain(Socket(2)), "x\n");
}

#[test]
fn connections_that_come_and_go_leave_no_deadlines_behind() {
    let mut stage = Stage::new(Manner::Echo);
    for _ in 0..100_000 {
        let key = stage.open(A);
        stage.link.close(&mut stage.ring, key, Ending::Drain);
        stage.closed(A);
    }
    // What is left is looked at once, at the deadline of the oldest, and then forgotten.
    let mut looks = 0;
    while let Some(deadline) = stage.link.deadline() {
        stage.now = deadline;
        stage.link.expire(&mut stage.ring, deadline);
        looks += 1;
        assert!(looks < 10);
    }
}
