//! Whether a connection is read, and how much of its input is discarded while it closes.

/// Bytes of which [`ReadState`] counts discarded input; a receive counts as one at least.
const DISCARD_UNIT: usize = 1 << 10;

/// Discarded units from which on no more is read: about 256 KiB.
const DISCARDED_UNITS_MAX: u8 = u8::MAX;

/// Whether a connection is read, and whether its peer may send more.
#[derive(Debug, Default)]
pub struct ReadState {
    is_paused: bool,
    is_suspended: bool,
    has_ended: bool,
    /// Input discarded while the connection closes, in units of [`DISCARD_UNIT`].
    discarded_units: u8,
}

impl ReadState {
    /// Returns whether reading is neither paused nor suspended.
    #[inline]
    pub const fn is_running(&self) -> bool {
        !self.is_paused && !self.is_suspended
    }

    /// Returns whether reading is stopped until output is sent.
    #[inline]
    pub const fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub const fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
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
