//! WebSocket state of one shard besides its connections: message limits, decompression and
//! counters.
//!
//! Invariant: the state of decompression is allocated for the first compressed message, and is
//! shared by all connections, because messages are compressed independently of each other.

use std::mem::take;

use corelane_protocol::json::PaddedBuffer;
use corelane_transport::websocket::deflate::{InflateLimits, Inflater};
use corelane_transport::websocket::handshake::HandshakeOptions;
use corelane_transport::websocket::limits::{CloseCode, FrameLimits, ProtocolError};

use crate::connection::{CloseReason, WebSocketStatistics};
use crate::server::options::{Options, Utf8CloseCode};
use crate::telemetry::counters::WebSocketCounters as Counters;

/// Limits and settings of WebSocket messages. Changes while the shard runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct MessageRules {
    /// Limits of one message.
    pub(super) frame_limits: FrameLimits,
    /// Limits of decompression.
    inflate_limits: InflateLimits,
    /// Whether each message must end in a newline.
    pub(super) requires_newline: bool,
    utf8_close_code: Utf8CloseCode,
}

impl MessageRules {
    /// Returns the settings of `options`.
    pub(super) fn from_options(options: &Options) -> Self {
        let message_bytes_max = options.limits.message_bytes_max;
        let ratio_max = options.websocket.deflate_ratio_max as usize;
        Self {
            frame_limits: FrameLimits { message_bytes_max, ..FrameLimits::default() },
            inflate_limits: InflateLimits { message_bytes_max, ratio_max },
            requires_newline: options.websocket.strict_delimiter,
            utf8_close_code: options.websocket.utf8_close_code,
        }
    }

    /// Returns `fault` with the close code configured for it.
    pub(super) fn apply_close_code(&self, fault: ProtocolError) -> ProtocolError {
        let is_utf8 =
            fault == ProtocolError::INVALID_UTF8 || fault == ProtocolError::INVALID_CLOSE_REASON;
        match self.utf8_close_code {
            Utf8CloseCode::ProtocolError if is_utf8 => {
                ProtocolError { code: CloseCode::PROTOCOL, ..fault }
            }
            Utf8CloseCode::InvalidPayload | Utf8CloseCode::ProtocolError => fault,
        }
    }
}

/// WebSocket state of one shard.
#[derive(Debug)]
pub(super) struct WebSocketTransport {
    /// Limits and settings of messages.
    pub(super) rules: MessageRules,
    /// What the handshake accepts.
    pub(super) accepted_handshake: HandshakeOptions,
    /// Counters, without those of the connection table.
    pub(super) counters: Counters,
    inflater: Option<Box<Inflater>>,
    /// The last decompressed message, whose buffer is reused.
    inflate_buffer: Vec<u8>,
}

impl WebSocketTransport {
    pub(super) fn new(rules: MessageRules, accepted_handshake: HandshakeOptions) -> Self {
        Self {
            rules,
            accepted_handshake,
            counters: Counters::default(),
            inflater: None,
            inflate_buffer: Vec::new(),
        }
    }

    /// Decompresses a message. Return its buffer with [`WebSocketTransport::recycle_buffer`].
    ///
    /// # Errors
    ///
    /// The error for which the connection must be closed.
    #[cold]
    pub(super) fn inflate(&mut self, deflated: &[u8]) -> Result<PaddedBuffer, ProtocolError> {
        let inflater = self.inflater.get_or_insert_with(Box::default);
        let mut text = take(&mut self.inflate_buffer);
        match inflater.inflate(deflated, &mut text, &self.rules.inflate_limits) {
            Ok(length) => {
                text.truncate(length);
                Ok(PaddedBuffer::new(text))
            }
            Err(error) => {
                self.recycle(text);
                Err(error)
            }
        }
    }

    /// Stores the buffer of a decompressed message for reuse.
    pub(super) fn recycle_buffer(&mut self, message: PaddedBuffer) {
        self.recycle(message.into_buffer());
    }

    /// Stores a buffer for reuse, unless it is large.
    fn recycle(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() <= INFLATE_BUFFER_BYTES_KEPT_MAX {
            self.inflate_buffer = buffer;
        }
    }

