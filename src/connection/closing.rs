//! Closing of connections, and the timeouts after which they are closed, with the closing handshake
//! of WebSocket (RFC 6455, section 7.1).
//!
//! A close frame is queued behind all earlier output and is the last frame sent. Then the sending
//! side is shut down, and further input is discarded until the peer closes. After about 256 KiB of
//! discarded input no more is read: the peer has its time to read the last response, and is slowed
//! down by TCP.
//!
//! Invariants: one close frame per connection, nothing after it. The peer has `linger_timeout` to
//! receive the close frame and the same time again to close; otherwise the connection is cut, and
//! reset if the peer has not taken all output.
//!
//! A connection whose deadline moves later keeps its timer, which is checked when it expires. A
//! WebSocket deadline can also move earlier; then several timers exist, of which only the earliest
//! is valid.

use std::time::Duration;

use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, Ring};
use corelane_transport::websocket::limits::{CloseCode, ProtocolError};
use corelane_transport::websocket::writer;

use super::output;
use super::state::{CloseReason, Codec, Connection, Phase, ReadStatus, TimeoutCheck};
use super::table::Entry;

/// Time that a connection has for its first byte while there are many without one.
pub(super) const SHORT_SILENCE: Duration = Duration::from_secs(3);

/// Code and reason of a close frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct CloseFrame {
    /// `None` sends an empty close frame, in reply to one without a code.
    code: Option<CloseCode>,
    /// Human-readable; may be empty.
    reason: &'static str,
}

impl CloseFrame {
    pub(super) const IDLE_TIMEOUT: Self = Self::new(CloseCode::NORMAL, "idle timeout");
    const SEND_TIMEOUT: Self =
        Self::new(CloseCode::INTERNAL, "send timeout: the client does not read");
    const MESSAGE_TIMEOUT: Self =
        Self::new(CloseCode::PROTOCOL, "timeout: the message was not completed");
    const FIRST_MESSAGE_TIMEOUT: Self =
        Self::new(CloseCode::PROTOCOL, "timeout: no valid message since the upgrade");

    const fn new(code: CloseCode, reason: &'static str) -> Self {
        Self { code: Some(code), reason }
    }

    /// Returns the close frame that answers one with `code`.
    pub(super) const fn answer(code: Option<CloseCode>) -> Self {
        Self { code, reason: "" }
    }

    /// Returns the close frame of a connection that is closed for `reason`.
    const fn from_reason(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Drain => Self::new(CloseCode::GOING_AWAY, "the server is shutting down"),
            CloseReason::Lifetime => {
                Self::new(CloseCode::GOING_AWAY, "the connection has reached its lifetime")
            }
            CloseReason::Evicted => {
                Self::new(CloseCode::POLICY, "idle at the limit of connections; connect again")
            }
            CloseReason::IdleTimeout => Self::IDLE_TIMEOUT,
            CloseReason::MessageTimeout => Self::MESSAGE_TIMEOUT,
            CloseReason::PeerClosed => Self::new(CloseCode::NORMAL, ""),
            CloseReason::MemoryLimit => {
                Self::new(CloseCode::INTERNAL, "the server is short of memory")
            }
            CloseReason::InvalidCredential => {
                Self::new(CloseCode::POLICY, "the token is no longer valid")
            }
            CloseReason::SocketError | CloseReason::ProtocolViolation | CloseReason::Refused => {
                Self::new(CloseCode::INTERNAL, "the server closes the connection")
            }
        }
    }
}

impl From<ProtocolError> for CloseFrame {
    fn from(error: ProtocolError) -> Self {
        Self::new(error.code, error.reason)
    }
}

/// Stops reading and closes the connection once all pending responses are sent.
pub(super) fn close_gracefully<S, R: Ring>(
    entry: &mut Entry<'_, S>,
    ring: &mut R,
    reason: CloseReason,
    now: Instant,
) {
    entry.connection.close_state.set_close_reason(reason);
    let mut has_close = false;
    if entry.connection.close_state.is_open() {
        entry.connection.close_state.enter(Phase::Draining);
        has_close = entry.discard_input();
        if reason.limits_draining() {
            entry.connection.last_activity = now;
            entry.arm_timer(now.after(entry.shared.options.linger_timeout));
        }
    }
    if has_close {
        // The peer has closed already and reads no more responses.
        start_handshake(entry, CloseFrame::from_reason(reason), reason, now);
    } else {
        advance(entry, ring, now);
    }
}

