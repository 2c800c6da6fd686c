//! The program itself, as its users start it.

use std::process::Command;

/// What came of a command.
pub(crate) struct Ended {
    /// Its status.
    pub(crate) status: i32,
    /// What it printed.
    pub(crate) out: String,
    /// What it said on standard error.
    pub(crate) said: String,
}

/// Runs the program to its end.
pub(crate) fn load<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Ended {
    let output =
        Command::new(env!("CARGO_BIN_EXE_corelane-load")).args(arguments).output().unwrap();
    Ended {
        status: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        said: String::from_utf8(output.stderr).unwrap(),
    }
}
