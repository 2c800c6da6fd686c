//! The phases of a connection's life, and why it closes.

/// Why a connection is closed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CloseReason {
    /// The server is draining.
    Drain,
    /// The socket failed: reset or unreachable.
    SocketError,
    /// The peer violated the protocol, exceeded a limit or did not read.
    ProtocolViolation,
    /// The memory limit was reached.
    MemoryLimit,
    /// The idle timeout expired.
    IdleTimeout,
    /// No complete message arrived in time.
    MessageTimeout,
    /// The peer closed the connection.
    PeerClosed,
    /// The credential of the peer is valid no more.
    InvalidCredential,
    /// The connection limit was reached; the connection was never served.
    Refused,
}

impl CloseReason {
    /// Returns the word for it in the log.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Drain => "draining",
            Self::SocketError => "socket_error",
            Self::ProtocolViolation => "protocol_violation",
            Self::MemoryLimit => "memory_limit",
            Self::IdleTimeout => "idle_timeout",
            Self::MessageTimeout => "message_timeout",
            Self::PeerClosed => "peer",
            Self::InvalidCredential => "invalid_credential",
            Self::Refused => "refused",
        }
    }

    /// Returns whether the peer has only the linger timeout for its last responses.
    pub(in crate::connection) const fn limits_draining(self) -> bool {
        matches!(self, Self::ProtocolViolation | Self::MemoryLimit | Self::InvalidCredential)
    }
}

/// Phase of a connection's life, in order.
#[derive(Clone, Copy, Debug, Eq, PartialEq, PartialOrd)]
pub enum Phase {
    /// Reading and writing.
    Open,
    /// Not reading; closes when all pending responses are sent.
    Draining,
    /// A close frame is queued: not reading, no further output.
    CloseFrameQueued,
    /// The sending side is shut down; further input is discarded.
    Lingering,
    /// Close was submitted to the ring.
    Closing,
}

/// The phase of a connection, its close reason, and whether it is established.
///
/// Invariant: a connection only enters later phases.
#[derive(Debug)]
pub struct CloseState {
    phase: Phase,
    close_reason: Option<CloseReason>,
    has_received_invalid: bool,
}

impl CloseState {
    /// Creates the state of an open connection.
    pub const fn new() -> Self {
        Self { phase: Phase::Open, close_reason: None, has_received_invalid: false }
    }

    #[inline]
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    #[inline]
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Returns whether output is accepted: no close frame is queued and the sending side is open.
    pub const fn accepts_output(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Draining)
    }

    /// Enters a later phase.
    pub fn enter(&mut self, phase: Phase) {
        debug_assert!(self.phase < phase, "{phase:?} after {:?}", self.phase);
        self.phase = phase;
    }

    /// Returns whether an invalid message has arrived.
    pub const fn has_received_invalid(&self) -> bool {
        self.has_received_invalid
    }

    /// Records an invalid message.
    pub const fn record_invalid(&mut self) {
        self.has_received_invalid = true;
    }

    /// Returns why the connection closes, once known.
    pub const fn close_reason(&self) -> Option<CloseReason> {
        self.close_reason
    }

    /// Sets the close reason unless one is set already.
    pub fn set_close_reason(&mut self, reason: CloseReason) {
        self.close_reason.get_or_insert(reason);
    }

    /// Sets the close reason in place of an earlier one.
    pub const fn override_close_reason(&mut self, reason: CloseReason) {
        self.close_reason = Some(reason);
    }
}
