//! Whether a connection is read.

/// Whether a connection is read, and whether its peer may send more.
#[derive(Debug, Default)]
pub(in crate::connection) struct ReadState {
    is_paused: bool,
    is_suspended: bool,
    has_ended: bool,
}

impl ReadState {
    /// Returns whether reading is neither paused nor suspended.
    #[inline]
    pub(in crate::connection) const fn is_running(&self) -> bool {
        !self.is_paused && !self.is_suspended
    }

    /// Returns whether reading is stopped until output is sent.
    #[inline]
    pub(in crate::connection) const fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(in crate::connection) const fn set_paused(&mut self, is_paused: bool) {
        self.is_paused = is_paused;
    }

    /// Returns whether reading is stopped until the request in progress is answered.
    pub(in crate::connection) const fn is_suspended(&self) -> bool {
        self.is_suspended
    }

    pub(in crate::connection) const fn set_suspended(&mut self, is_suspended: bool) {
        self.is_suspended = is_suspended;
    }

    /// Returns whether the peer has closed its sending side.
    pub(in crate::connection) const fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Records that the peer has closed its sending side, or that receiving failed.
    pub(in crate::connection) const fn end(&mut self) {
        self.has_ended = true;
    }
}
