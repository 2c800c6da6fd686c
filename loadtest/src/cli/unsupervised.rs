//! Systems that cannot supervise: processes are ended only by the command itself.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

/// Role of this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    /// Started by the user.
    Command,
    /// Never taken.
    Supervisor,
    /// Never taken.
    End,
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

/// Returns whether this system can supervise.
pub(super) const fn is_available() -> bool {
    false
}
