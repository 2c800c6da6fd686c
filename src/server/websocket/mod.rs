//! What a shard keeps for WebSocket, beside its connections: the rules, and what compresses.
//!
//! What it keeps true: a text is framed where it was written; compressed messages cost nothing
//! before a client asks for them, and then the same however many do, because no message is
//! compressed with another in mind.

use std::mem::take;

use crate::link::{Ending, FrameStatistics};
use crate::observe::counters::WebSockets as Counters;
use crate::server::options::{Options, Utf8CloseCode};
use crate::transport::websocket::code::CloseCode;
use crate::transport::websocket::deflate::{Deflater, InflateLimits, Inflater};
use crate::transport::websocket::handshake::Accepts;
use crate::transport::websocket::limits::{Fault, FrameLimits};
use crate::transport::websocket::writer::{self, Mark};

/// What messages over WebSocket are held to. Changes while the shard runs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// What one message may take.
    pub(super) frames: FrameLimits,
    /// What one that is compressed may become.
    inflate: InflateLimits,
    /// Whether each ends in a newline.
    pub(super) is_delimited: bool,
    utf8_close_code: Utf8CloseCode,
}

impl Rules {
    /// The rules of `options`.
    pub(super) fn of(options: &Options) -> Self {
        let message_bytes_max = options.limits.message_bytes_max;
        let ratio_max = options.websocket.deflate_ratio_max as usize;
        Self {
            frames: FrameLimits { message_bytes_max, ..FrameLimits::default() },
            inflate: InflateLimits { message_bytes_max, ratio_max },
            is_delimited: options.websocket.strict_delimiter,
            utf8_close_code: options.websocket.utf8_close_code,
        }
    }

    /// A fault with the code that is configured for it.
    pub(super) fn judge(&self, fault: Fault) -> Fault {
        let is_utf8 = fault == Fault::NOT_UTF8 || fault == Fault::BAD_REASON;
        match self.utf8_close_code {
            Utf8CloseCode::ProtocolError if is_utf8 => Fault { code: CloseCode::PROTOCOL, ..fault },
            Utf8CloseCode::InvalidPayload | Utf8CloseCode::ProtocolError => fault,
        }
    }
}

/// How the messages to one client are written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) struct Manner {
    /// Bits of the window that they are compressed with; 0 where they are not.
    pub(super) window_bits: u8,
}

/// What one shard keeps for WebSocket.
#[derive(Debug)]
pub(super) struct WebSockets {
    /// What messages are held to.
    pub(super) rules: Rules,
    /// What a client may ask for.
    pub(super) accepts: Accepts,
    /// What has happened, but for what the link counts.
    pub(super) counters: Counters,
    deflater: Deflater,
    inflater: Option<Box<Inflater>>,
    /// The last message that was inflated, or its memory.
    inflated: Vec<u8>,
}

impl WebSockets {
    /// Nothing but the rules.
    pub(super) fn new(rules: Rules, accepts: Accepts) -> Self {
        Self {
            rules,
            accepts,
            counters: Counters::default(),
            deflater: Deflater::new(),
            inflater: None,
            inflated: Vec::new(),
        }
    }

    /// Ends a frame that was begun in `out`: behind `mark` stands its text.
    #[inline]
    pub(super) fn end_frame(&mut self, out: &mut Vec<u8>, mark: Mark, manner: Manner) {
        self.counters.messages_out += 1;
        self.counters.bytes_out += (out.len() - mark.body()) as u64;
        if manner.window_bits == 0 {
            writer::end(out, mark);
        } else {
            writer::end_compressed(out, mark, self.deflater.within(manner.window_bits));
        }
    }

