//! The standard error of a program in the log, which a program that writes without end does not
//! fill.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use corelane_base::time::Instant;
use corelane_engine::clock::Clock;

use super::events::{ProgramCallback, ProgramEvent};
use crate::target::Program;

/// Lines that are logged in a second; further ones are counted.
const LINES_PER_SECOND: u64 = 64;
/// Bytes of a line that are logged.
const LINE_BYTES: usize = 4 << 10;

/// Logs the lines of a program, and its end.
pub(super) fn log_events(program: &Program) -> ProgramCallback {
    let program = program.program.to_string_lossy().into_owned();
    let (clock, limit) = (Clock::start(), LineLimit::default());
    Arc::new(move |event| match event {
        ProgramEvent::Stderr(line) => {
            if let Some(omitted) = limit.admit(clock.now().since(Instant::ORIGIN).as_secs()) {
                log_omitted(&program, omitted);
                let line = &line[..line.floor_char_boundary(LINE_BYTES)];
                tracing::info!(target: "corelane::client::stderr", program, line, "program");
            }
        }
        ProgramEvent::Exited(status) => {
            log_omitted(&program, limit.take_omitted());
            tracing::debug!(program, %status, "a program has ended");
        }
    })
}

fn log_omitted(program: &str, lines: u64) {
    if lines > 0 {
        tracing::info!(target: "corelane::client::stderr", program, lines, "lines are left out");
    }
}

/// Counts the lines of a second, on the thread that reads them.
#[derive(Debug, Default)]
struct LineLimit {
    second: AtomicU64,
    lines: AtomicU64,
    omitted: AtomicU64,
}

impl LineLimit {
    /// Counts a line in `second`. Returns how many were left out before it, or `None` if it is
    /// left out, too.
    fn admit(&self, second: u64) -> Option<u64> {
        if self.second.swap(second, Ordering::Relaxed) != second {
            self.lines.store(0, Ordering::Relaxed);
        }
        if self.lines.fetch_add(1, Ordering::Relaxed) < LINES_PER_SECOND {
            return Some(self.take_omitted());
        }
        self.omitted.fetch_add(1, Ordering::Relaxed);
        None
    }

    fn take_omitted(&self) -> u64 {
        self.omitted.swap(0, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_each_second_are_limited() {
        let limit = LineLimit::default();
        let admitted = |second, lines| (0..lines).filter(|_| limit.admit(second).is_some()).count();
        assert_eq!(admitted(0, 100), 64);
        assert_eq!(limit.admit(1), Some(36));
        assert_eq!(admitted(1, 100), 63);
        assert_eq!(admitted(3, 10), 10);
        assert_eq!(limit.take_omitted(), 0);
        assert_eq!(admitted(4, 65), 64);
        assert_eq!(limit.take_omitted(), 1);
    }
}
