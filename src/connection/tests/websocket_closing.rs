//! The WebSocket closing handshake (RFC 6455, section 7).

use std::io;
use std::time::Duration;

use crate::connection::CloseReason;
use corelane_engine::ring::Socket;
use corelane_transport::websocket::limits::{CloseCode, ProtocolError};

use super::harness::{Harness, Reaction};
use super::websocket_peer::{self, close, first_fragment, ping, text};

const A: Socket = Socket(3);

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[test]
fn close_code_of_peer_is_echoed_behind_responses() {
    let codes = [(None, "close"), (Some(1000), "close 1000"), (Some(4242), "close 4242")];
    for (code, echo) in codes {
        let mut harness = Harness::new(Reaction::Echo);
        let key = harness.open_websocket(A);
        harness.receive(A, &[text("one"), ping("p"), close(code), text("no more")].concat());
        harness.receive(A, &text("still no more"));
        harness.send_text(key, "unanswered");
        assert_eq!(harness.drain_frames(A), ["one", "pong p", echo]);
        assert_eq!(harness.peer_closes, [(key, code)]);
        assert_eq!(harness.accounted_bytes(), 0);
        assert!(harness.ring.write_shutdowns.contains(&A) && harness.ring.closing.is_empty());
        harness.complete_end_of_stream(A, &Ok(()));
        harness.complete_close(A);
        assert_eq!(harness.closed_connections, [("http", CloseReason::PeerClosed)]);
        assert_eq!(harness.received, ["one"]);
    }
}

#[test]
fn pending_response_is_dropped_after_peer_closes() {
    let mut harness = Harness::new(Reaction::Defer);
    let key = harness.open_websocket(A);
    harness.receive(A, &[text("question"), close(Some(1001))].concat());
    harness.send_deferred(key, "answer");
    assert_eq!(harness.drain_frames(A), ["close 1001"]);
    harness.complete_end_of_stream(A, &Ok(()));
    harness.complete_close(A);
}

#[test]
fn drain_sends_close_frame_after_pending_responses() {
    let mut harness = Harness::new(Reaction::Defer);
    let key = harness.open_websocket(A);
    harness.receive(A, &text("question"));
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, key, CloseReason::Drain, now);
    harness.receive(A, &text("one more"));
    assert!(harness.drain_frames(A).is_empty());
    harness.send_deferred(key, "answer");
    assert_eq!(harness.drain_frames(A), ["answer", "close 1001 the server is shutting down"]);
    assert!(harness.ring.write_shutdowns.contains(&A) && harness.ring.closing.is_empty());
    // The peer's close frame ends the connection; other frames before it are discarded.
    harness.receive(A, &[text("and"), ping(""), first_fragment("on"), close(Some(1001))].concat());
    harness.flush();
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("http", CloseReason::Drain)]);
    assert_eq!(harness.received, ["question"]);
}

#[test]
fn peer_close_ends_drain_immediately() {
    let mut harness = Harness::new(Reaction::Defer);
    let key = harness.open_websocket(A);
    harness.receive(A, &text("question"));
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, key, CloseReason::Drain, now);
    harness.receive(A, &close(Some(1000)));
    assert_eq!(harness.drain_frames(A), ["close 1000"]);
    harness.complete_end_of_stream(A, &Ok(()));
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("http", CloseReason::Drain)]);
}

#[test]
fn unread_close_frame_is_answered_by_drain() {
    let mut harness = Harness::new(Reaction::Defer);
    let key = harness.open_websocket(A);
    harness.receive(A, &text("question"));
    harness.send_text(key, "something of more than forty bytes that it does not read");
    harness.flush();
    harness.receive(A, &[text("not received"), close(Some(1000))].concat());
    assert_eq!(harness.received, ["question"]);
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, key, CloseReason::Drain, now);
    let read = harness.drain_frames(A);
    assert_eq!(read[1..], ["close 1001 the server is shutting down"]);
    assert_eq!(harness.connections.shared.statistics.websocket.closes_in, 1);
    harness.complete_end_of_stream(A, &Ok(()));
    harness.complete_close(A);
}

#[test]
fn crossing_close_frames_complete_the_handshake() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open_websocket(A);
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, key, CloseReason::Drain, now);
    assert!(harness.ring.sends.contains_key(&A));
    harness.receive(A, &close(Some(1000)));
    assert_eq!(harness.drain_frames(A), ["close 1001 the server is shutting down"]);
    harness.complete_close(A);
    assert_eq!(harness.connections.shared.statistics.websocket.closes_out, 1);
}

