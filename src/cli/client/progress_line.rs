//! The progress of a call, as one line of a terminal that is overwritten.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use corelane_client::Progress;

use super::text;

/// Characters of the bar.
const BAR_WIDTH: usize = 20;
/// Longest line, below the width of the usual terminal.
const LINE_WIDTH: usize = 79;

/// The line on standard error.
#[derive(Debug, Default)]
pub(crate) struct ProgressLine {
    is_shown: AtomicBool,
}

impl ProgressLine {
    /// Returns whether progress can be shown.
    pub(crate) fn is_supported() -> bool {
        io::stderr().is_terminal()
    }

    /// Replaces the line. Write errors are ignored.
    pub(crate) fn show(&self, progress: &Progress) {
        self.is_shown.store(true, Ordering::Relaxed);
        let mut out = io::stderr().lock();
        write!(out, "\r\x1b[K{}", format_progress(progress)).and_then(|()| out.flush()).ok();
    }

    /// Removes the line, if there is one.
    pub(crate) fn clear(&self) {
        if self.is_shown.swap(false, Ordering::Relaxed) {
            let mut out = io::stderr().lock();
            write!(out, "\r\x1b[K").and_then(|()| out.flush()).ok();
        }
    }
}

fn format_progress(progress: &Progress) -> String {
    let message = progress.message.as_deref().unwrap_or_default();
    let amount = progress.progress;
    let line = match progress.total.filter(|total| *total > 0.0) {
        Some(total) => {
            let share = (amount / total).clamp(0.0, 1.0);
            let cells = (1..=BAR_WIDTH).map(|cell| cells_done(share, cell));
            let bar: String = cells.collect();
            format!("[{bar}] {:.0} % ({amount}/{total}) {message}", share * 100.0)
        }
        None => format!("{amount} {message}"),
    };
    text::clip(&line, LINE_WIDTH)
}

/// Returns the character of a cell of the bar, counted from 1.
fn cells_done(share: f64, cell: usize) -> char {
    #[expect(clippy::cast_precision_loss, reason = "a few cells")]
    let end = cell as f64 / BAR_WIDTH as f64;
    if end <= share { '#' } else { '-' }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(progress: f64, total: Option<f64>, message: Option<&str>) -> String {
        let mut shown = Progress::default();
        (shown.progress, shown.total) = (progress, total);
        shown.message = message.map(str::to_owned);
        format_progress(&shown)
    }

    #[test]
    fn bar_shows_share_of_total() {
        let half = progress(5.0, Some(10.0), Some("half\x1b"));
        assert_eq!(half, "[##########----------] 50 % (5/10) half");
        assert!(progress(20.0, Some(10.0), None).starts_with("[####################] 100 %"));
        assert_eq!(progress(3.0, None, Some("steps")), "3 steps");
        assert_eq!(progress(3.0, Some(0.0), None), "3");
    }

    #[test]
    fn long_message_is_clipped() {
        assert_eq!(progress(1.0, None, Some(&"x".repeat(200))).chars().count(), LINE_WIDTH);
    }
}
