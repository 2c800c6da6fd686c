//! Closing of connections, with the closing handshake of WebSocket (RFC 6455, section 7.1).
//!
//! A close frame is queued behind all earlier output and is the last frame sent. Then the sending
//! side is shut down, and further input is discarded until the peer closes. After about 256 KiB of
//! discarded input no more is read: the peer has its time to read the last response, and is
//! slowed down by TCP.
//!
//! Invariants: one close frame per connection, nothing after it. The peer has `linger_timeout` to
//! receive the close frame and the same time again to close; otherwise the connection is cut, and
//! reset if the peer has not taken all output.

use corelane_base::time::Instant;
use corelane_engine::ring::{Operation, Ring};
use corelane_transport::websocket::limits::{CloseCode, ProtocolError};
use corelane_transport::websocket::writer;

use super::entry::Entry;
use super::output;
use super::state::{CloseReason, Phase};

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
    pub(super) const SEND_TIMEOUT: Self =
        Self::new(CloseCode::INTERNAL, "send timeout: the client does not read");
    pub(super) const MESSAGE_TIMEOUT: Self =
        Self::new(CloseCode::PROTOCOL, "timeout: the message was not completed");
    pub(super) const FIRST_MESSAGE_TIMEOUT: Self =
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
pub(super) fn close_unread<S>(entry: &mut Entry<'_, S>, now: Instant) {
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
