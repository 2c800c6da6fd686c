//! Faults of files and folders.
//!
//! A fault names the file, the line if there is one, what is wrong and what to do, in one line. It
//! is logged and not sent to clients.

use std::fmt;
use std::path::{Path, PathBuf};

/// Why a file or folder is not offered, or only in part.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct FileFault {
    /// The file or folder.
    pub path: PathBuf,
    /// Line, from 1; `None` for the file as a whole.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl FileFault {
    /// Creates a fault of `path` as a whole.
    pub(super) fn new(path: &Path, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, message: message.into(), hint: hint.into() }
    }
}

impl fmt::Display for FileFault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, message, hint } = self;
        write!(formatter, "{}", path.display())?;
        if let Some(line) = line {
            write!(formatter, ":{line}")?;
        }
        write!(formatter, ": {message}; {hint}")
    }
}

impl std::error::Error for FileFault {}
