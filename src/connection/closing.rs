//! The closing handshake of WebSocket (RFC 6455, section 7.1).
//!
//! A close frame is queued behind all earlier output and is the last frame sent. Then the sending
//! side is shut down, and further input is discarded until the peer closes.
//!
//! Invariants: one close frame per connection, nothing after it. The peer has `linger_timeout` to
//! receive the close frame and the same time again to close; otherwise the connection is cut.

use super::Connections;
use super::state::{CloseReason, Phase};
use crate::base::slab::Key;
use crate::base::time::Instant;
use crate::engine::ring::Ring;
use crate::transport::websocket::code::CloseCode;
use crate::transport::websocket::limits::ProtocolError;
use crate::transport::websocket::writer;

/// Code and reason of a close frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct CloseFrame {
    /// `None` sends an empty close frame, in reply to one without a code.
    pub(super) code: Option<CloseCode>,
    /// Human-readable; may be empty.
    pub(super) reason: &'static str,
}

impl CloseFrame {
    pub(super) const IDLE_TIMEOUT: Self = Self::new(CloseCode::NORMAL, "idle timeout");
    pub(super) const SEND_TIMEOUT: Self =
        Self::new(CloseCode::INTERNAL, "send timeout: the client does not read");
    pub(super) const MESSAGE_TIMEOUT: Self =
        Self::new(CloseCode::PROTOCOL, "timeout: the message was not completed");

    const fn new(code: CloseCode, reason: &'static str) -> Self {
        Self { code: Some(code), reason }
    }

    /// Returns the close frame of a connection that is closed for `reason`.
    pub(super) const fn from_reason(reason: CloseReason) -> Self {
        match reason {
            CloseReason::Drain => Self::new(CloseCode::GOING_AWAY, "the server is shutting down"),
            CloseReason::IdleTimeout => Self::IDLE_TIMEOUT,
            CloseReason::MessageTimeout => Self::MESSAGE_TIMEOUT,
            CloseReason::PeerClosed => Self::new(CloseCode::NORMAL, ""),
            CloseReason::SocketError | CloseReason::ProtocolViolation | CloseReason::Refused => {
                Self::new(CloseCode::INTERNAL, "the server closes the connection")
            }
        }
    }
}

impl<S> Connections<S> {
    /// Fails a WebSocket connection (RFC 6455, section 7.1.7) because of a protocol violation or a
    /// server error: sends the output written so far, drops pending responses and closes.
    pub fn fail_websocket(&mut self, key: Key, fault: ProtocolError, now: Instant) {
        let ProtocolError { code, reason } = fault;
        self.start_closing(key, CloseFrame::new(code, reason), CloseReason::ProtocolViolation, now);
    }

    /// Starts the closing handshake: queues the close frame and discards all input except the
    /// peer's close frame.
    pub(super) fn start_closing(
        &mut self,
        key: Key,
        close: CloseFrame,
        reason: CloseReason,
        now: Instant,
    ) {
        if self.queue_close_frame(key, close, reason, now) {
            self.schedule_flush(key);
        }
    }

    /// Sends the close frame of a draining connection without pending responses.
    #[cold]
    pub(super) fn send_close_frame<R: Ring>(&mut self, ring: &mut R, key: Key, now: Instant) {
        let reason = self.table.get(key).and_then(|connection| connection.close_reason);
        let reason = reason.unwrap_or(CloseReason::PeerClosed);
        if self.queue_close_frame(key, CloseFrame::from_reason(reason), reason, now) {
            self.send_outgoing(ring, key, now);
        }
    }

    /// Closes a connection whose peer does not read; output behind the send in flight is dropped.
    pub(super) fn close_unread(&mut self, key: Key, now: Instant) {
        let Some(connection) = self.table.get_mut(key) else { return };
        if connection.sending_bytes > 0 {
            connection.outgoing.clear();
        }
        // Overrides an earlier reason: this is why pending responses are lost.
        connection.close_reason = Some(CloseReason::ProtocolViolation);
        self.statistics.websocket.send_timeouts += 1;
        self.start_closing(key, CloseFrame::SEND_TIMEOUT, CloseReason::ProtocolViolation, now);
    }

    /// Queues the close frame. Returns `false` if the connection is past that phase.
    #[cold]
    fn queue_close_frame(
        &mut self,
        key: Key,
        close: CloseFrame,
        reason: CloseReason,
        now: Instant,
    ) -> bool {
        let Some(connection) = self.table.get_mut(key) else { return false };
        if !matches!(connection.phase, Phase::Open | Phase::Draining) {
            return false;
        }
        let Some(frames) = connection.websocket() else { return false };
        frames.close_queued_at = now;
        connection.set_close_reason(reason);
        connection.phase = Phase::CloseFrameQueued;
        if connection.outgoing.capacity() == 0 {
            connection.outgoing = self.pool.take();
        }
        writer::write_close(&mut connection.outgoing, close.code, close.reason);
        self.statistics.websocket.closes_out += 1;
        self.discard_input(key);
        self.arm_timer(key, now.after(self.options.linger_timeout));
        true
    }
}