    /// Inflates a message; gives its text with the bytes behind it that a parser needs, and its
    /// length. Hand the memory back by [`WebSockets::give`].
    ///
    /// # Errors
    ///
    /// What the connection is closed for.
    #[cold]
    pub(super) fn inflate(&mut self, deflated: &[u8]) -> Result<(Vec<u8>, usize), Fault> {
        let inflater = self.inflater.get_or_insert_with(Box::default);
        let mut text = take(&mut self.inflated);
        match inflater.inflate(deflated, &mut text, &self.rules.inflate) {
            Ok(length) => Ok((text, length)),
            Err(fault) => {
                self.give(text);
                Err(fault)
            }
        }
    }

    /// Keeps the memory of an inflated message for the next, unless that is much.
    pub(super) fn give(&mut self, text: Vec<u8>) {
        if text.capacity() <= INFLATED_BYTES_KEPT_MAX {
            self.inflated = text;
        }
    }

    /// What has happened, with what the link has counted.
    pub(super) const fn count(&self, frames: &FrameStatistics) -> Counters {
        Counters {
            upgraded: frames.adopted,
            messages_in: frames.messages_in,
            pings_in: frames.pings_in,
            pings_out: frames.pings_out,
            pongs_in: frames.pongs_in,
            closed_internal: self.counters.closed_internal + frames.undrained,
            ..self.counters
        }
    }

    /// Counts the end of a connection that was not broken off. `is_closed` where the peer sent a
    /// close frame of its own accord.
    pub(super) fn count_end(&mut self, ending: Ending, is_closed: bool) {
        match ending {
            Ending::Drain => self.count_close(CloseCode::GOING_AWAY),
            Ending::Idle => self.count_close(CloseCode::NORMAL),
            // The lease of a message.
            Ending::Lease => self.count_close(CloseCode::PROTOCOL),
            Ending::Peer if is_closed => self.counters.closed_by_peer += 1,
            Ending::Peer | Ending::Failure => self.counters.closed_abnormally += 1,
            // Broken off, which was counted then, and by the link where the peer did not read.
            Ending::Fault | Ending::Refusal => {}
        }
    }

    /// Counts how a connection was closed.
    pub(super) fn count_close(&mut self, code: CloseCode) {
        let counters = &mut self.counters;
        *match code {
            CloseCode::NORMAL => &mut counters.closed_normal,
            CloseCode::GOING_AWAY => &mut counters.closed_going_away,
            CloseCode::UNSUPPORTED => &mut counters.closed_unsupported,
            CloseCode::INVALID => &mut counters.closed_invalid,
            CloseCode::POLICY => &mut counters.closed_policy,
            CloseCode::TOO_BIG => &mut counters.closed_too_big,
            CloseCode::INTERNAL => &mut counters.closed_internal,
            _ => &mut counters.closed_protocol,
        } += 1;
    }
}

/// Bytes of an inflated message that are kept for the next one.
const INFLATED_BYTES_KEPT_MAX: usize = 256 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_utf8_gets_the_code_that_is_configured_and_nothing_else_does() {
        let mut options = Options::default();
        assert_eq!(Rules::of(&options).judge(Fault::NOT_UTF8).code, CloseCode::INVALID);
        options.websocket.utf8_close_code = Utf8CloseCode::ProtocolError;
        let rules = Rules::of(&options);
        for fault in Fault::ALL {
            let is_utf8 = fault == Fault::NOT_UTF8 || fault == Fault::BAD_REASON;
            let code = if is_utf8 { CloseCode::PROTOCOL } else { fault.code };
            assert_eq!(rules.judge(fault), Fault { code, ..fault });
        }
    }

    #[test]
    fn every_code_that_is_said_is_counted_by_itself() {
        let rules = Rules::of(&Options::default());
        let mut websockets = WebSockets::new(rules, Accepts::default());
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
            closed_protocol: 1,
            closed_unsupported: 1,
            closed_invalid: 1,
            closed_policy: 1,
            closed_too_big: 1,
            closed_internal: 1,
            ..Counters::default()
        };
        assert_eq!(counters, expected);
    }
}
