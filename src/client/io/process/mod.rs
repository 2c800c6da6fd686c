//! The programs that a client starts: their start, their standard error and their end.

mod stderr_lines;
mod watcher;

mod server_process;

mod start;

pub(super) use self::server_process::{ExitNotifier, ServerProcess};
pub(super) use self::start::{StartedProgram, start};
pub(in crate::client) use self::stderr_lines::StderrCallback;
