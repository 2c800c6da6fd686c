//! Backpressure on line connections.

use crate::connection::CloseReason;
use corelane_engine::ring::Socket;

use super::harness::{Harness, Reaction};

const A: Socket = Socket(0);

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
