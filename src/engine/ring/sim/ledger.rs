//! What is out and must come back: the books of a simulated ring.

/// Counts of one ring, or of all rings of a world together. Everything under "now" is zero once a
/// driver has drained.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Ledger {
    /// Now: receive buffers in leases, told or about to be told.
    pub leases_out: usize,
    /// Now: sends whose buffer has not been handed back.
    pub sends_in_flight: usize,
    /// Now: sockets that were told of and not told closed.
    pub sockets_open: usize,
    /// Now: connections that are being opened.
    pub connects_in_flight: usize,
    /// Ever: connections accepted.
    pub accepted: u64,
    /// Ever: accepts that failed.
    pub accepts_failed: u64,
    /// Ever: bytes received.
    pub bytes_received: u64,
    /// Ever: bytes that the kernel took from sends.
    pub bytes_sent: u64,
    /// Ever: times that bytes waited for a buffer.
    pub starved: u64,
}

impl Ledger {
    /// Whether nothing is out: no lease, no send, no socket, no attempt.
    pub const fn is_settled(&self) -> bool {
        self.leases_out == 0
            && self.sends_in_flight == 0
            && self.sockets_open == 0
            && self.connects_in_flight == 0
    }

    /// Both together.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            leases_out: self.leases_out + other.leases_out,
            sends_in_flight: self.sends_in_flight + other.sends_in_flight,
            sockets_open: self.sockets_open + other.sockets_open,
            connects_in_flight: self.connects_in_flight + other.connects_in_flight,
            accepted: self.accepted + other.accepted,
            accepts_failed: self.accepts_failed + other.accepts_failed,
            bytes_received: self.bytes_received + other.bytes_received,
            bytes_sent: self.bytes_sent + other.bytes_sent,
            starved: self.starved + other.starved,
        }
    }
}
