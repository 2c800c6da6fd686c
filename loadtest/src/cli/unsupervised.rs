//! Systems that cannot supervise: processes are ended only by the command itself.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Role of this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    /// Started by the user.
    Command,
    /// Never taken.
    Supervisor,
    /// Never taken.
    End,
    /// Never taken.
    Start,
}

impl Role {
    /// Returns the role of every process.
    pub(super) const fn take(_name: Option<&OsString>) -> io::Result<Self> {
        Ok(Self::Command)
    }

    /// Fails.
    pub(super) fn supervise(self, _arguments: &[OsString]) -> io::Result<ExitCode> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Returns `false`: what is ignored is not known.
pub(super) const fn is_ignored(_signal: i32) -> bool {
    false
}

/// Returns the command that starts `program` with its arguments.
pub(super) fn server_command(
    (program, arguments): (&str, &[String]),
    _processes_file: Option<&Path>,
) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Returns whether this system can supervise.
pub(super) const fn is_available() -> bool {
    false
}
