//! State that only WebSocket connections have. Boxed, and without buffers between messages.

use crate::base::time::Instant;
use crate::transport::websocket::code::CloseCode;
use crate::transport::websocket::limits::FrameLimits;
use crate::transport::websocket::reader::{FrameEvent, FrameReader};

/// Additional state of a WebSocket connection.
#[derive(Debug)]
pub(super) struct WebSocketState {
    pub(super) reader: FrameReader,
    /// Time of the last frame of the peer, or the end of the last backpressure.
    pub(super) last_received: Instant,
    /// Time of the last ping sent.
    pub(super) last_ping: Instant,
    /// Time at which the incomplete message began.
    pub(super) message_start: Option<Instant>,
    /// Set while reading is stopped because the peer does not read.
    pub(super) backpressure: Option<Backpressure>,
    /// Deadline of the earliest timer that is valid.
    pub(super) next_timer: Instant,
    /// Time at which the close frame was queued.
    pub(super) close_queued_at: Instant,
    /// The peer has answered the close frame with its own.
    pub(super) is_close_answered: bool,
}

/// A close frame of the peer, with its code if any.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerClose(pub(super) Option<CloseCode>);

/// A period in which a peer is not read because it does not read: since when, and its deadline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backpressure {
    pub(super) since: Instant,
    pub(super) until: Instant,
}

impl WebSocketState {
    /// No timer is valid.
    pub(super) const NEVER: Instant = Instant::from_nanoseconds(u64::MAX);

    pub(super) const fn new(reader: FrameReader, now: Instant) -> Self {
        Self {
            reader,
            last_received: now,
            last_ping: now,
            message_start: None,
            backpressure: None,
            next_timer: Self::NEVER,
            close_queued_at: now,
            is_close_answered: false,
        }
    }

    /// Ends backpressure. The idle and message timeouts are extended by its duration.
    #[cold]
    pub(super) fn end_backpressure(&mut self, strain: Backpressure, now: Instant) {
        self.backpressure = None;
        self.last_received = now;
        self.message_start = self.message_start.map(|began| began.after(now.since(strain.since)));
    }

    /// Discards pending input. Returns whether it contained a close frame.
    pub(super) fn discard_pending(&mut self, bytes: &mut [u8]) -> bool {
        self.message_start = None;
        self.discard_until_close(bytes).is_some()
    }

    /// Discards input up to a close frame. The reader is in discarding mode already.
    pub(super) fn discard_until_close(&mut self, bytes: &mut [u8]) -> Option<PeerClose> {
        // Discarded messages are not limited.
        let limits = FrameLimits { message_bytes_max: usize::MAX, is_binary_allowed: true };
        let mut from = 0;
        loop {
            match self.reader.next(bytes, &mut from, &limits, Vec::new) {
                FrameEvent::Close(code) => return Some(PeerClose(code)),
                FrameEvent::Invalid(_) | FrameEvent::NeedMore => return None,
                FrameEvent::Assembled { .. } => drop(self.reader.take()),
                FrameEvent::InPlace { .. } | FrameEvent::Ping | FrameEvent::Pong => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn websocket_state_is_at_most_192_bytes() {
        assert!(size_of::<WebSocketState>() <= 192);
    }
}