/// Advances a closing connection to its next phase if nothing is pending.
pub(super) fn advance<S, R: Ring>(entry: &mut Entry<'_, S>, ring: &mut R, now: Instant) {
    let connection = &mut *entry.connection;
    match connection.close_state.phase() {
        Phase::Draining if connection.has_pending_work() => return,
        Phase::Draining if connection.is_websocket() => return send_close_frame(entry, ring, now),
        Phase::CloseFrameQueued if connection.queued_bytes() > 0 => return,
        Phase::Lingering if connection.input.is_close_answered() => {
            return connection.close(ring, CloseReason::PeerClosed);
        }
        Phase::Open | Phase::Lingering | Phase::Closing => return,
        Phase::Draining | Phase::CloseFrameQueued => {}
    }
    let is_over = connection.reading.has_ended() || connection.input.is_close_answered();
    if is_over || !connection.sockets.is_single() {
        return connection.close(ring, CloseReason::PeerClosed);
    }
    // Closing now, with unread input, would send a reset and could destroy the last response:
    // shut down the sending side and wait for the peer to close.
    connection.close_state.enter(Phase::Lingering);
    connection.last_activity = now;
    ring.submit(Operation::ShutdownWrite(connection.sockets.send));
    if !connection.reading.has_discarded_most() {
        ring.submit(Operation::Receive(connection.sockets.receive));
    }
    entry.arm_timer(now.after(entry.shared.options.linger_timeout));
}

/// Starts the closing handshake: queues the close frame and discards all input except the peer's
/// close frame.
pub(super) fn start_handshake<S>(
    entry: &mut Entry<'_, S>,
    frame: CloseFrame,
    reason: CloseReason,
    now: Instant,
) {
    if queue_close_frame(entry, frame, reason, now) {
        entry.schedule_flush();
    }
}

/// Closes a WebSocket whose peer does not read; output behind the send in flight is dropped.
fn close_unread<S>(entry: &mut Entry<'_, S>, now: Instant) {
    let connection = &mut *entry.connection;
    if !connection.sending.is_idle() {
        connection.outgoing.clear();
    }
    // Overrides an earlier reason: this is why pending responses are lost.
    connection.close_state.override_close_reason(CloseReason::ProtocolViolation);
    entry.shared.statistics.websocket.send_timeouts += 1;
    start_handshake(entry, CloseFrame::SEND_TIMEOUT, CloseReason::ProtocolViolation, now);
}

/// Sends the close frame of a draining connection without pending responses.
#[cold]
fn send_close_frame<S, R: Ring>(entry: &mut Entry<'_, S>, ring: &mut R, now: Instant) {
    let reason = entry.connection.close_state.close_reason().unwrap_or(CloseReason::PeerClosed);
    if queue_close_frame(entry, CloseFrame::from_reason(reason), reason, now) {
        output::submit(entry, ring, now);
    }
}

/// Queues the close frame. Returns `false` if the connection is past that phase or no WebSocket.
#[cold]
fn queue_close_frame<S>(
    entry: &mut Entry<'_, S>,
    frame: CloseFrame,
    reason: CloseReason,
    now: Instant,
) -> bool {
    let connection = &mut *entry.connection;
    if !connection.close_state.accepts_output() {
        return false;
    }
    let Some(websocket) = connection.input.websocket() else { return false };
    websocket.record_close(now);
    connection.close_state.set_close_reason(reason);
    connection.close_state.enter(Phase::CloseFrameQueued);
    connection.reserve_output(&mut entry.shared.pool);
    connection.account_output_later();
    writer::write_close(&mut connection.outgoing, frame.code, frame.reason);
    entry.shared.statistics.websocket.closes_out += 1;
    entry.discard_input();
    entry.arm_timer(now.after(entry.shared.options.linger_timeout));
    true
}

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
    let is_silent = connection.is_silent();
    let is_short = is_silent && entry.shared.silent > options.silent_max / 2;
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
            let timeout = options.first_message_timeout;
            let timeout = if is_short { timeout.min(SHORT_SILENCE) } else { timeout };
            (active.after(timeout), CloseReason::MessageTimeout)
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
    // Others may become silent, too.
    let next = if is_silent { next.min(now.after(SHORT_SILENCE)) } else { next };
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
        TimeoutCheck::SendTimeout => close_unread(entry, now),
        TimeoutCheck::MessageTimeout => {
            entry.shared.statistics.websocket.message_timeouts += 1;
            let frame = CloseFrame::MESSAGE_TIMEOUT;
            start_handshake(entry, frame, CloseReason::MessageTimeout, now);
        }
        TimeoutCheck::FirstMessageTimeout => {
            let frame = CloseFrame::FIRST_MESSAGE_TIMEOUT;
            start_handshake(entry, frame, CloseReason::MessageTimeout, now);
        }
        TimeoutCheck::IdleTimeout => {
            let frame = CloseFrame::IDLE_TIMEOUT;
            start_handshake(entry, frame, CloseReason::IdleTimeout, now);
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
