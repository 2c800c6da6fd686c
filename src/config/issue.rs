//! Errors and warnings of the configuration, with their source.
//!
//! Invariants: an issue names its source (file and line, variable or flag), the option, what is
//! wrong and what to do. All errors of a configuration are reported together.

use std::fmt;

pub use crate::server::options::unit::Diagnostic;

/// Where a value was set, in ascending precedence.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Source {
    /// Not set.
    Default,
    /// A line of a file.
    File {
        /// Path of the file, as it was given.
        path: String,
        /// Line, from 1; `None` for the file as a whole.
        line: Option<usize>,
    },
    /// An environment variable.
    Environment {
        /// Name of the variable.
        variable: String,
    },
    /// A flag of the command line.
    Flag {
        /// Name of the flag, with its dashes.
        flag: String,
    },
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File { path, line: Some(line) } => write!(formatter, "{path}:{line}"),
            Self::File { path, line: None } => formatter.write_str(path),
            Self::Environment { variable } => write!(formatter, "environment {variable}"),
            Self::Flag { flag } => write!(formatter, "flag {flag}"),
        }
    }
}

/// A diagnostic with the source and the key of its option.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigIssue {
    /// Where the value was set.
    pub source: Source,
    /// Key of the option, or an unknown key; empty if the issue concerns the file itself.
    pub key: String,
    /// What is wrong and what to do.
    pub diagnostic: Diagnostic,
}

impl ConfigIssue {
    /// Creates an issue of the option `key`.
    pub fn new(source: Source, key: impl Into<String>, diagnostic: Diagnostic) -> Self {
        Self { source, key: key.into(), diagnostic }
    }
}

impl fmt::Display for ConfigIssue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, key, diagnostic: Diagnostic { message, hint } } = self;
        let colon = if key.is_empty() { "" } else { ": " };
        write!(formatter, "{source}: {key}{colon}{message}; {hint}")
    }
}

/// All errors of a configuration, in ascending precedence of their sources, then by line. Never
/// empty.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigErrors(pub Vec<ConfigIssue>);

/// One error per line.
impl fmt::Display for ConfigErrors {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(formatter, "{newline}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn config_issue_names_source_key_and_hint() {
        let source = Source::File { path: "corelane.toml".to_owned(), line: Some(7) };
        let diagnostic = Diagnostic::new("no such option", "did you mean tcp.connections_max?");
        assert_eq!(
            ConfigIssue::new(source, "tcp.conections_max", diagnostic).to_string(),
            "corelane.toml:7: tcp.conections_max: no such option; \
             did you mean tcp.connections_max?"
        );
    }

    #[test]
    fn sources_sort_by_precedence() {
        let file = Source::File { path: String::new(), line: None };
        let environment = Source::Environment { variable: String::new() };
        let flag = Source::Flag { flag: String::new() };
        assert!(Source::Default < file && file < environment && environment < flag);
    }
}