#[test]
fn invalid_frame_closes_behind_earlier_responses() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open_websocket(A);
    harness.receive(
        A,
        &[text("one"), websocket_peer::encode_frame(0x82, b"bytes"), text("two")].concat(),
    );
    assert_eq!(harness.drain_frames(A), ["one", "close 1003 binary messages are not supported"]);
    assert!(harness.peer_closes.is_empty());
    assert!(harness.connections.outgoing(key).is_none());
    harness.complete_end_of_stream(A, &Ok(()));
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("http", CloseReason::ProtocolViolation)]);
}

#[test]
fn protocol_error_of_driver_sends_one_close_frame() {
    let mut harness = Harness::new(Reaction::Ignore);
    let key = harness.open_websocket(A);
    harness.receive(A, &text("{"));
    let fault = ProtocolError { code: CloseCode::PROTOCOL, ..ProtocolError::INVALID_UTF8 };
    harness.connections.fail_websocket(key, fault, harness.now);
    harness.connections.fail_websocket(key, ProtocolError::MESSAGE_TOO_BIG, harness.now);
    assert_eq!(harness.drain_frames(A), ["close 1002 the text is not UTF-8"], "one close frame");
    // Later input is discarded without memory, up to the peer's close frame.
    harness.receive(A, &text("half of this message will never be read")[..20]);
    assert_eq!(harness.accounted_bytes(), 0);
    harness.receive(A, &text("half of this message will never be read")[20..]);
    harness.receive(A, &close(Some(1002)));
    harness.flush();
    harness.complete_close(A);
    assert_eq!(harness.received, ["{"]);
}

#[test]
fn incomplete_message_does_not_hide_close_frame() {
    let mut harness = Harness::new(Reaction::Ignore);
    let key = harness.open_websocket(A);
    harness.receive(A, &text("half of this message has come")[..20]);
    assert!(harness.accounted_bytes() > 0);
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, key, CloseReason::Drain, now);
    assert_eq!(harness.drain_frames(A), ["close 1001 the server is shutting down"]);
    assert_eq!(harness.accounted_bytes(), 0);
    harness.receive(A, &[&text("half of this message has come")[20..], &close(None)].concat());
    harness.flush();
    harness.complete_close(A);
}

#[test]
fn linger_timeout_bounds_closing_handshake() {
    let mut harness = Harness::new(Reaction::Ignore);
    let key = harness.open_websocket(A);
    // Just before the ping deadline.
    harness.advance_time(milliseconds(2_990));
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, key, CloseReason::Drain, now);
    harness.advance_time(milliseconds(900));
    assert_eq!(harness.drain_frames(A), ["close 1001 the server is shutting down"]);
    for _ in 0..99 {
        harness.advance_time(milliseconds(10));
        harness.receive(A, &text("talks on"));
    }
    assert!(harness.ring.closing.is_empty());
    harness.advance_time(milliseconds(10));
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("http", CloseReason::Drain)]);
}

#[test]
fn unread_close_frame_times_out() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    harness.receive(A, &text("question"));
    harness.flush();
    harness.receive(A, &websocket_peer::encode_frame(0x83, b""));
    harness.flush();
    harness.advance_time(milliseconds(999));
    assert!(harness.ring.closing.is_empty());
    // A partial send does not extend the timeout.
    harness.complete_send(A, &Ok(3));
    harness.advance_time(milliseconds(1));
    harness.complete_send(A, &Err(io::Error::from_raw_os_error(125)));
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("http", CloseReason::ProtocolViolation)]);
    assert!(harness.abandoned.is_empty());
}

#[test]
fn end_of_stream_without_close_frame_closes() {
    let mut harness = Harness::new(Reaction::Echo);
    harness.open_websocket(A);
    harness.receive(A, &[text("one"), first_fragment("half a ")].concat());
    harness.complete_end_of_stream(A, &Ok(()));
    assert_eq!(harness.drain_frames(A), ["one", "close 1000"]);
    harness.complete_close(A);
    assert_eq!(harness.closed_connections, [("http", CloseReason::PeerClosed)]);
    assert_eq!(harness.received, ["one"]);
}

#[test]
fn send_error_during_drain_closes_immediately() {
    let mut harness = Harness::new(Reaction::Echo);
    let key = harness.open_websocket(A);
    let now = harness.now;
    harness.connections.close_gracefully(&mut harness.ring, key, CloseReason::Drain, now);
    harness.complete_send(A, &Err(io::ErrorKind::BrokenPipe.into()));
    harness.complete_close(A);
    assert_eq!(
        harness.closed_connections,
        [("http", CloseReason::Drain)],
        "the first reason is kept"
    );
    assert_eq!(harness.accounted_bytes(), 0);
}
