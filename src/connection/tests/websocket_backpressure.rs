//! Backpressure on WebSocket connections and its timeout.

use std::time::Duration;

use crate::connection::{CloseReason, ConnectionEvent};
use corelane_base::slab::Key;
use corelane_engine::ring::Socket;

use super::harness::{Harness, Reaction};
use super::websocket_peer::{self, close, first_fragment, last_fragment, ping, pong, text};

const A: Socket = Socket(3);
const SEND_TIMEOUT_CLOSE: &str = "close 1011 send timeout: the client does not read";

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Text messages of ten bytes, and the frames that carry them.
fn text_messages(count: usize) -> (Vec<u8>, Vec<String>) {
    let words: Vec<String> = (0..count).map(|number| format!("word{number:04}")).collect();
    (words.iter().flat_map(|word| text(word)).collect(), words)
}

#[test]
fn unread_output_pauses_reading_until_it_drains() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    let (input, words) = text_messages(8);
    harness.receive(A, &input);
    // Forty bytes may be queued, plus the response that passed the limit.
    assert_eq!(harness.received, words[..5]);
    assert!(!harness.ring.receiving.contains(&A));
    assert_eq!(harness.connections.shared.statistics.read_pauses, 1);
    // Input that was in flight is not answered either.
    harness.receive(A, &ping("p"));
    harness.flush();
    harness.complete_send(A, &Ok(20));
    harness.advance_time(milliseconds(499));
    assert_eq!(harness.received.len(), 5, "thirty bytes are still queued");
    harness.complete_send(A, &Ok(10));
    harness.complete_send(A, &Ok(20));
    assert_eq!(harness.received, words, "half of the queue is sent: the rest is read");
    assert!(harness.ring.receiving.contains(&A));
    let mut read = harness.drain_frames(A);
    assert_eq!(read.pop().unwrap(), "pong p");
    assert_eq!(read, words[5..]);
    harness.advance_time(milliseconds(2_000));
    assert!(harness.ring.closing.is_empty() && harness.drain_frames(A).is_empty());
}

#[test]
fn output_not_half_drained_in_time_closes_connection() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    let (input, words) = text_messages(9);
    harness.receive(A, &input);
    harness.flush();
    harness.complete_send(A, &Ok(25));
    harness.advance_time(milliseconds(499));
    assert!(harness.connections.shared.statistics.websocket.send_timeouts == 0);
    harness.advance_time(milliseconds(1));
    assert_eq!(harness.connections.shared.statistics.websocket.send_timeouts, 1);
    // The peer reads again: queued output first, then the close frame.
    let rest = harness.drain_bytes(A);
    assert_eq!(
        websocket_peer::decode_frames(&rest[5..]),
        [&words[3], &words[4], SEND_TIMEOUT_CLOSE]
    );
    harness.receive(A, &close(Some(1011)));
    harness.flush();
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("http", CloseReason::ProtocolViolation)]);
    assert_eq!(harness.received.len(), 5);
}

#[test]
fn peer_that_accepts_no_bytes_is_cut_off() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open_websocket(A);
    harness.receive(A, &text_messages(9).0);
    harness.flush();
    harness.send_text(key, "this one waits behind the send and would only cost memory");
    harness.flush();
    harness.advance_time(milliseconds(500));
    assert!(harness.accounted_bytes() < 110, "{}", harness.accounted_bytes());
    harness.flush();
    assert!(harness.connections.outgoing(key).is_none());
    harness.advance_time(milliseconds(999));
    assert!(harness.ring.closing.is_empty());
    harness.advance_time(milliseconds(1));
    assert!(harness.ring.resets.contains(&A), "the rest is discarded");
    harness.complete_send(A, &Err(std::io::Error::from_raw_os_error(125)));
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("http", CloseReason::ProtocolViolation)]);
    assert_eq!((harness.accounted_bytes(), harness.connections.deadline().is_none()), (0, false));
}

#[test]
fn deferred_responses_cause_backpressure_without_input() {
    let mut harness = Harness::new(Reaction::Defer);
    let key = harness.open_websocket(A);
    harness.receive(A, &text_messages(8).0);
    harness.send_deferred(key, "an answer that the kernel does not take");
    harness.flush();
    for number in 0..7 {
        harness.send_deferred(key, &format!("word{number:04}"));
        harness.flush();
    }
    assert_eq!(harness.connections.shared.statistics.read_pauses, 1);
    assert!(!harness.ring.receiving.contains(&A));
    harness.advance_time(milliseconds(1_500));
    assert_eq!(harness.connections.shared.statistics.websocket.send_timeouts, 1);
}

/// Fills the output of a connection whose peer reads nothing.
fn fill_output(harness: &mut Harness, key: Key) {
    for _ in 0..8 {
        harness.send_text(key, "an event");
        harness.flush();
    }
}

/// Ways in which a connection is not read for another reason than its output.
const HOLDS: [fn(&mut Harness, Key); 2] = [
    |harness, key| {
        harness.connections.table.hold_input(key);
        harness.connections.table.pause(&mut harness.ring, key);
    },
    |harness, key| harness.connections.table.set_suspended(key, true),
];

