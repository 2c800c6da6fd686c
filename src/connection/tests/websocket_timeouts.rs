//! WebSocket timeouts: pings, idle connections, incomplete messages.

use std::time::Duration;

use crate::connection::CloseReason;
use corelane_engine::ring::Socket;

use super::harness::{Harness, Reaction};
use super::websocket_peer::{first_fragment, last_fragment, ping, pong, text};

const A: Socket = Socket(3);

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn idle_connection_is_pinged_periodically() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    for _ in 0..3 {
        harness.advance_time(milliseconds(2_999));
        assert!(harness.drain_frames(A).is_empty());
        harness.advance_time(milliseconds(1));
        assert_eq!(harness.drain_frames(A), ["ping"]);
    }
    assert_eq!(harness.connections.shared.statistics.websocket.pings_out, 3);
}

#[test]
fn every_frame_restarts_the_ping_interval() {
    let mut harness = Harness::new(Reaction::Ignore);
    harness.open_websocket(A);
    let frames = [text("word"), ping(""), pong(), first_fragment("so"), last_fragment(" on")];
    for frame in frames.iter().cycle().take(20) {
        harness.advance_time(milliseconds(2_900));
        harness.receive(A, frame);
        harness.drain_bytes(A);
    }
    assert_eq!(harness.connections.shared.statistics.websocket.pings_out, 0);
}

#[test]
fn pongs_prevent_the_idle_timeout() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    for _ in 0..1_000 {
        harness.advance_time(milliseconds(3_000));
        assert_eq!(harness.drain_frames(A), ["ping"]);
        harness.receive(A, &pong());
    }
    assert_eq!(harness.accounted_bytes(), 0);
    let counts = harness.connections.shared.statistics.websocket;
    assert_eq!((counts.pings_out, counts.pongs_in), (1_000, 1_000));
}

#[test]
fn missing_pong_closes_connection_as_idle() {
    let mut harness = Harness::new(Reaction::Defer);
    let key = harness.open_websocket(A);
    // A pending response does not suspend the idle timeout of a WebSocket.
    harness.receive(A, &text("question"));
    for _ in 0..3 {
        harness.advance_time(milliseconds(3_000));
        assert_eq!(harness.drain_frames(A), ["ping"]);
    }
    harness.advance_time(milliseconds(1_000));
    harness.send_deferred(key, "too late");
    assert_eq!(harness.drain_frames(A), ["close 1000 idle timeout"]);
    harness.complete_end_of_stream(A, &Ok(()));
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("http", CloseReason::IdleTimeout)]);
}

#[test]
fn incomplete_message_times_out_as_protocol_error() {
    let incomplete: [&[u8]; 3] =
        [&text("whole")[..7], &first_fragment("two "), &text("whole")[..1]];
    for incomplete in incomplete {
        let mut harness = Harness::new(Reaction::Echo);
        harness.open_websocket(A);
        harness.advance_time(milliseconds(2_000));
        harness.receive(A, &[&text("before"), incomplete].concat());
        assert_eq!(harness.drain_frames(A), ["before"]);
        harness.advance_time(milliseconds(3_999));
        assert_eq!(harness.drain_frames(A), ["ping"]);
        harness.advance_time(milliseconds(1));
        let close_frame = "close 1002 timeout: the message was not completed";
        assert_eq!(harness.drain_frames(A), [close_frame]);
        assert_eq!(
            (
                harness.accounted_bytes(),
                harness.connections.shared.statistics.websocket.message_timeouts
            ),
            (0, 1)
        );
        harness.complete_end_of_stream(A, &Ok(()));
        harness.complete_close(A);
        assert_eq!(harness.closed_connections, [("http", CloseReason::MessageTimeout)]);
    }
}

#[test]
fn control_frames_do_not_extend_message_timeout() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    harness.receive(A, &first_fragment("never "));
    for _ in 0..7 {
        harness.advance_time(milliseconds(500));
        harness.receive(A, &ping("I am there"));
        assert_eq!(harness.drain_frames(A), ["pong I am there"]);
    }
    harness.advance_time(milliseconds(500));
    assert_eq!(harness.drain_frames(A), ["close 1002 timeout: the message was not completed"]);
}

