//! The phases of a connection's life: why it closes, whether it is read, and how much of its input
//! is discarded while it closes.

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
    /// It was open for `connection_lifetime`.
    Lifetime,
    /// Another connection got its place at a limit of connections.
    Evicted,
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
            Self::Lifetime => "lifetime",
            Self::Evicted => "evicted",
            Self::Refused => "refused",
        }
    }

    /// Returns whether the peer has only the linger timeout for its last responses.
    pub(in crate::connection) const fn limits_draining(self) -> bool {
        matches!(
            self,
            Self::ProtocolViolation | Self::MemoryLimit | Self::InvalidCredential | Self::Evicted
        )
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

/// Bytes of which [`ReadState`] counts discarded input; a receive counts as one at least.
const DISCARD_UNIT: usize = 1 << 10;

/// Discarded units from which on no more is read: about 256 KiB.
const DISCARDED_UNITS_MAX: u8 = u8::MAX;

/// Why a connection is not read at present.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Pause {
    /// It is read, unless it is suspended.
    #[default]
    None,
    /// Its output exceeds its limit, or its input is held.
    Held,
    /// A request was given back, and is read again first.
    Restored,
}

/// Whether a connection is read, and whether its peer may send more.
#[derive(Debug, Default)]
pub struct ReadState {
    pause: Pause,
    is_suspended: bool,
    has_ended: bool,
    /// Input discarded while the connection closes, in units of [`DISCARD_UNIT`].
    discarded_units: u8,
}

impl ReadState {
    /// Returns whether reading is neither paused nor suspended.
    #[inline]
    pub const fn is_running(&self) -> bool {
        !self.is_paused() && !self.is_suspended
    }

    /// Returns whether reading is stopped until output is sent.
    #[inline]
    pub const fn is_paused(&self) -> bool {
        !matches!(self.pause, Pause::None)
    }

    pub const fn set_paused(&mut self, is_paused: bool) {
        self.pause = if is_paused { Pause::Held } else { Pause::None };
    }

    /// Stops reading until a request that was given back is read again.
    pub const fn pause_restored(&mut self) {
        self.pause = Pause::Restored;
    }

    /// Returns whether a request was given back and is not read again yet.
    pub const fn is_restored(&self) -> bool {
        matches!(self.pause, Pause::Restored)
    }

    /// Returns whether reading is stopped until the request in progress is answered.
    pub const fn is_suspended(&self) -> bool {
        self.is_suspended
    }

    pub const fn set_suspended(&mut self, is_suspended: bool) {
        self.is_suspended = is_suspended;
    }

    /// Returns whether the peer has closed its sending side.
    pub const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Counts input of one receive that was discarded because the connection closes.
    pub fn record_discarded(&mut self, bytes: usize) {
        let units = u8::try_from(bytes.div_ceil(DISCARD_UNIT)).unwrap_or(DISCARDED_UNITS_MAX);
        self.discarded_units = self.discarded_units.saturating_add(units);
    }

    /// Returns whether so much input was discarded that no more is read.
    pub const fn has_discarded_most(&self) -> bool {
        self.discarded_units == DISCARDED_UNITS_MAX
    }

    /// Records that the peer has closed its sending side, or that receiving failed.
    pub const fn end(&mut self) {
        self.has_ended = true;
    }
}
