//! What is wrong with a file, for whoever can mend it.
//!
//! What it keeps true: a fault names the file, the line where there is one, what is wrong and what
//! to do, in one line. It goes to the operator's log, never to a client.

use std::fmt;
use std::path::{Path, PathBuf};

/// A file or a folder that is not offered, or not as it should be.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Fault {
    /// The file or folder.
    pub path: PathBuf,
    /// The line, from 1; `None` where the whole file is meant.
    pub line: Option<usize>,
    /// What is wrong.
    pub what: String,
    /// What to do about it.
    pub remedy: String,
}

impl Fault {
    /// A fault of the whole of `path`.
    pub(super) fn new(path: &Path, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, line, what, remedy } = self;
        write!(formatter, "{}", path.display())?;
        if let Some(line) = line {
            write!(formatter, ":{line}")?;
        }
        write!(formatter, ": {what}; {remedy}")
    }
}

impl std::error::Error for Fault {}
