//! Goodbyes: what is owed is said, the last answer arrives, and nothing is left behind.

use std::io;

use corelane::engine::ring::Socket;
use corelane::link::{Ending, Framing, Stream};

use crate::stage::{Manner, Stage};

const A: Socket = Socket(5);

#[test]
fn a_peer_that_has_said_its_last_gets_every_answer_it_is_owed() {
    let mut stage = Stage::new(Manner::Owe);
    let key = stage.open(A);
    stage.arrive(A, b"1\n2");
    stage.end_input(A, &Ok(()));
    assert_eq!(stage.heard, ["1", "2"], "a last line needs no terminator");
    stage.flush();
    assert!(stage.ring.closing.is_empty());
    stage.repay(key, "one");
    stage.flush();
    assert_eq!(stage.sent_all(A), "one\n");
    assert!(stage.ring.closing.is_empty());
    stage.repay(key, "two");
    assert_eq!(stage.drain(A), "two\n");
    // Both have said their last: there is no goodbye to wait for.
    assert!(stage.ring.finished.is_empty());
    stage.closed(A);
    assert_eq!(stage.ended, [("tcp", Ending::Peer)]);
}

#[test]
fn a_refused_connection_is_told_and_waited_for() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open(A);
    stage.say(key, "no room");
    let now = stage.now;
    stage.link.finish(&mut stage.ring, key, Ending::Refusal, now);
    stage.arrive(A, b"but I have questions\n");
    stage.flush();
    assert!(stage.ring.finished.is_empty(), "not before it is told");
    assert_eq!(stage.sent_all(A), "no room\n");
    assert!(stage.ring.finished.contains(&A) && stage.ring.closing.is_empty());
    stage.arrive(A, b"still\n");
    stage.end_input(A, &Ok(()));
    stage.closed(A);
    assert_eq!(stage.ended, [("tcp", Ending::Refusal)]);
    assert!(stage.heard.is_empty());
}

#[test]
fn a_failure_ends_a_connection_at_once_and_its_calls_with_it() {
    let mut stage = Stage::new(Manner::Owe);
    let key = stage.open(A);
    stage.arrive(A, b"1\nhalf a li");
    stage.end_input(A, &Err(io::ErrorKind::ConnectionReset.into()));
    assert_eq!(stage.abandoned, [key]);
    stage.repay(key, "too late");
    stage.flush();
    assert!(stage.ring.sends.is_empty());
    stage.closed(A);
    assert_eq!(stage.ended, [("tcp", Ending::Failure)]);
    assert_eq!(stage.weight(), 0);
}

#[test]
fn a_close_waits_for_the_send_that_is_under_way() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open(A);
    stage.arrive(A, b"hello\n");
    stage.flush();
    stage.say(key, "never sent");
    stage.link.close(&mut stage.ring, key, Ending::Drain);
    stage.link.close(&mut stage.ring, key, Ending::Failure);
    stage.sent(A, &Err(io::Error::from_raw_os_error(125)));
    stage.flush();
    assert!(stage.abandoned.is_empty(), "it was its own doing");
    stage.closed(A);
    assert_eq!(stage.ended, [("tcp", Ending::Drain)], "the first reason stands");
    assert_eq!(stage.weight(), 0);
}

#[test]
fn a_name_that_is_used_again_is_another_connection() {
    let mut stage = Stage::new(Manner::Echo);
    let first = stage.open(A);
    stage.arrive(A, b"half of the fi");
    stage.link.close(&mut stage.ring, first, Ending::Drain);
    stage.closed(A);
    let second = stage.open(A);
    assert_ne!(first, second);
    stage.arrive(A, b"whole\n");
    assert_eq!(stage.heard, ["whole"]);
    // What the first one left behind finds nobody.
    stage.say(first, "lost");
    assert_eq!(stage.drain(A), "whole\n");
}

#[test]
fn completions_of_a_socket_that_nobody_knows_are_passed_over() {
    let mut stage = Stage::new(Manner::Echo);
    let (ring, link) = (&mut stage.ring, &mut stage.link);
    let retained_bytes = link.pool.retained_bytes();
    link.sent(ring, A, Vec::with_capacity(64), &Ok(64), stage.now);
    assert_eq!(link.pool.retained_bytes(), retained_bytes + 64, "the buffer is not lost");
    link.ended(ring, A, &Ok(()));
    assert_eq!(link.closed(A), None);
    assert!(link.key(A).is_none());
}

#[test]
fn a_table_that_is_full_hands_the_session_back() {
    let mut stage = Stage::new(Manner::Echo);
    for number in 0..4 {
        stage.open(Socket(number));
    }
    let stream =
        Stream { receive: Socket(4), send: Socket(4), peer: None, framing: Framing::Lines };
    let refused = stage.link.open(&mut stage.ring, stream, "too many", stage.now);
    assert_eq!(refused.unwrap_err(), "too many");
    assert!(!stage.ring.receiving.contains(&Socket(4)));
    assert!(stage.link.key(Socket(4)).is_none());
}

#[test]
fn a_line_that_was_given_up_is_skipped_to_its_end() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open(A);
    assert!(!stage.link.skip_line(key));
    stage.arrive(A, b"too much for");
    assert!(stage.link.skip_line(key));
    assert_eq!(stage.weight(), 0);
    stage.arrive(A, b" the memory");
    assert_eq!(stage.weight(), 0);
    stage.arrive(A, b" of all\nnext\n");
    assert_eq!(stage.heard, ["next"]);
}
