//! Servers that install.sh installs.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::file_path;

/// Returns a path in the folder that install.sh fills.
pub(crate) fn installed(path: &str) -> PathBuf {
    file_path("other_servers").join(path)
}

/// Returns the path of a file beside this one.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/load/other_servers").join(name)
}

pub(crate) fn python(name: &str, port: u16) -> Command {
    let mut command = Command::new(installed("python/bin/python"));
    command.arg(script(name)).arg(port.to_string());
    command
}

pub(crate) fn everything() -> PathBuf {
    installed("node/node_modules/@modelcontextprotocol/server-everything/dist/index.js")
}
