//! Why a catalog cannot be built or updated.

use std::borrow::Cow;
use std::fmt;

/// Why a catalog could not be built or updated. `Debug` prints the same text as `Display`, because
/// that is what a `main` that returns the error shows.
#[derive(Clone, Eq, PartialEq)]
#[non_exhaustive]
pub enum CatalogError {
    /// Two entries of one list have the same name, URI or URI template.
    Duplicate {
        /// Kind of the entries: `tool`, `prompt`, `resource` or `resource template`.
        kind: &'static str,
        /// The shared name, URI or URI template.
        name: Box<str>,
    },
    /// The page size is 0.
    ZeroPageSize,
    /// The server cannot update its catalog: it is shutting down, or it was started with a constant
    /// catalog.
    ReadOnly,
    /// An entry that clients could not use.
    InvalidEntry {
        /// Kind of the entry, as in [`CatalogError::Duplicate`].
        kind: &'static str,
        /// Its name, URI or URI template, as given.
        name: Box<str>,
        /// What is wrong, phrased to follow "`kind` `name`: ".
        problem: Cow<'static, str>,
    },
}

impl fmt::Display for CatalogError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { kind, name } => {
                write!(formatter, "two {kind}s are called `{name}`; names must be unique")
            }
            Self::ZeroPageSize => formatter.write_str("page_size is 0; it must be at least 1"),
            Self::ReadOnly => formatter.write_str("the catalog of this server cannot be updated"),
            Self::InvalidEntry { kind, name, problem } => {
                write!(formatter, "{kind} `{name}`: {problem}")
            }
        }
    }
}

impl fmt::Debug for CatalogError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl std::error::Error for CatalogError {}
