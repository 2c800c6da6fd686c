//! What is wrong with a declaration.

use std::fmt;

/// A fault of a declaration, without its file: the document adds file, line and column of `key`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Key within the declaration, such as `http.url`; empty for the declaration as a whole.
    pub key: String,
    /// What is wrong, with the value found.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl Problem {
    /// A fault of `key`.
    pub fn new(
        key: impl Into<String>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { key: key.into(), message: message.into(), hint: hint.into() }
    }
}

impl From<Problem> for Vec<Problem> {
    fn from(problem: Problem) -> Self {
        vec![problem]
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, message, hint } = self;
        let colon = if key.is_empty() { "" } else { ": " };
        write!(formatter, "{key}{colon}{message}; {hint}")
    }
}
