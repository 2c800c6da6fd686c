//! Buffered output: one send at a time, in order; backpressure on line connections.

use std::io;

use corelane_engine::ring::Socket;

use super::harness::{Harness, Reaction};
use crate::connection::CloseReason;

const A: Socket = Socket(3);
const B: Socket = Socket(9);

#[test]
fn responses_of_one_turn_leave_in_one_send() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open(A);
    harness.receive(A, b"one\ntwo\nth");
    harness.receive(A, b"ree\n");
    assert!(harness.ring.sends.is_empty(), "nothing is sent before the end of the turn");
    harness.flush();
    assert_eq!(harness.complete_send_text(A), "one\ntwo\nthree\n");
    assert_eq!(harness.connections.shared.statistics.sends, 1);
}

#[test]
fn output_during_send_is_sent_next_in_order() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open(A);
    harness.receive(A, b"one\n");
    harness.flush();
    for line in [b"two\n".as_slice(), b"three\n"] {
        harness.receive(A, line);
        // The scripted ring panics on a second send.
        harness.flush();
    }
    assert_eq!(harness.complete_send_text(A), "one\n");
    harness.flush();
    assert_eq!(harness.complete_send_text(A), "two\nthree\n");
    harness.flush();
    assert!(harness.ring.sends.is_empty());
}

#[test]
fn rest_of_short_send_precedes_later_output() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open(A);
    harness.receive(A, b"first\n");
    harness.flush();
    harness.receive(A, b"second\n");
    harness.flush();
    harness.complete_send(A, &Ok(2));
    assert_eq!(harness.ring.sends[&A].1, 2, "the rest is sent at once from the same buffer");
    harness.complete_send(A, &Ok(1));
    assert_eq!(harness.drain(A), "st\nsecond\n");
    assert_eq!(harness.connections.shared.statistics.bytes_out, 13);
}

#[test]
fn large_buffer_without_output_is_freed() {
    const LARGE: usize = 2 << 20;
    for is_sending in [false, true] {
        let mut harness = Harness::new(Reaction::Echo);
        let key = harness.open(A);
        let pool = &mut harness.connections.shared.pool;
        pool.keep_large(4 * LARGE);
        pool.put(vec![0; LARGE]);
        if is_sending {
            harness.receive(A, b"one\n");
            harness.flush();
        }
        harness.connections.entry(key).unwrap().enlarge_output(LARGE);
        let capacity =
            |harness: &Harness| harness.connections.table.get(key).unwrap().outgoing.capacity();
        assert!(capacity(&harness) >= LARGE);
        harness.flush();
        assert_eq!(capacity(&harness), 0);
    }
    // One that accepts no output gets none.
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open(A);
    let pool = &mut harness.connections.shared.pool;
    pool.keep_large(4 * LARGE);
    pool.put(vec![0; LARGE]);
    harness.connections.close(&mut harness.ring, key, CloseReason::PeerClosed);
    let kept_bytes = harness.connections.shared.pool.large_bytes();
    harness.connections.entry(key).unwrap().enlarge_output(LARGE);
    assert_eq!(harness.connections.shared.pool.large_bytes(), kept_bytes);
}

#[test]
fn unsent_bytes_are_accounted_after_each_send() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open(A);
    harness.receive(A, b"first\n");
    harness.flush();
    assert_eq!(harness.connections.shared.memory.held_bytes(), 6);
    harness.complete_send(A, &Ok(2));
    assert_eq!(harness.connections.shared.memory.held_bytes(), 4);
    harness.complete_send(A, &Err(io::ErrorKind::BrokenPipe.into()));
    assert_eq!(harness.connections.shared.memory.held_bytes(), 0);
}

#[test]
fn sends_of_connections_are_independent() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open(A);
    harness.open(B);
    harness.receive(A, b"a\n");
    harness.receive(B, b"b\n");
    harness.flush();
    assert_eq!(harness.complete_send_text(B), "b\n");
    harness.receive(B, b"bb\n");
    harness.flush();
    assert_eq!(
        (harness.complete_send_text(B), harness.complete_send_text(A)),
        ("bb\n".into(), "a\n".into())
    );
}

#[test]
fn failed_send_closes_connection() {
    for result in [Err(io::ErrorKind::BrokenPipe.into()), Ok(0)] {
        let mut harness = Harness::new(Reaction::Echo);
        let key = harness.open(A);
        harness.receive(A, b"anybody?\n");
        harness.flush();
        harness.send_text(key, "and this?");
        harness.complete_send(A, &result);
        assert_eq!(harness.abandoned, [key]);
        assert!(harness.connections.outgoing(key).is_none());
        harness.flush();
        assert!(harness.ring.sends.is_empty(), "no further send");
        harness.complete_close(A);
        assert_eq!(harness.closed_connections, [("tcp", CloseReason::SocketError)]);
        assert_eq!(harness.accounted_bytes(), 0);
    }
}

#[test]
fn idle_connection_returns_its_buffers_to_pool() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open(A);
    harness.receive(A, b"a line in two pi");
    assert_eq!(harness.accounted_bytes(), 16);
    harness.receive(A, b"eces\n");
    assert_eq!(harness.drain(A), "a line in two pieces\n");
    assert_eq!(harness.accounted_bytes(), 0);
    let connection = harness.connections.table.get(key).unwrap();
    assert_eq!(connection.outgoing.capacity(), 0);
    // Once every buffer has reached the maximum size, no more memory is allocated.
    let mut retained_bytes = 0;
    for round in 0..10 {
        harness.receive(A, b"a line in two pi");
        harness.receive(A, b"eces\n");
        harness.drain(A);
        assert!(round < 5 || harness.connections.shared.pool.retained_bytes() == retained_bytes);
        retained_bytes = harness.connections.shared.pool.retained_bytes();
    }
    assert!(retained_bytes > 0);
}

