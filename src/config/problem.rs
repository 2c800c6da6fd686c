//! Where a value came from, and what was wrong with it.
//!
//! What it keeps true: a problem names the file, variable or flag, the line where there is one,
//! the option, what is wrong and what to do. All problems of a configuration travel together, so
//! that one run shows every one of them.

use std::fmt;

/// Where a value came from, from the weakest to the strongest.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Source {
    /// Nobody set it.
    Default,
    /// A line of a file.
    File {
        /// The file, as it was named.
        path: String,
        /// The line, from 1; `None` where the whole file is meant.
        line: Option<usize>,
    },
    /// An environment variable.
    Environment {
        /// Its name.
        variable: String,
    },
    /// A flag of the command line.
    Flag {
        /// Its name, with the dashes.
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

/// Why a text is not a value.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// What is wrong with it.
    pub what: String,
    /// What to do instead.
    pub remedy: String,
}

impl Refusal {
    /// Says what is wrong and what helps.
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what: what.into(), remedy: remedy.into() }
    }
}

/// A refusal with its place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problem {
    /// Where the value came from.
    pub source: Source,
    /// The option's key, or the word that was taken for one; empty where the file itself is meant.
    pub key: String,
    /// What and what to do.
    pub refusal: Refusal,
}

impl Problem {
    /// Puts a refusal in its place.
    pub fn new(source: Source, key: impl Into<String>, refusal: Refusal) -> Self {
        Self { source, key: key.into(), refusal }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { source, key, refusal: Refusal { what, remedy } } = self;
        let colon = if key.is_empty() { "" } else { ": " };
        write!(formatter, "{source}: {key}{colon}{what}; {remedy}")
    }
}

/// Everything that is wrong with a configuration, weakest source first and lines in
/// order. Never empty.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Problems(pub Vec<Problem>);

/// One problem a line.
impl fmt::Display for Problems {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, problem) in self.0.iter().enumerate() {
            let newline = if place == 0 { "" } else { "\n" };
            write!(formatter, "{newline}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_names_place_key_fault_and_remedy() {
        let source = Source::File { path: "corelane.toml".to_owned(), line: Some(7) };
        let refusal = Refusal::new("no such option", "did you mean tcp.connections_max?");
        assert_eq!(
            Problem::new(source, "tcp.conections_max", refusal).to_string(),
            "corelane.toml:7: tcp.conections_max: no such option; \
             did you mean tcp.connections_max?"
        );
    }

    #[test]
    fn a_stronger_source_sorts_after_a_weaker_one() {
        let file = Source::File { path: String::new(), line: None };
        let environment = Source::Environment { variable: String::new() };
        let flag = Source::Flag { flag: String::new() };
        assert!(Source::Default < file && file < environment && environment < flag);
    }
}
