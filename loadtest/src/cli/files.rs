//! Files that commands write, and their errors.

use std::fs::File;
use std::io;
use std::path::Path;

use super::CliError;

/// Creates a file.
pub(super) fn create(path: &Path) -> Result<File, CliError> {
    File::create(path).map_err(|error| write_error(path, &error))
}

/// Checks that a file can be written, without changing it.
pub(super) fn check_writable(path: &Path) -> Result<(), CliError> {
    let opened = File::options().create(true).append(true).open(path);
    opened.map(drop).map_err(|error| write_error(path, &error))
}

/// Writes a file.
pub(super) fn write(path: &Path, text: &str) -> Result<(), CliError> {
    std::fs::write(path, text).map_err(|error| write_error(path, &error))
}

pub(super) fn write_error(path: &Path, error: &io::Error) -> CliError {
    format!("cannot write {}: {error}", path.display()).into()
}
