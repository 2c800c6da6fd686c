//! Runs the `corelane-load` binary.

use std::process::Command;

/// Output of a command.
pub(crate) struct CommandOutput {
    /// Exit status.
    pub(crate) status: i32,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
}

/// Runs the program and returns its output.
pub(crate) fn load<'a>(arguments: impl IntoIterator<Item = &'a str>) -> CommandOutput {
    let output =
        Command::new(env!("CARGO_BIN_EXE_corelane-load")).args(arguments).output().unwrap();
    CommandOutput {
        status: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}
