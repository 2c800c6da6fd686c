//! Files that commands write, and their errors.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::CliError;

/// Creates a file.
pub(super) fn create(path: &Path) -> Result<File, CliError> {
    File::create(path).map_err(|error| write_error(path, &error))
}

/// Checks that a file can be written, without changing it; one that does not exist is not left
/// behind.
pub(super) fn check_writable(path: &Path) -> Result<(), CliError> {
    let checked = match File::create_new(path) {
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            File::options().append(true).open(path).map(drop)
        }
        Err(error) => Err(error),
    };
    checked.map_err(|error| write_error(path, &error))
}

/// Writes a file.
pub(super) fn write(path: &Path, text: &str) -> Result<(), CliError> {
    std::fs::write(path, text).map_err(|error| write_error(path, &error))
}

pub(super) fn write_error(path: &Path, error: &io::Error) -> CliError {
    format!("cannot write {}: {error}", path.display()).into()
}