#[test]
fn turn_without_output_sends_nothing() {
    let mut harness = Harness::new(Reaction::Ignore);
    let key = harness.open(A);
    harness.receive(A, b"a notification\n");
    harness.flush();
    assert!(harness.ring.sends.is_empty());
    assert_eq!(harness.connections.table.get(key).unwrap().outgoing.capacity(), 0);
}

#[test]
fn pipe_pair_is_one_connection() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_pipes("pipes", A, B);
    harness.receive(A, b"question\n");
    assert_eq!(harness.drain(B), "question\n");
    harness.complete_end_of_stream(A, &Ok(()));
    // Pipes have no half-close: both are closed at once.
    harness.complete_close(B);
    assert!(harness.closed_connections.is_empty());
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("pipes", CloseReason::PeerClosed)]);
    assert!(harness.connections.table.is_empty());
}

/// Lines of ten bytes, terminator included.
fn numbered_lines(numbers: std::ops::Range<u32>) -> String {
    let lines: Vec<String> = numbers.map(|number| format!("line-{number:04}\n")).collect();
    lines.concat()
}

#[test]
fn unread_output_pauses_reading_without_loss() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open(A);
    harness.receive(A, numbered_lines(0..8).as_bytes());
    // Forty bytes may be queued, plus the response that passed the limit.
    assert_eq!(harness.received.len(), 5);
    assert!(!harness.ring.receiving.contains(&A));
    assert_eq!(harness.connections.shared.statistics.read_pauses, 1);
    // Input that was in flight waits as pending input.
    harness.receive(A, numbered_lines(8..9).as_bytes());
    assert_eq!(harness.received.len(), 5);
    harness.flush();
    assert_eq!(harness.complete_send_text(A), numbered_lines(0..5));
    assert_eq!(harness.received.len(), 9, "pending input is read once the queue has drained");
    assert!(harness.ring.receiving.contains(&A));
    assert_eq!(harness.drain(A), numbered_lines(5..9));
}

#[test]
fn reading_resumes_at_half_of_output_limit() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open(A);
    harness.receive(A, numbered_lines(0..8).as_bytes());
    harness.flush();
    harness.complete_send(A, &Ok(20));
    assert_eq!(harness.received.len(), 5, "thirty bytes are still queued");
    harness.complete_send(A, &Ok(10));
    assert_eq!(harness.received.len(), 5, "the rest of a send precedes further reading");
    harness.complete_send(A, &Ok(20));
    assert_eq!(harness.received.len(), 8);
    assert_eq!(harness.drain(A), numbered_lines(5..8));
}

#[test]
fn pending_input_can_cause_another_pause() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open(A);
    harness.receive(A, numbered_lines(0..14).as_bytes());
    let mut answered = String::new();
    for (received, receives) in [(5, false), (10, false), (14, true)] {
        assert_eq!(harness.received.len(), received);
        assert_eq!(harness.ring.receiving.contains(&A), receives);
        harness.flush();
        answered += &harness.complete_send_text(A);
    }
    assert_eq!(answered, numbered_lines(0..14));
    assert_eq!(harness.accounted_bytes(), 0);
}

#[test]
fn pending_responses_do_not_pause_reading() {
    // The next message may be a cancellation, or a response that a call waits for.
    let mut harness = Harness::new(Reaction::Defer);
    let key = harness.open(A);
    harness.receive(A, b"1\n2\n3\n4\n");
    assert_eq!(harness.received, ["1", "2", "3", "4"]);
    assert!(harness.ring.receiving.contains(&A));
    for response in ["one", "two", "three", "four"] {
        harness.send_deferred(key, response);
    }
    assert_eq!(harness.drain(A), "one\ntwo\nthree\nfour\n");
    assert_eq!(harness.connections.shared.statistics.read_pauses, 0);
}

#[test]
fn end_of_stream_waits_for_pending_input() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open(A);
    harness.receive(A, (numbered_lines(0..8) + "the last").as_bytes());
    harness.complete_end_of_stream(A, &Ok(()));
    assert_eq!(harness.received.len(), 5, "the end of stream comes after pending input");
    let answered = harness.drain(A);
    assert_eq!(answered, numbered_lines(0..8) + "the last\n");
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::PeerClosed)]);
    assert_eq!(harness.accounted_bytes(), 0);
}

#[test]
fn drain_during_pause_discards_unread_input() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open(A);
    harness.receive(A, numbered_lines(0..8).as_bytes());
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, key, CloseReason::Drain, now);
    assert_eq!(harness.drain(A), numbered_lines(0..5));
    assert_eq!(harness.received.len(), 5);
    assert!(harness.ring.write_shutdowns.contains(&A) && harness.ring.receiving.contains(&A));
    harness.receive(A, numbered_lines(8..9).as_bytes());
    assert_eq!((harness.received.len(), harness.accounted_bytes()), (5, 0), "input is discarded");
    harness.complete_end_of_stream(A, &Ok(()));
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::Drain)]);
}
