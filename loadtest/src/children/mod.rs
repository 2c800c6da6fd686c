//! Programs started for a run and ended with it: stdio servers.
//!
//! ```text
//!  load thread ── start, stop ──▶ pool thread ─▶ child processes
//!              ◀─ events, waker ─      │  reads their standard error, waits for their exit
//!  load thread ◀═ pipes to their standard input and output, over its own ring
//! ```
//!
//! Invariants: a child has its own pipes, which no other child inherits. Its standard error is
//! drained, so that writing to it never blocks. A child is stopped in the order of MCP 2026-07-28
//! and 2025-11-25, basic/transports/stdio: its input is closed, after [`EXIT_TIMEOUT`] it receives
//! `SIGTERM`, after another `EXIT_TIMEOUT` `SIGKILL`, and so do its descendants. No child outlives
//! its [`ProcessPool`].
//!
//! If this process is killed, the children read the end of their standard input, and the supervisor
//! of the command line ends them.

mod descendants;
mod stderr_tail;

mod child;
mod pool;

use std::os::fd::OwnedFd;
use std::time::Duration;

pub use self::descendants::end_descendants;
pub use self::pool::ProcessPool;
pub(crate) use self::stderr_tail::StderrTail;

/// Time a child has to exit after its input is closed, and again after `SIGTERM`.
pub const EXIT_TIMEOUT: Duration = Duration::from_secs(2);

/// Command line and standard error handling of a program.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Program {
    /// Program, looked up in `PATH`, and its arguments.
    pub command: Vec<String>,
    /// Destination of its standard error.
    pub stderr: StderrMode,
}

/// Destination of the standard error of a child.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum StderrMode {
    /// Read by this process; the last lines are part of the error if the child fails.
    #[default]
    #[serde(rename = "keep")]
    Capture,
    /// Standard error of this process.
    Inherit,
}

/// Event of a child.
#[derive(Debug)]
pub enum ChildEvent {
    /// The child is running.
    Started {
        /// Number that was passed to [`ProcessPool::start`].
        connection: u32,
        /// Write end of its standard input.
        stdin: OwnedFd,
        /// Read end of its standard output.
        stdout: OwnedFd,
    },
    /// The child could not be started.
    Failed {
        /// Number that was passed to [`ProcessPool::start`].
        connection: u32,
        /// Error, with the name of the program.
        message: String,
    },
    /// The child exited after [`ProcessPool::stop`].
    Exited {
        /// Number that was passed to [`ProcessPool::start`].
        connection: u32,
        /// Exit status and last lines of standard error.
        message: String,
    },
}
