//! Transport of a client: newline-delimited messages, or WebSocket frames.

use std::time::Duration;

use corelane_base::time::Instant;

use super::connection::WebSocketConnection;
use crate::harness::socket::ClientSocket;
use crate::totals::Totals;

#[derive(Debug)]
pub(crate) enum ClientTransport {
    Lines(ClientSocket),
    WebSocket(Box<WebSocketConnection>),
}

/// What may happen to connections at present.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conditions {
    /// Connections may break without cause.
    pub(crate) may_break: bool,
    /// When the drain timeout ends; the server drains and may leave requests unanswered after it.
    pub(crate) drain_end: Option<Instant>,
}

impl Conditions {
    /// Returns whether the server may end a connection by itself.
    pub(crate) const fn may_close(self) -> bool {
        self.may_break || self.drain_end.is_some()
    }
}

impl ClientTransport {
    /// Sends lines, or a part of one.
    pub(crate) fn write(&mut self, lines: &[u8], now: Instant) {
        match self {
            Self::Lines(wire) => wire.write(lines),
            Self::WebSocket(framed) => framed.write(lines, now),
        }
    }

    /// Takes the received lines, or parts of lines.
    ///
    /// # Errors
    ///
    /// The server sent something it must not send.
    pub(crate) fn take_received(
        &mut self,
        now: Instant,
        conditions: Conditions,
    ) -> Result<Vec<u8>, String> {
        match self {
            Self::Lines(wire) => Ok(wire.take_received()),
            Self::WebSocket(framed) => framed.take_received(now, conditions),
        }
    }

    /// Sends what is due by itself.
    pub(crate) fn send_due(&mut self, now: Instant) {
        if let Self::WebSocket(framed) = self {
            framed.send_due(now);
        }
    }

    /// Returns when something is due by itself.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        match self {
            Self::Lines(_) => None,
            Self::WebSocket(framed) => framed.next_due(),
        }
    }

    /// Returns whether the connection has ended.
    ///
    /// # Errors
    ///
    /// It ended although it must not, or the other way round.
    pub(crate) fn has_ended(
        &mut self,
        now: Instant,
        conditions: Conditions,
    ) -> Result<bool, String> {
        match self {
            Self::WebSocket(framed) => framed.has_ended(now, conditions),
            Self::Lines(wire) if !wire.is_reset() && !wire.has_ended() => Ok(false),
            Self::Lines(_) if !conditions.may_close() => {
                Err("the server closed it early".to_owned())
            }
            Self::Lines(wire) => {
                wire.close();
                Ok(true)
            }
        }
    }

    /// Closes the connection; returns `false` if that takes a while.
    pub(crate) fn close(&mut self, now: Instant) -> bool {
        match self {
            Self::Lines(wire) => {
                wire.close();
                true
            }
            Self::WebSocket(framed) => framed.close(now),
        }
    }

    pub(crate) fn reset(&self) {
        self.socket().reset();
    }

    pub(crate) fn stop_reading(&mut self) {
        self.mark_slow();
        self.socket().stop_reading();
    }

    pub(crate) fn read_eagerly(&self) {
        self.socket().read_eagerly();
    }

    pub(crate) fn read_slowly(&mut self, bytes: usize, every: Duration) {
        self.mark_slow();
        self.socket().read_slowly(bytes, every);
    }

    /// Returns counts of its WebSocket events.
    pub(crate) fn totals(&self) -> Totals {
        match self {
            Self::Lines(_) => Totals::default(),
            Self::WebSocket(framed) => framed.totals(),
        }
    }

    /// Describes its state for a failure report.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Lines(wire) => wire.address().to_string(),
            Self::WebSocket(framed) => framed.describe(),
        }
    }

    const fn mark_slow(&mut self) {
        if let Self::WebSocket(framed) = self {
            framed.is_slow = true;
        }
    }

    const fn socket(&self) -> &ClientSocket {
        match self {
            Self::Lines(wire) => wire,
            Self::WebSocket(framed) => &framed.socket,
        }
    }
}
