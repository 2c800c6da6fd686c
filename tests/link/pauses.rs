//! Backpressure: a peer that does not read is not read, and nothing of it is lost.

use corelane::engine::ring::Socket;
use corelane::link::Ending;

use crate::stage::{Manner, Stage};

const A: Socket = Socket(0);

/// Lines of ten bytes with their terminator.
fn lines(numbers: std::ops::Range<u32>) -> String {
    let lines: Vec<String> = numbers.map(|number| format!("line-{number:04}\n")).collect();
    lines.concat()
}

#[test]
fn a_peer_that_does_not_read_is_not_read_and_goes_on_where_it_stood() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open(A);
    stage.arrive(A, lines(0..8).as_bytes());
    // Forty bytes may wait, and the answer that passed the bound.
    assert_eq!(stage.heard.len(), 5);
    assert!(!stage.ring.receiving.contains(&A));
    assert_eq!(stage.link.statistics.paused, 1);
    // What was on its way already waits behind.
    stage.arrive(A, lines(8..9).as_bytes());
    assert_eq!(stage.heard.len(), 5);
    stage.flush();
    assert_eq!(stage.sent_all(A), lines(0..5));
    assert_eq!(stage.heard.len(), 9, "the rest is carried as soon as there is room");
    assert!(stage.ring.receiving.contains(&A));
    assert_eq!(stage.drain(A), lines(5..9));
}

#[test]
fn it_is_read_again_only_when_half_has_drained() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open(A);
    stage.arrive(A, lines(0..8).as_bytes());
    stage.flush();
    stage.sent(A, &Ok(20));
    assert_eq!(stage.heard.len(), 5, "thirty bytes still wait");
    stage.sent(A, &Ok(10));
    assert_eq!(stage.heard.len(), 5, "the rest of a send is asked for before anything is read");
    stage.sent(A, &Ok(20));
    assert_eq!(stage.heard.len(), 8);
    assert_eq!(stage.drain(A), lines(5..8));
}

#[test]
fn a_pause_can_be_followed_by_another_out_of_what_waited() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open(A);
    stage.arrive(A, lines(0..14).as_bytes());
    let mut answered = String::new();
    for (heard, receives) in [(5, false), (10, false), (14, true)] {
        assert_eq!(stage.heard.len(), heard);
        assert_eq!(stage.ring.receiving.contains(&A), receives);
        stage.flush();
        answered += &stage.sent_all(A);
    }
    assert_eq!(answered, lines(0..14));
    assert_eq!(stage.weight(), 0);
}

#[test]
fn a_peer_that_waits_for_answers_is_read_on() {
    // Its next word may be what an answer waits for, or that it is not wanted any more.
    let mut stage = Stage::new(Manner::Owe);
    let key = stage.open(A);
    stage.arrive(A, b"1\n2\n3\n4\n");
    assert_eq!(stage.heard, ["1", "2", "3", "4"]);
    assert!(stage.ring.receiving.contains(&A));
    for answer in ["one", "two", "three", "four"] {
        stage.repay(key, answer);
    }
    assert_eq!(stage.drain(A), "one\ntwo\nthree\nfour\n");
    assert_eq!(stage.link.statistics.paused, 0);
}

#[test]
fn the_end_of_a_stream_waits_for_what_came_before_it() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open(A);
    stage.arrive(A, (lines(0..8) + "the last").as_bytes());
    stage.end_input(A, &Ok(()));
    assert_eq!(stage.heard.len(), 5, "paused: the end is not the next thing to be read");
    let answered = stage.drain(A);
    assert_eq!(answered, lines(0..8) + "the last\n");
    stage.closed(A);
    assert_eq!(stage.ended, [("tcp", Ending::Peer)]);
    assert_eq!(stage.weight(), 0);
}

#[test]
fn a_connection_that_ends_while_it_is_paused_says_what_it_owes_and_reads_nothing() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open(A);
    stage.arrive(A, lines(0..8).as_bytes());
    let now = stage.now;
    stage.link.finish(&mut stage.ring, key, Ending::Drain, now);
    assert_eq!(stage.drain(A), lines(0..5));
    assert_eq!(stage.heard.len(), 5);
    assert!(stage.ring.finished.contains(&A) && stage.ring.receiving.contains(&A));
    stage.arrive(A, lines(8..9).as_bytes());
    assert_eq!((stage.heard.len(), stage.weight()), (5, 0), "thrown away");
    stage.end_input(A, &Ok(()));
    stage.closed(A);
    assert_eq!(stage.ended, [("tcp", Ending::Drain)]);
}
