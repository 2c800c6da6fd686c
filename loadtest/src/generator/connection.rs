//! One connection of the load generator.
//!
//! Memory of an idle connection: the [`Connection`] with its request log (about 190 bytes), a
//! reader (about 280 bytes over HTTP, 50 over WebSocket), the ring's entry of its socket, and 8
//! bytes in lists of its load thread. TLS adds a stream of about 1,250 bytes and the keys held by
//! rustls. Buffers are allocated only while data is in transit.

use corelane_base::time::Instant;
use corelane_engine::ring::Socket;
use corelane_engine::stream::Sending;

use super::slow_reader::SlowReader;
use crate::figure;
use crate::mcp::{Closing, EventStream, Handshake, RequestLog, Subscriber};
use crate::schedule::ReconnectReason;
use crate::wire::PartialMessage;

/// State of a connection.
#[derive(Debug)]
pub(super) enum ConnectionState {
    /// No socket; connects again at `until` or later.
    Disconnected { retry_at: Instant },
    /// The kernel is connecting.
    Connecting,
    /// The handshake is in progress.
    Handshake(Box<Handshake>),
    /// Open for requests. Nearly all connections are in this state, so the request log is stored
    /// inline: a box would cost a further cache miss for every response.
    Open(RequestLog),
    /// Open and reading slowly; not used for scheduled requests.
    SlowReader(Box<SlowReader>),
    /// Receiving the event stream of a session.
    EventStream(Box<EventStream>),
    /// Waiting for the server to confirm the close.
    GracefulClose(Box<Closing>),
    /// Subscribed, or subscribing.
    Subscribed(Box<Subscriber>),
    /// The kernel is closing the sockets.
    Closing,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Ending {
    /// As planned, or it is open.
    Planned,
    /// Unexpectedly.
    Lost,
    /// The server closed it between requests; it is opened again at once.
    Expired,
    /// Its user left; it is opened again at once for the next one.
    Left,
}

/// Replacement of a connection in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replacement {
    /// When the replacement was due.
    pub(super) intended: Instant,
    pub(super) reason: ReconnectReason,
    /// When it was last asked to close.
    pub(super) closing_since: Instant,
}

/// One connection: three cache lines, none shared with another connection.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Connection {
    pub(super) state: ConnectionState,
    /// Socket to read from, while it is open.
    pub(super) read_socket: Option<Socket>,
    /// Socket to write to: the same one over a network, another one over pipes.
    pub(super) write_socket: Option<Socket>,
    /// Data to send at the end of the turn, or when the send in progress completes. Allocated only
    /// while it is not empty.
    pub(super) send_buffer: Vec<u8>,
    /// The send in progress.
    pub(super) sending: Sending,
    /// Whether it is in the flush queue.
    pub(super) is_flush_queued: bool,
    /// Whether it is in the queue of available connections, or, as an event stream, waits to be
    /// opened.
    pub(super) is_queued: bool,
    /// Whether it closes once it has no request in flight: the server announced the close, or it is
    /// being replaced.
    pub(super) is_draining: bool,
    /// Start of the last connect.
    pub(super) connect_started: Instant,
    /// Replacement in progress, until it is open again.
    pub(super) replacement: Option<Box<Replacement>>,
    /// How it ended last.
    pub(super) ending: Ending,
}

impl Connection {
    pub(super) const fn new() -> Self {
        Self {
            state: ConnectionState::Disconnected { retry_at: Instant::ORIGIN },
            read_socket: None,
            write_socket: None,
            send_buffer: Vec::new(),
            sending: Sending::of(0),
            is_flush_queued: false,
            is_queued: false,
            is_draining: false,
            connect_started: Instant::ORIGIN,
            replacement: None,
            ending: Ending::Planned,
        }
    }

    /// Describes how much of an answer has arrived, if a part of it has.
    pub(super) fn closed_inside_message(&self) -> Option<String> {
        let ConnectionState::Open(log) = &self.state else { return None };
        let PartialMessage { of, received, length } = log.partial_message()?;
        let received = figure::count(received);
        Some(match length {
            Some(length) => {
                format!("closed after {received} of {} bytes of {of}", figure::count(length))
            }
            None => format!("closed after {received} bytes of {of}, which has not ended"),
        })
    }

    /// Returns whether it has a request in flight.
    pub(super) fn has_in_flight(&self) -> bool {
        match &self.state {
            ConnectionState::Open(log) => log.in_flight() > 0,
            ConnectionState::SlowReader(reader) => reader.in_flight() > 0,
            _ => false,
        }
    }

    /// Returns the session id, over HTTP.
    pub(super) fn session(&self) -> Option<&str> {
        match &self.state {
            ConnectionState::Open(log) => log.session(),
            _ => None,
        }
    }

    /// Returns whether its user leaves.
    pub(super) fn is_left(&self) -> bool {
        let replacement = self.replacement.as_ref();
        replacement.is_some_and(|replacement| replacement.reason == ReconnectReason::Leave)
    }

    /// Returns whether another request may be sent over it.
    #[inline]
    pub(super) fn has_capacity(&self, depth: usize) -> bool {
        match &self.state {
            ConnectionState::Open(log) => !self.is_draining && log.in_flight() < depth,
            _ => false,
        }
    }
}

impl Default for Connection {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use corelane_tls::TlsFilter;

    use super::*;

    #[test]
    fn connection_memory_stays_within_documented_size() {
        let sizes = (size_of::<Connection>(), size_of::<TlsFilter>());
        assert!(sizes.0 <= 192 && sizes.1 <= 1_150, "{sizes:?}");
    }
}
