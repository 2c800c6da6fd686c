//! What departs: corked, one send at a time, in order.

use std::io;

use corelane::engine::ring::Socket;
use corelane::link::Ending;

use crate::stage::{Manner, Stage};

const A: Socket = Socket(3);
const B: Socket = Socket(9);

#[test]
fn what_arrived_together_is_answered_by_one_send() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open(A);
    stage.arrive(A, b"one\ntwo\nth");
    stage.arrive(A, b"ree\n");
    assert!(stage.ring.sends.is_empty(), "nothing leaves before the end of the turn");
    stage.flush();
    assert_eq!(stage.sent_all(A), "one\ntwo\nthree\n");
    assert_eq!(stage.link.statistics.sends, 1);
}

#[test]
fn one_send_at_a_time_and_what_is_said_meanwhile_goes_next_in_order() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open(A);
    stage.arrive(A, b"one\n");
    stage.flush();
    for line in [b"two\n".as_slice(), b"three\n"] {
        stage.arrive(A, line);
        // The script fails on a second send.
        stage.flush();
    }
    assert_eq!(stage.sent_all(A), "one\n");
    stage.flush();
    assert_eq!(stage.sent_all(A), "two\nthree\n");
    stage.flush();
    assert!(stage.ring.sends.is_empty());
}

#[test]
fn the_rest_of_a_short_send_goes_in_front_of_everything_else() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open(A);
    stage.arrive(A, b"first\n");
    stage.flush();
    stage.arrive(A, b"second\n");
    stage.flush();
    stage.sent(A, &Ok(2));
    assert_eq!(stage.ring.sends[&A].1, 2, "the rest is asked for at once, from the same buffer");
    stage.sent(A, &Ok(1));
    assert_eq!(stage.drain(A), "st\nsecond\n");
    assert_eq!(stage.link.statistics.bytes_out, 13);
}

#[test]
fn connections_do_not_wait_for_each_other() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open(A);
    stage.open(B);
    stage.arrive(A, b"a\n");
    stage.arrive(B, b"b\n");
    stage.flush();
    assert_eq!(stage.sent_all(B), "b\n");
    stage.arrive(B, b"bb\n");
    stage.flush();
    assert_eq!((stage.sent_all(B), stage.sent_all(A)), ("bb\n".into(), "a\n".into()));
}

#[test]
fn a_send_that_fails_ends_the_connection() {
    for result in [Err(io::ErrorKind::BrokenPipe.into()), Ok(0)] {
        let mut stage = Stage::new(Manner::Echo);
        let key = stage.open(A);
        stage.arrive(A, b"anybody?\n");
        stage.flush();
        stage.say(key, "and this?");
        stage.sent(A, &result);
        assert_eq!(stage.abandoned, [key]);
        assert!(stage.link.outgoing(key).is_none());
        stage.flush();
        assert!(stage.ring.sends.is_empty(), "nothing more is sent");
        stage.closed(A);
        assert_eq!(stage.ended, [("tcp", Ending::Failure)]);
        assert_eq!(stage.weight(), 0);
    }
}

#[test]
fn an_idle_connection_holds_no_buffer_and_the_pool_has_it_back() {
    let mut stage = Stage::new(Manner::Echo);
    let key = stage.open(A);
    stage.arrive(A, b"a line in two pi");
    assert_eq!(stage.weight(), 16);
    stage.arrive(A, b"eces\n");
    assert_eq!(stage.drain(A), "a line in two pieces\n");
    assert_eq!(stage.weight(), 0);
    let connection = stage.link.connections.get(key).unwrap();
    assert_eq!(connection.outgoing.capacity(), 0);
    // Once each buffer has met the largest thing there is, the same again takes nothing new.
    let mut retained_bytes = 0;
    for round in 0..10 {
        stage.arrive(A, b"a line in two pi");
        stage.arrive(A, b"eces\n");
        stage.drain(A);
        assert!(round < 5 || stage.link.pool.retained_bytes() == retained_bytes);
        retained_bytes = stage.link.pool.retained_bytes();
    }
    assert!(retained_bytes > 0);
}

#[test]
fn a_turn_in_which_nothing_is_said_sends_nothing() {
    let mut stage = Stage::new(Manner::Listen);
    let key = stage.open(A);
    stage.arrive(A, b"a notification\n");
    stage.flush();
    assert!(stage.ring.sends.is_empty());
    assert_eq!(stage.link.connections.get(key).unwrap().outgoing.capacity(), 0);
}

#[test]
fn two_pipes_are_one_connection() {
    let mut stage = Stage::new(Manner::Echo);
    stage.open_pipes("pipes", A, B);
    stage.arrive(A, b"question\n");
    assert_eq!(stage.drain(B), "question\n");
    stage.end_input(A, &Ok(()));
    // Nothing to say goodbye over: both are closed at once.
    stage.closed(B);
    assert!(stage.ended.is_empty());
    stage.closed(A);
    assert_eq!(stage.ended, [("pipes", Ending::Peer)]);
    assert!(stage.link.connections.is_empty());
}