#[test]
fn each_message_has_its_own_timeout() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    harness.receive(A, &first_fragment("one"));
    for _ in 0..10 {
        harness.advance_time(milliseconds(2_900));
        // The end of one message and the start of the next in one receive.
        harness.receive(A, &[last_fragment(""), first_fragment("one")].concat());
        assert_eq!(harness.drain_frames(A), ["one"]);
    }
    harness.receive(A, &last_fragment(""));
    harness.advance_time(milliseconds(4_000));
    harness.receive(A, &text("whole"));
    assert_eq!(harness.drain_frames(A), ["one", "ping", "whole"]);
}

#[test]
fn moved_deadlines_are_removed() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    let mut expirations = 0;
    for _ in 0..5_000 {
        harness.receive(A, &text("halves")[..5]);
        harness.receive(A, &text("halves")[5..]);
        harness.drain_bytes(A);
        harness.now = harness.now.after(milliseconds(10));
        while harness.connections.deadline().is_some_and(|deadline| deadline <= harness.now) {
            let deadline = harness.connections.deadline().unwrap();
            harness.connections.expire_timers(&mut harness.ring, deadline);
            expirations += 1;
        }
    }
    // 50 s, with deadlines at most 4 s away.
    assert!(expirations < 50, "{expirations} expirations");
    assert!(harness.ring.closing.is_empty());
}

#[test]
fn memory_limit_sends_close_frame_then_resets() {
    for peer_reads in [true, false] {
        let mut harness = Harness::new(Reaction::Ignore);
        let key = harness.open_websocket(A);
        harness.receive(A, &first_fragment("half"));
        harness.advance_time(milliseconds(2_000));
        harness.send_text(key, "an error");
        let (ring, now) = (&mut harness.ring, harness.now);
        harness.connections.close_gracefully(ring, key, CloseReason::MemoryLimit, now);
        harness.flush();
        if peer_reads {
            let frames = ["an error", "close 1011 the server is short of memory"];
            assert_eq!(harness.drain_frames(A), frames);
            assert!(harness.ring.write_shutdowns.contains(&A));
        }
        harness.advance_time(milliseconds(999));
        assert!(harness.ring.closing.is_empty());
        harness.advance_time(milliseconds(1));
        assert!(harness.ring.resets.contains(&A));
        if !peer_reads {
            harness.complete_send(A, &Err(std::io::Error::from_raw_os_error(125)));
        }
        harness.complete_close(A);
        assert_eq!(harness.closed_connections, [("http", CloseReason::MemoryLimit)]);
        assert_eq!(harness.accounted_bytes(), 0);
    }
}

#[test]
fn upgraded_connection_without_message_times_out() {
    let mut harness = Harness::new(Reaction::Ignore);
    harness.connections.shared.options.websocket.first_message_timeout = milliseconds(2_000);
    harness.open_websocket(A);
    harness.advance_time(milliseconds(1_000));
    harness.receive(A, &pong());
    harness.advance_time(milliseconds(999));
    assert!(harness.drain_frames(A).is_empty());
    harness.advance_time(milliseconds(1));
    let closed = harness.drain_frames(A);
    assert_eq!(closed, ["close 1002 timeout: no valid message since the upgrade"]);
}

#[test]
fn upgrade_request_is_no_first_message() {
    let mut harness = Harness::new(Reaction::Ignore);
    harness.connections.shared.options.websocket.first_message_timeout = milliseconds(2_000);
    let key = harness.open_websocket(A);
    harness.receive(A, &text("{"));
    harness.connections.table.get_mut(key).unwrap().record_invalid_message();
    harness.advance_time(milliseconds(1_999));
    harness.receive(A, &text("valid"));
    harness.advance_time(milliseconds(2_900));
    assert!(harness.drain_frames(A).is_empty());
}

#[test]
fn first_message_that_has_begun_may_be_slow() {
    let mut harness = Harness::new(Reaction::Ignore);
    harness.connections.shared.options.websocket.first_message_timeout = milliseconds(2_000);
    harness.open_websocket(A);
    harness.advance_time(milliseconds(1_900));
    harness.receive(A, &first_fragment("so"));
    harness.advance_time(milliseconds(3_000));
    assert_eq!(harness.drain_frames(A), ["ping"]);
    harness.receive(A, &last_fragment(" on"));
    harness.advance_time(milliseconds(2_900));
    assert!(harness.drain_frames(A).is_empty());
}
