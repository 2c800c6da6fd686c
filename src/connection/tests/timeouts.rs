//! Timeouts of line connections: first message, idle, closing.

use std::time::Duration;

use crate::connection::CloseReason;
use corelane_engine::ring::Socket;

use super::harness::{Harness, Reaction};

const A: Socket = Socket(1);

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn incomplete_first_message_times_out() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open(A);
    for _ in 0..29 {
        harness.advance_time(milliseconds(100));
        // Incomplete input does not count as a message.
        harness.receive(A, b"x");
        assert!(harness.ring.closing.is_empty());
    }
    harness.advance_time(milliseconds(100));
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::MessageTimeout)]);
    assert_eq!((harness.accounted_bytes(), harness.connections.deadline()), (0, None));
}

#[test]
fn invalid_messages_do_not_satisfy_first_timeout() {
    for valid_at in [None, Some(5)] {
        let mut harness = Harness::new(Reaction::Echo);
        let key = harness.open(A);
        for number in 0..29 {
            harness.advance_time(milliseconds(100));
            harness.receive(A, b"x\n");
            harness.drain(A);
            if valid_at != Some(number) {
                harness.connections.table.get_mut(key).unwrap().record_invalid_message();
            }
            assert!(harness.ring.closing.is_empty());
        }
        harness.advance_time(milliseconds(100));
        if valid_at.is_some() {
            assert!(harness.ring.closing.is_empty());
            harness.advance_time(milliseconds(9_900));
        }
        harness.complete_close(A);
        let idle =
            if valid_at.is_some() { CloseReason::IdleTimeout } else { CloseReason::MessageTimeout };
        assert_eq!(harness.closed_connections, [("tcp", idle)]);
    }
}

#[test]
fn many_silent_connections_have_three_seconds() {
    const B: Socket = Socket(2);
    for (silent_max, closed) in [(0, 1), (2, 0)] {
        let mut harness = Harness::new(Reaction::Echo);
        let options = &mut harness.connections.shared.options;
        options.first_message_timeout = milliseconds(30_000);
        options.silent_max = silent_max;
        harness.open(A);
        harness.open(B);
        harness.receive(B, b"incomplete");
        harness.advance_time(milliseconds(2_999));
        assert_eq!(harness.ring.closing.len(), 0);
        harness.advance_time(milliseconds(1));
        assert_eq!(harness.ring.closing.len(), closed);
        // Also if they become many later.
        harness.connections.shared.options.silent_max = 0;
        harness.advance_time(milliseconds(3_000));
        harness.complete_close(A);
        assert_eq!(harness.closed_connections, [("tcp", CloseReason::MessageTimeout)]);
    }
}

#[test]
fn idle_timeout_restarts_with_each_message() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open(A);
    for _ in 0..10 {
        harness.receive(A, b"x\n");
        harness.drain(A);
        harness.advance_time(milliseconds(9_900));
    }
    assert!(harness.ring.closing.is_empty());
    harness.advance_time(milliseconds(100));
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::IdleTimeout)]);
}

#[test]
fn pending_response_suspends_idle_timeout() {
    let mut harness = Harness::new(Reaction::Defer);
    let key = harness.open(A);
    harness.receive(A, b"x\n");
    for _ in 0..100 {
        harness.advance_time(milliseconds(5_000));
    }
    assert!(harness.ring.closing.is_empty());
    harness.send_deferred(key, "at last");
    harness.drain(A);
    harness.advance_time(milliseconds(9_999));
    assert!(harness.ring.closing.is_empty(), "the idle timeout starts with the response");
    harness.advance_time(milliseconds(1));
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::IdleTimeout)]);
}

#[test]
fn unread_response_does_not_suspend_idle_timeout() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open(A);
    harness.receive(A, b"question\n");
    harness.flush();
    harness.advance_time(milliseconds(6_000));
    // A partial send shows that the peer reads, slowly.
    harness.complete_send(A, &Ok(3));
    harness.advance_time(milliseconds(9_999));
    assert!(harness.ring.closing.is_empty());
    harness.advance_time(milliseconds(1));
    assert!(harness.ring.closing.contains(&A));
}

