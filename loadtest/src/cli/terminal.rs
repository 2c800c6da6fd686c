//! The terminal of standard error: its width, its abilities, and a line that is replaced.

use std::io::{self, IsTerminal, Write};

use corelane_load::report::progress;
use corelane_load::result::SecondResult;

/// Columns if the terminal does not report its size.
const COLUMNS: usize = 80;
/// Moves to the first column and erases the line.
const ERASE_LINE: &str = "\r\x1b[K";

/// Returns whether standard error is a terminal that understands escape sequences.
pub(super) fn is_capable() -> bool {
    io::stderr().is_terminal() && !has_variable("TERM", |term| term == "dumb")
}

/// Returns whether an environment variable has such a value.
#[expect(clippy::disallowed_methods, reason = "standard variables of terminal programs")]
pub(super) fn has_variable(name: &str, what: impl FnOnce(&std::ffi::OsStr) -> bool) -> bool {
    std::env::var_os(name).is_some_and(|value| what(&value))
}

/// Returns the current columns of the terminal.
pub(super) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.map_or(COLUMNS, |size| if size.ws_col == 0 { COLUMNS } else { size.ws_col.into() })
}

/// A line that shows the last second of a run, and disappears with it. Only on a terminal.
#[derive(Debug)]
pub(super) struct LiveLine {
    is_shown: bool,
}

impl LiveLine {
    /// Creates the line, which stays empty if `is_quiet`.
    pub(super) fn new(is_quiet: bool) -> Self {
        Self { is_shown: !is_quiet && is_capable() }
    }

    /// Shows a second.
    pub(super) fn show(&self, second: &SecondResult) {
        if self.is_shown {
            let line = progress::format_line(second);
            let line: String = line.chars().take(columns().saturating_sub(1)).collect();
            self.write(&format!("{ERASE_LINE}{line}"));
        }
    }

    fn write(&self, text: &str) {
        if self.is_shown {
            // A closed standard error does not end the run.
            io::stderr().write_all(text.as_bytes()).unwrap_or(());
        }
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.write(ERASE_LINE);
    }
}
