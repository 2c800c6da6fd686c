//! Why there is no such catalog: what cannot be offered, by name and with the remedy.

use std::borrow::Cow;
use std::fmt;

/// Why a catalog could not be built or changed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum CatalogError {
    /// Two entries of one list are called the same.
    Duplicate {
        /// What they are: tools, prompts, resources or templates.
        kind: &'static str,
        /// What both are called.
        name: Box<str>,
    },
    /// Pages of nothing would never end.
    EmptyPages,
    /// The server that would take the change has none to give: it is ending, or it was started
    /// with a catalog for good.
    Fixed,
    /// An entry that clients could not use.
    Unfit {
        /// What it is.
        kind: &'static str,
        /// What it is called, as it was given.
        name: Box<str>,
        /// What is wrong, as the end of a sentence about it.
        problem: Cow<'static, str>,
    },
}

impl fmt::Display for CatalogError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Duplicate { kind, name } => {
                write!(formatter, "two {kind}s are called `{name}`; names must be unique")
            }
            Self::EmptyPages => formatter.write_str("page_length_max is 0; it must be at least 1"),
            Self::Fixed => formatter.write_str("the catalog of this server cannot be changed"),
            Self::Unfit { kind, name, problem } => {
                write!(formatter, "{kind} `{name}`: {problem}")
            }
        }
    }
}

impl std::error::Error for CatalogError {}
