//! What is left to do with the output that was buffered in this turn.

use std::mem::take;

/// Marks of a connection for the flush at the end of the turn, in one byte.
#[derive(Debug, Default)]
pub(super) struct FlushMarks(u8);

/// The flush is scheduled.
const SCHEDULED: u8 = 1;
/// There is output to account.
const UNACCOUNTED: u8 = 2;

impl FlushMarks {
    /// Marks the flush as scheduled. Returns `false` if it was already.
    #[inline]
    pub(super) const fn schedule(&mut self) -> bool {
        let is_new = self.0 & SCHEDULED == 0;
        self.0 |= SCHEDULED;
        is_new
    }

    /// Marks output that was added outside of the request path, which accounts its own.
    #[inline]
    pub(super) const fn add_unaccounted_output(&mut self) {
        self.0 |= UNACCOUNTED;
    }

    /// Removes the marks. Returns whether there is output to account.
    #[inline]
    pub(super) fn start(&mut self) -> bool {
        take(self).0 & UNACCOUNTED != 0
    }
}
