//! Timeouts of connections: idle, first message, incomplete messages, backpressure, closing.
//!
//! A connection whose deadline moves later keeps its timer, which is checked when it expires. A
//! WebSocket deadline can also move earlier; then several timers exist, of which only the earliest
//! is valid.

use corelane_base::time::Instant;
use corelane_engine::ring::Ring;
use corelane_transport::websocket::writer;

use super::closing::{self, CloseFrame};
use super::entry::Entry;
use super::state::{CloseReason, Codec, Connection, Phase, ReadStatus, TimeoutCheck};

/// Handles an expired timer of a connection.
pub(super) fn expire<S, R: Ring>(entry: &mut Entry<'_, S>, ring: &mut R, now: Instant) {
    let (connection, options) = (&mut *entry.connection, &entry.shared.options);
    if connection.is_websocket() {
        return expire_websocket(entry, ring, now);
    }
    let active = connection.last_activity;
    let is_unproven = connection.record.traffic.messages_in == 0;
    let has_only_invalid = is_unproven && connection.close_state.has_received_invalid();
    let is_incomplete = is_unproven || connection.input.is_inside_request();
    let work = connection.pending_work;
    let reason = connection.close_state.close_reason();
    let (due, reason) = match connection.close_state.phase() {
        Phase::Closing | Phase::CloseFrameQueued => return,
        // A timer from before the linger phase may expire earlier.
        Phase::Lingering => (active.after(options.linger_timeout), CloseReason::PeerClosed),
        // A peer that violated a limit has this time for the error.
        Phase::Draining if reason.is_some_and(CloseReason::limits_draining) => {
            (active.after(options.linger_timeout), CloseReason::ProtocolViolation)
        }
        // Invalid messages do not extend the time of the first valid one.
        Phase::Open | Phase::Draining if has_only_invalid => {
            let opened = connection.record.opened_at();
            (opened.after(options.first_message_timeout), CloseReason::MessageTimeout)
        }
        Phase::Open | Phase::Draining if is_incomplete => {
            (active.after(options.first_message_timeout), CloseReason::MessageTimeout)
        }
        // Pending responses have deadlines of their own, and dead peers of open streams are
        // detected by TCP keepalive.
        Phase::Open | Phase::Draining if work.pending_responses > 0 || work.has_open_stream => {
            (now.after(options.idle_timeout), CloseReason::IdleTimeout)
        }
        Phase::Open | Phase::Draining => {
            (active.after(options.idle_timeout), CloseReason::IdleTimeout)
        }
    };
    if due <= now {
        return cut(connection, ring, reason);
    }
    // A new request may begin at any time and must then complete within its timeout.
    let is_ndjson = connection.input.codec() == Codec::Ndjson;
    let next = if is_ndjson { due } else { due.min(now.after(options.first_message_timeout)) };
    entry.arm_timer(next);
}

/// Handles an expired timer of a WebSocket connection.
fn expire_websocket<S, R: Ring>(entry: &mut Entry<'_, S>, ring: &mut R, now: Instant) {
    let linger_max = entry.shared.options.linger_timeout;
    let connection = &mut *entry.connection;
    let reason = connection.close_state.close_reason();
    let Some(frames) = connection.input.websocket() else { return };
    if !frames.expire_timer(now) {
        // An earlier timer that is no longer valid.
        return;
    }
    let due = match connection.close_state.phase() {
        Phase::Draining if reason.is_some_and(CloseReason::limits_draining) => {
            connection.last_activity.after(linger_max)
        }
        Phase::Open | Phase::Draining => return expire_open_websocket(entry, now),
        Phase::CloseFrameQueued => frames.close_queued_at().after(linger_max),
        Phase::Lingering => connection.last_activity.after(linger_max),
        Phase::Closing => return,
    };
    if due > now {
        entry.arm_timer(due);
    } else {
        cut(connection, ring, CloseReason::PeerClosed);
    }
}

/// Closes a connection whose time is up. If its peer does not read, or for memory, the kernel
/// discards what it has not sent.
fn cut<S, R: Ring>(connection: &mut Connection<S>, ring: &mut R, reason: CloseReason) {
    let is_for_memory = connection.close_state.close_reason() == Some(CloseReason::MemoryLimit);
    if is_for_memory || connection.queued_bytes() > 0 {
        connection.reset(ring, reason);
    } else {
        connection.close(ring, reason);
    }
}

/// Handles an expired timer of an open WebSocket: checks its timeouts or sends a ping.
fn expire_open_websocket<S>(entry: &mut Entry<'_, S>, now: Instant) {
    let connection = &mut *entry.connection;
    let is_paused = connection.reading.is_paused();
    let status = ReadStatus {
        is_paused,
        is_over_limit: is_paused && !connection.is_drained(&entry.shared.options),
        may_ping: connection.close_state.is_open() && !is_paused,
        messages_in: connection.record.traffic.messages_in,
    };
    let Some(frames) = connection.input.websocket() else { return };
    match frames.check_timeouts(status, &entry.shared.options.websocket, now) {
        TimeoutCheck::Wait(due) => entry.arm_timer(due),
        TimeoutCheck::Ping(due) => {
            frames.record_ping(now);
            send_ping(entry);
            entry.arm_timer(due);
        }
        TimeoutCheck::SendTimeout => closing::close_unread(entry, now),
        TimeoutCheck::MessageTimeout => {
            entry.shared.statistics.websocket.message_timeouts += 1;
            let frame = CloseFrame::MESSAGE_TIMEOUT;
            closing::start_handshake(entry, frame, CloseReason::MessageTimeout, now);
        }
        TimeoutCheck::FirstMessageTimeout => {
            let frame = CloseFrame::FIRST_MESSAGE_TIMEOUT;
            closing::start_handshake(entry, frame, CloseReason::MessageTimeout, now);
        }
        TimeoutCheck::IdleTimeout => {
            let frame = CloseFrame::IDLE_TIMEOUT;
            closing::start_handshake(entry, frame, CloseReason::IdleTimeout, now);
        }
    }
}

fn send_ping<S>(entry: &mut Entry<'_, S>) {
    if entry.reserve_output() {
        writer::write_ping(&mut entry.connection.outgoing, &[]);
        entry.shared.statistics.websocket.pings_out += 1;
        if let Some(frames) = entry.connection.input.websocket() {
            frames.pings.pings_out = frames.pings.pings_out.wrapping_add(1);
        }
    }
}
