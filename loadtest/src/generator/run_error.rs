//! Why a run produced no measurements.

use std::io;

/// Error of a run that produced no measurements.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A load thread or its ring could not be created.
    #[error("the load generator could not start: {0}")]
    Start(#[from] io::Error),
    /// No connection opened.
    #[error("no connection could be opened: {0}")]
    Unreachable(String),
    /// More connections than file descriptors, without `io_uring`.
    #[error(
        "{connections} connections exceed the limit of {open_files_max} open files (without \
         io_uring each connection needs one): raise the limit (ulimit -n), enable io_uring, or use \
         at most {connections_max} connections"
    )]
    TooManyConnections {
        /// Configured connections.
        connections: u32,
        /// Limit of open files of the process.
        open_files_max: u32,
        /// Highest possible number of connections.
        connections_max: u32,
    },
    /// Connections opened, but the server accepted no subscription.
    #[error("no subscription stream could be opened: {0}; subscribe to something it supports")]
    NoSubscription(String),
    /// The stdio server did not start.
    #[error("the program did not come up: {0}; correct the command")]
    ProgramFailed(String),
    /// A user got no access token.
    #[error("{0}")]
    SignIn(String),
    /// The run was stopped before the first request.
    #[error("stopped before the first request")]
    Stopped,
    /// A load thread panicked or ended early.
    #[error("a load thread has failed unexpectedly")]
    ThreadFailed,
}
