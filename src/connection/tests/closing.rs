//! Closing line connections: pending responses, last output, released memory.

use std::io;

use crate::connection::{CloseReason, Codec, SocketPair};
use corelane_engine::ring::Socket;

use super::harness::{Harness, Reaction, options};

const A: Socket = Socket(5);

#[test]
fn half_closed_peer_gets_all_pending_responses() {
    let mut harness = Harness::new(Reaction::Defer);
    let key = harness.open(A);
    harness.receive(A, b"1\n2");
    harness.complete_end_of_stream(A, &Ok(()));
    assert_eq!(harness.received, ["1", "2"], "a last line needs no terminator");
    harness.flush();
    assert!(harness.ring.closing.is_empty());
    harness.send_deferred(key, "one");
    harness.flush();
    assert_eq!(harness.complete_send_text(A), "one\n");
    assert!(harness.ring.closing.is_empty());
    harness.send_deferred(key, "two");
    assert_eq!(harness.drain(A), "two\n");
    // Both sides have ended their output, so the close is immediate.
    assert!(harness.ring.write_shutdowns.is_empty());
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::PeerClosed)]);
}

#[test]
fn refused_connection_gets_error_before_close() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open(A);
    harness.send_text(key, "no room");
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, key, CloseReason::Refused, now);
    harness.receive(A, b"but I have questions\n");
    harness.flush();
    assert!(harness.ring.write_shutdowns.is_empty(), "shutdown only after the error is sent");
    assert_eq!(harness.complete_send_text(A), "no room\n");
    assert!(harness.ring.write_shutdowns.contains(&A) && harness.ring.closing.is_empty());
    harness.receive(A, b"still\n");
    harness.complete_end_of_stream(A, &Ok(()));
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::Refused)]);
    assert!(harness.received.is_empty());
}

#[test]
fn closing_peer_is_read_up_to_limit() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open(A);
    harness.send_text(key, "no room");
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, key, CloseReason::Refused, now);
    assert_eq!(harness.drain(A), "no room\n");
    for _ in 0..15 {
        harness.receive(A, &[b'x'; 16 << 10]);
        assert!(harness.ring.receiving.contains(&A));
    }
    harness.receive(A, &[b'x'; 16 << 10]);
    assert!(!harness.ring.receiving.contains(&A) && harness.ring.closing.is_empty());
    // What the ring has received before it stops.
    harness.receive(A, b"x");
    harness.advance_time(options().linger_timeout);
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::Refused)]);
    assert!(harness.received.is_empty());
}

#[test]
fn short_receives_of_closing_peer_count_more() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open(A);
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, key, CloseReason::Refused, now);
    let receives = (0..1_000).take_while(|_| {
        harness.receive(A, b"x");
        harness.ring.receiving.contains(&A)
    });
    assert_eq!(receives.count(), 254);
}

#[test]
fn limit_of_discarded_input_includes_pending_calls() {
    let mut harness = Harness::new(Reaction::Defer);
    let key = harness.open(A);
    harness.receive(A, b"1\n");
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, key, CloseReason::Drain, now);
    harness.receive(A, "x".repeat(256 << 10).as_bytes());
    assert!(!harness.ring.receiving.contains(&A));
    harness.send_deferred(key, "one");
    assert_eq!(harness.drain(A), "one\n");
    assert!(harness.ring.write_shutdowns.contains(&A));
    assert!(!harness.ring.receiving.contains(&A), "not read again");
    harness.advance_time(options().linger_timeout);
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::Drain)]);
}

#[test]
fn connection_reset_abandons_pending_calls() {
    let mut harness = Harness::new(Reaction::Defer);
    let key = harness.open(A);
    harness.receive(A, b"1\nhalf a li");
    harness.complete_end_of_stream(A, &Err(io::ErrorKind::ConnectionReset.into()));
    assert_eq!(harness.abandoned, [key]);
    harness.send_deferred(key, "too late");
    harness.flush();
    assert!(harness.ring.sends.is_empty());
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::SocketError)]);
    assert_eq!(harness.accounted_bytes(), 0);
}

#[test]
fn close_waits_for_send_in_flight() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open(A);
    harness.receive(A, b"hello\n");
    harness.flush();
    harness.send_text(key, "never sent");
    harness.connections.close(&mut harness.ring, key, CloseReason::Drain);
    harness.connections.close(&mut harness.ring, key, CloseReason::SocketError);
    harness.complete_send(A, &Err(io::Error::from_raw_os_error(125)));
    harness.flush();
    assert!(harness.abandoned.is_empty(), "a local close cancels no calls");
    harness.complete_close(A);
    assert_eq!(
        harness.closed_connections,
        [("tcp", CloseReason::Drain)],
        "the first reason is kept"
    );
    assert_eq!(harness.accounted_bytes(), 0);
}

#[test]
fn immediate_close_for_memory_resets_connection() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open(A);
    harness.receive(A, b"hello\n");
    harness.flush();
    harness.connections.close(&mut harness.ring, key, CloseReason::MemoryLimit);
    assert!(harness.ring.resets.contains(&A));
    harness.complete_send(A, &Err(io::Error::from_raw_os_error(125)));
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("tcp", CloseReason::MemoryLimit)]);
}

#[test]
fn reused_socket_number_is_another_connection() {
    let mut harness = Harness::new(Reaction::Echo);
    let first = harness.open(A);
    harness.receive(A, b"half of the fi");
    harness.connections.close(&mut harness.ring, first, CloseReason::Drain);
    harness.complete_close(A);
    let second = harness.open(A);
    assert_ne!(first, second);
    harness.receive(A, b"whole\n");
    assert_eq!(harness.received, ["whole"]);
    // The old key is stale.
    harness.send_text(first, "lost");
    assert_eq!(harness.drain(A), "whole\n");
}

#[test]
fn completions_of_unknown_sockets_are_ignored() {
    let mut harness = Harness::new(Reaction::Echo);
    let (ring, connections) = (&mut harness.ring, &mut harness.connections);
    let retained_bytes = connections.shared.pool.retained_bytes();
    connections.handle_sent(ring, A, Vec::with_capacity(64), &Ok(64), harness.now);
    assert_eq!(
        connections.shared.pool.retained_bytes(),
        retained_bytes + 64,
        "the buffer is reused"
    );
    connections.handle_end_of_stream(ring, A, &Ok(()));
    assert_eq!(connections.handle_closed(A), None);
    assert!(connections.table.key_of(A).is_none());
}

#[test]
fn full_connection_table_rejects_connection() {
    let mut harness = Harness::new(Reaction::Echo);
    for number in 0..4 {
        harness.open(Socket(number));
    }
    let stream =
        SocketPair { receive: Socket(4), send: Socket(4), peer: None, codec: Codec::Ndjson };
    let refused =
        harness.connections.open_connection(&mut harness.ring, stream, "too many", harness.now);
    assert_eq!(refused.unwrap_err(), "too many");
    assert!(!harness.ring.receiving.contains(&Socket(4)));
    assert!(harness.connections.table.key_of(Socket(4)).is_none());
}

#[test]
fn discarded_line_is_skipped_to_its_end() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open(A);
    assert!(!harness.connections.skip_line(key));
    harness.receive(A, b"too much for");
    assert!(harness.connections.skip_line(key));
    assert_eq!(harness.accounted_bytes(), 0);
    harness.receive(A, b" the memory");
    assert_eq!(harness.accounted_bytes(), 0);
    harness.receive(A, b" of all\nnext\n");
    assert_eq!(harness.received, ["next"]);
}