    /// Returns all counters, with those of the connection table.
    pub(super) const fn all_counters(&self, frames: &WebSocketStatistics) -> Counters {
        Counters {
            upgraded: frames.upgraded,
            messages_in: frames.messages_in,
            messages_out: frames.messages_out,
            bytes_out: frames.bytes_out,
            pings_in: frames.pings_in,
            pings_out: frames.pings_out,
            pongs_in: frames.pongs_in,
            closed_internal: self.counters.closed_internal + frames.send_timeouts,
            ..self.counters
        }
    }

    /// Counts a connection that has ended. `is_closed` is whether the peer sent a close frame of
    /// its own accord.
    pub(super) fn count_connection_end(&mut self, ending: CloseReason, is_closed: bool) {
        match ending {
            CloseReason::Drain | CloseReason::Lifetime => self.count_close(CloseCode::GOING_AWAY),
            CloseReason::IdleTimeout => self.count_close(CloseCode::NORMAL),
            // The timeout of a fragmented message.
            CloseReason::MessageTimeout => self.count_close(CloseCode::PROTOCOL),
            CloseReason::MemoryLimit => self.count_close(CloseCode::INTERNAL),
            CloseReason::InvalidCredential | CloseReason::Evicted => {
                self.count_close(CloseCode::POLICY);
            }
            CloseReason::PeerClosed if is_closed => self.counters.closed_by_peer += 1,
            CloseReason::PeerClosed | CloseReason::SocketError => {
                self.counters.closed_abnormally += 1;
            }
            // Counted when the error occurred, or by the connection table for slow peers.
            CloseReason::ProtocolViolation | CloseReason::Refused => {}
        }
    }

    /// Counts a close code.
    pub(super) fn count_close(&mut self, code: CloseCode) {
        let counters = &mut self.counters;
        *match code {
            CloseCode::NORMAL => &mut counters.closed_normal,
            CloseCode::GOING_AWAY => &mut counters.closed_going_away,
            CloseCode::UNSUPPORTED => &mut counters.closed_unsupported,
            CloseCode::INVALID => &mut counters.closed_invalid_data,
            CloseCode::POLICY => &mut counters.closed_policy,
            CloseCode::TOO_BIG => &mut counters.closed_too_big,
            CloseCode::INTERNAL => &mut counters.closed_internal,
            _ => &mut counters.closed_protocol_error,
        } += 1;
    }
}

/// Largest buffer of a decompressed message that is stored for reuse.
const INFLATE_BUFFER_BYTES_KEPT_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_utf8_gets_the_configured_close_code() {
        let mut options = Options::default();
        assert_eq!(
            MessageRules::from_options(&options).apply_close_code(ProtocolError::INVALID_UTF8).code,
            CloseCode::INVALID
        );
        options.websocket.utf8_close_code = Utf8CloseCode::ProtocolError;
        let rules = MessageRules::from_options(&options);
        for fault in ProtocolError::ALL {
            let is_utf8 = fault == ProtocolError::INVALID_UTF8
                || fault == ProtocolError::INVALID_CLOSE_REASON;
            let code = if is_utf8 { CloseCode::PROTOCOL } else { fault.code };
            assert_eq!(rules.apply_close_code(fault), ProtocolError { code, ..fault });
        }
    }

    #[test]
    fn each_close_code_is_counted_separately() {
        let rules = MessageRules::from_options(&Options::default());
        let mut websockets = WebSocketTransport::new(rules, HandshakeOptions::default());
        let codes = [
            CloseCode::NORMAL,
            CloseCode::GOING_AWAY,
            CloseCode::PROTOCOL,
            CloseCode::UNSUPPORTED,
            CloseCode::INVALID,
            CloseCode::POLICY,
            CloseCode::TOO_BIG,
            CloseCode::INTERNAL,
        ];
        for code in codes {
            websockets.count_close(code);
        }
        let counters = websockets.counters;
        let expected = Counters {
            closed_normal: 1,
            closed_going_away: 1,
            closed_protocol_error: 1,
            closed_unsupported: 1,
            closed_invalid_data: 1,
            closed_policy: 1,
            closed_too_big: 1,
            closed_internal: 1,
            ..Counters::default()
        };
        assert_eq!(counters, expected);
    }
}
