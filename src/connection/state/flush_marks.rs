//! What is left to do with the output that was buffered in this turn.

use std::mem::{replace, take};

/// Marks of a connection for the flush at the end of the turn.
#[derive(Debug, Default)]
pub(super) struct FlushMarks {
    is_scheduled: bool,
    has_unaccounted_output: bool,
}

impl FlushMarks {
    /// Marks the flush as scheduled. Returns `false` if it was already.
    #[inline]
    pub(super) const fn schedule(&mut self) -> bool {
        !replace(&mut self.is_scheduled, true)
    }

    /// Marks output that was added outside of the request path, which accounts its own.
    #[inline]
    pub(super) const fn add_unaccounted_output(&mut self) {
        self.has_unaccounted_output = true;
    }

    /// Removes the marks. Returns whether there is output to account.
    #[inline]
    pub(super) fn start(&mut self) -> bool {
        take(self).has_unaccounted_output
    }
}
