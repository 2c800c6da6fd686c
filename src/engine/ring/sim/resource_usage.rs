//! Counters of a simulated ring's resources.

/// Resources of one ring, or of all rings of a world. The current counts are zero once a driver has
/// drained.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ResourceUsage {
    /// Current: receive buffers held by the shard or by pending completions.
    pub receive_buffers_held: usize,
    /// Current: sends whose buffer has not been returned.
    pub sends_in_flight: usize,
    /// Current: sockets that were reported and not yet closed.
    pub sockets_open: usize,
    /// Current: connects in progress.
    pub connects_in_flight: usize,
    /// Total: connections accepted.
    pub accepted: u64,
    /// Total: failed accepts.
    pub accepts_failed: u64,
    /// Total: bytes received.
    pub bytes_received: u64,
    /// Total: bytes sent.
    pub bytes_sent: u64,
    /// Total: times that bytes waited for a buffer.
    pub buffer_exhaustions: u64,
}

impl ResourceUsage {
    /// Returns whether all current counts are zero.
    pub const fn is_idle(&self) -> bool {
        self.receive_buffers_held == 0
            && self.sends_in_flight == 0
            && self.sockets_open == 0
            && self.connects_in_flight == 0
    }

    /// Returns the sum of both.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            receive_buffers_held: self.receive_buffers_held + other.receive_buffers_held,
            sends_in_flight: self.sends_in_flight + other.sends_in_flight,
            sockets_open: self.sockets_open + other.sockets_open,
            connects_in_flight: self.connects_in_flight + other.connects_in_flight,
            accepted: self.accepted + other.accepted,
            accepts_failed: self.accepts_failed + other.accepts_failed,
            bytes_received: self.bytes_received + other.bytes_received,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            buffer_exhaustions: self.buffer_exhaustions + other.buffer_exhaustions,
        }
    }
}
