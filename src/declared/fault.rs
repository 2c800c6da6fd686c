//! Faults of a file of declarations, with their place.

use std::fmt;
use std::path::PathBuf;

use crate::declared::problem::Problem;

/// What is wrong in a file, where, and what to do.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Fault {
    /// The file, as it was named.
    pub path: PathBuf,
    /// Line and column, from 1; `None` for the file as a whole.
    pub position: Option<Position>,
    /// The declaration and the key, such as `tool deploy: http.url`; empty if there is none.
    pub subject: String,
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl Fault {
    /// A fault of the file `path` as a whole.
    pub fn of_file(
        path: impl Into<PathBuf>,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        let (message, hint) = (message.into(), hint.into());
        Self { path: path.into(), position: None, subject: String::new(), message, hint }
    }

    /// The fault of `problem`, found in the declaration `owner` (`tool deploy`) of `path`.
    pub fn of_problem(
        path: impl Into<PathBuf>,
        position: Option<Position>,
        owner: &str,
        problem: Problem,
    ) -> Self {
        let Problem { key, message, hint } = problem;
        let separator = if owner.is_empty() || key.is_empty() { "" } else { ": " };
        let subject = format!("{owner}{separator}{key}");
        Self { path: path.into(), position, subject, message, hint }
    }
}

impl From<Fault> for Vec<Fault> {
    fn from(fault: Fault) -> Self {
        vec![fault]
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, position, subject, message, hint } = self;
        write!(formatter, "{}", path.display())?;
        if let Some(Position { line, column }) = position {
            write!(formatter, ":{line}:{column}")?;
        }
        let colon = if subject.is_empty() { "" } else { ": " };
        write!(formatter, ": {subject}{colon}{message}; {hint}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_names_place_subject_and_hint() {
        let problem = Problem::new("http.url", "is empty", "write a URL");
        let position = Some(Position { line: 3, column: 7 });
        let fault = Fault::of_problem("c.toml", position, "tool get", problem);
        assert_eq!(fault.to_string(), "c.toml:3:7: tool get: http.url: is empty; write a URL");
    }
}