#[test]
fn linger_timeout_bounds_graceful_close() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open(A);
    harness.receive(A, b"x\n");
    harness.drain(A);
    // Just before the idle deadline.
    harness.advance_time(milliseconds(2_990));
    let now = harness.now;
    harness.connections.close_gracefully(
        &mut harness.ring,
        key,
        CloseReason::ProtocolViolation,
        now,
    );
    assert!(harness.ring.write_shutdowns.contains(&A));
    for _ in 0..99 {
        harness.advance_time(milliseconds(10));
        harness.receive(A, b"talks on\n");
    }
    assert!(harness.ring.closing.is_empty());
    harness.advance_time(milliseconds(10));
    assert!(harness.ring.resets.is_empty(), "all output is sent");
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::ProtocolViolation)]);
}

#[test]
fn closing_peer_that_does_not_read_is_reset() {
    for reason in [CloseReason::ProtocolViolation, CloseReason::MemoryLimit] {
        let mut harness = Harness::new(Reaction::Ignore);
        let key = harness.open(A);
        harness.receive(A, b"half a li");
        harness.advance_time(milliseconds(2_500));
        harness.send_text(key, "an error");
        let now = harness.now;
        harness.connections.close_gracefully(&mut harness.ring, key, reason, now);
        harness.flush();
        // The earlier timer, of the first message, does not shorten the time for the error.
        harness.advance_time(milliseconds(990));
        assert!(harness.ring.closing.is_empty());
        harness.advance_time(milliseconds(10));
        assert!(harness.ring.resets.contains(&A));
        harness.complete_send(A, &Err(std::io::Error::from_raw_os_error(125)));
        harness.complete_close(A);
        assert_eq!(harness.closed_connections, [("tcp", reason)]);
        assert_eq!(harness.accounted_bytes(), 0);
    }
}

#[test]
fn connection_closed_for_memory_is_reset_after_error() {
    let mut harness = Harness::new(Reaction::Ignore);
    let key = harness.open(A);
    harness.send_text(key, "an error");
    let (ring, now) = (&mut harness.ring, harness.now);
    harness.connections.close_gracefully(ring, key, CloseReason::MemoryLimit, now);
    harness.flush();
    assert_eq!(harness.complete_send_text(A), "an error\n");
    assert!(harness.ring.write_shutdowns.contains(&A));
    harness.advance_time(milliseconds(990));
    assert!(harness.ring.closing.is_empty());
    // The kernel may still hold what the peer has not read.
    harness.advance_time(milliseconds(10));
    assert!(harness.ring.resets.contains(&A));
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::MemoryLimit)]);
}

#[test]
fn peer_closing_after_memory_error_is_not_reset() {
    let mut harness = Harness::new(Reaction::Ignore);
    let key = harness.open(A);
    harness.send_text(key, "an error");
    let (ring, now) = (&mut harness.ring, harness.now);
    harness.connections.close_gracefully(ring, key, CloseReason::MemoryLimit, now);
    harness.flush();
    harness.complete_send_text(A);
    harness.complete_end_of_stream(A, &Ok(()));
    assert!(harness.ring.resets.is_empty());
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::MemoryLimit)]);
}

#[test]
fn pipes_have_no_timeouts() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_pipes("pipes", A, Socket(2));
    assert_eq!(harness.connections.deadline(), None);
    harness.advance_time(Duration::from_hours(1_000));
    harness.receive(A, b"x\n");
    assert_eq!(harness.drain(Socket(2)), "x\n");
}

#[test]
fn closed_connections_leave_no_deadlines() {
    let mut harness = Harness::new(Reaction::Echo);
    for _ in 0..100_000 {
        let key = harness.open(A);
        harness.connections.close(&mut harness.ring, key, CloseReason::Drain);
        harness.complete_close(A);
    }
    // Stale deadlines are removed when the oldest expires.
    let mut expirations = 0;
    while let Some(deadline) = harness.connections.deadline() {
        harness.now = deadline;
        harness.connections.expire_timers(&mut harness.ring, deadline);
        expirations += 1;
        assert!(expirations < 10);
    }
}