#[test]
fn held_connection_has_send_timeout() {
    for hold in HOLDS {
        let mut harness = Harness::new(Reaction::Ignore);
        let key = harness.open_websocket(A);
        hold(&mut harness, key);
        fill_output(&mut harness, key);
        harness.advance_time(milliseconds(499));
        assert_eq!(harness.connections.shared.statistics.websocket.send_timeouts, 0);
        harness.advance_time(milliseconds(1));
        assert_eq!(harness.connections.shared.statistics.websocket.send_timeouts, 1);
    }
}

#[test]
fn held_connection_that_reads_stays_open() {
    for hold in HOLDS {
        let mut harness = Harness::new(Reaction::Ignore);
        let key = harness.open_websocket(A);
        for _ in 0..4 {
            hold(&mut harness, key);
            fill_output(&mut harness, key);
            harness.advance_time(milliseconds(400));
            harness.drain_bytes(A);
        }
        assert_eq!(harness.connections.shared.statistics.websocket.send_timeouts, 0);
    }
}

#[test]
fn end_of_hold_keeps_send_timeout() {
    let mut harness = Harness::new(Reaction::Ignore);
    let key = harness.open_websocket(A);
    HOLDS[0](&mut harness, key);
    fill_output(&mut harness, key);
    harness.advance_time(milliseconds(400));
    let now = harness.now;
    assert_eq!(harness.connections.end_hold(key, now), ConnectionEvent::None);
    harness.advance_time(milliseconds(100));
    assert_eq!(harness.connections.shared.statistics.websocket.send_timeouts, 1);
}

#[test]
fn send_timeout_grows_with_length_of_response() {
    let mut harness = Harness::new(Reaction::Defer);
    let key = harness.open_websocket(A);
    harness.receive(A, &text("read it all"));
    harness.send_deferred(key, &"x".repeat(165));
    harness.flush();
    // Four times the limit: the timeout is extended accordingly.
    harness.advance_time(milliseconds(1_000));
    harness.receive(A, &text("are you there?"));
    harness.advance_time(milliseconds(1_999));
    assert_eq!(harness.connections.shared.statistics.websocket.send_timeouts, 0);
    harness.advance_time(milliseconds(1));
    assert_eq!(harness.connections.shared.statistics.websocket.send_timeouts, 1);
}

#[test]
fn backpressure_suspends_idle_and_message_timeouts() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    harness.receive(A, &first_fragment("half "));
    harness.advance_time(milliseconds(2_900));
    let pings: Vec<u8> = (0..10).flat_map(|_| ping("1234")).collect();
    for _ in 0..4 {
        harness.receive(A, &pings);
        assert!(!harness.ring.receiving.contains(&A));
        harness.flush();
        harness.advance_time(milliseconds(490));
        harness.drain_bytes(A);
        assert!(harness.ring.receiving.contains(&A));
    }
    harness.advance_time(milliseconds(1_000));
    harness.receive(A, &last_fragment("whole"));
    assert_eq!(harness.drain_frames(A), ["half whole"]);
    let counts = harness.connections.shared.statistics.websocket;
    assert_eq!((counts.pings_out, counts.pings_in, counts.message_timeouts), (0, 40, 0));
}

#[test]
fn slow_reader_keeps_its_incomplete_message() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    harness.receive(A, &[first_fragment("half "), ping("1234").repeat(10)].concat());
    harness.flush();
    // Less than half of the limit is left of the send in flight.
    harness.complete_send(A, &Ok(35));
    for _ in 0..9 {
        harness.advance_time(milliseconds(1_000));
        harness.flush();
    }
    harness.complete_send_bytes(A);
    harness.receive(A, &last_fragment("whole"));
    assert!(harness.drain_bytes(A).ends_with(b"half whole"));
    let counts = harness.connections.shared.statistics.websocket;
    assert_eq!((counts.closes_out, counts.pings_out), (0, 0));
}

#[test]
fn each_backpressure_phase_has_its_own_timeout() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    for _ in 0..20 {
        harness.receive(A, &text_messages(6).0);
        harness.flush();
        harness.advance_time(milliseconds(450));
        harness.drain_bytes(A);
        harness.receive(A, &pong());
    }
    assert_eq!(harness.connections.shared.statistics.read_pauses, 20);
    assert_eq!(harness.connections.shared.statistics.websocket.send_timeouts, 0);
    assert_eq!(harness.accounted_bytes(), 0);
}

#[test]
fn send_timeout_replaces_drain_as_close_reason() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open_websocket(A);
    let (input, words) = text_messages(9);
    harness.receive(A, &input);
    harness.flush();
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, key, CloseReason::Drain, now);
    harness.advance_time(milliseconds(500));
    assert_eq!(harness.connections.shared.statistics.websocket.send_timeouts, 1);
    assert_eq!(harness.drain_frames(A).last().map(String::as_str), Some(SEND_TIMEOUT_CLOSE));
    harness.receive(A, &close(Some(1011)));
    harness.flush();
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("http", CloseReason::ProtocolViolation)]);
    assert_eq!(harness.received, words[..5]);
}
