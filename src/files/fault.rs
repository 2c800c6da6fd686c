//! Faults of files and folders.
//!
//! A fault names the file, the line if there is one, what is wrong and what to do, in one line. It
//! is logged and not sent to clients.

use std::fmt;
use std::path::{Path, PathBuf};

use super::disk::{Listing, RelativePath};

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

    /// Returns the faults of what a listing of `root` has found unreadable, if it `concerns` the
    /// directory.
    pub(super) fn of_unreadable(
        root: &Path,
        listing: &Listing,
        concerns: impl Fn(&RelativePath) -> bool,
    ) -> Vec<Self> {
        let hint = "it is not offered: make it readable, or remove it";
        let named = listing.unreadable.iter().filter(|(place, _)| concerns(place));
        let mut faults: Vec<Self> = named
            .map(|(place, reason)| {
                Self::new(&root.join(place.as_str()), format!("cannot be read ({reason})"), hint)
            })
            .collect();
        if listing.other_unreadable > 0 {
            let what = format!("has {} more such entries", listing.other_unreadable);
            faults.push(Self::new(root, what, "they are not offered"));
        }
        faults
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
