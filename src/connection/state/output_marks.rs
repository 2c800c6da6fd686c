//! What is left to do with the output that was buffered in this turn, and how its messages are
//! compressed.

/// Marks of a connection for the flush at the end of the turn, and the window of the compressor of
/// its messages, in one byte.
#[derive(Debug, Default)]
pub(super) struct OutputMarks(u8);

/// The flush is scheduled.
const SCHEDULED: u8 = 1;
/// There is output to account.
const UNACCOUNTED: u8 = 2;
/// The bits of the window, 9 to 15, are those from this one on.
const WINDOW_SHIFT: u32 = 4;

impl OutputMarks {
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

    /// Removes the marks of the flush. Returns whether there is output to account.
    #[inline]
    pub(super) const fn start(&mut self) -> bool {
        let is_unaccounted = self.0 & UNACCOUNTED != 0;
        self.0 &= !(SCHEDULED | UNACCOUNTED);
        is_unaccounted
    }

    /// Sets the window of the compressor of messages: 0 for none, or 9 to 15 bits.
    pub(super) const fn set_window_bits(&mut self, bits: u8) {
        self.0 = self.0 & (SCHEDULED | UNACCOUNTED) | bits << WINDOW_SHIFT;
    }

    /// Returns the window of the compressor of messages; 0 if they are not compressed.
    #[inline]
    pub(super) const fn window_bits(&self) -> u8 {
        self.0 >> WINDOW_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flush_keeps_window_of_compressor() {
        let mut marks = OutputMarks::default();
        marks.set_window_bits(15);
        assert!(marks.schedule() && !marks.schedule());
        marks.add_unaccounted_output();
        assert!(marks.start() && !marks.start());
        assert_eq!(marks.window_bits(), 15);
        marks.schedule();
        marks.set_window_bits(9);
        assert!(!marks.schedule());
        assert_eq!(marks.window_bits(), 9);
    }
}
