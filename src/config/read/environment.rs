//! Reads options from environment variables. No other module reads the environment.
//!
//! Invariants: only names that begin with `CORELANE_` are read. An empty variable counts as unset,
//! because container files write it so. An unknown one is a warning and no error: a cluster may
//! define `CORELANE_PORT` and the like for a service of that name.

use std::ffi::OsString;

use crate::config::issue::{ConfigIssue, Diagnostic, Source};
use crate::config::read::raw_value::Assignment;
use crate::config::suggest::nearest;
use crate::config::table::{self, Row};

/// Prefix of all variables.
pub const PREFIX: &str = "CORELANE_";

/// Variable that names the configuration file, as `--config` does.
pub const FILE_VARIABLE: &str = "CORELANE_CONFIG";

/// Returns the variables of this process that begin with [`PREFIX`] and are not empty, sorted by
/// name.
pub fn variables() -> Vec<(String, OsString)> {
    #[expect(clippy::disallowed_methods, reason = "this module alone reads the environment")]
    let all = std::env::vars_os();
    let mut prefixed: Vec<_> = all
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty())
        .collect();
    prefixed.sort_unstable();
    prefixed
}

/// Returns the assignments of `variables`; errors and warnings are appended.
pub fn read(
    variables: &[(String, OsString)],
    problems: &mut Vec<ConfigIssue>,
    warnings: &mut Vec<ConfigIssue>,
) -> Vec<Assignment> {
    let mut assignments = Vec::new();
    for (name, value) in variables {
        let source = Source::Environment { variable: name.clone() };
        match (table::rows().find(|row| row.variable() == *name), value.to_str()) {
            (Some(row), Some(text)) => {
                assignments.push(Assignment { row, text: text.to_owned(), source });
            }
            (Some(row), None) => {
                let diagnostic = Diagnostic::new("the value is not UTF-8", row.unit.notation());
                problems.push(ConfigIssue::new(source, row.key, diagnostic));
            }
            (None, _) if name == FILE_VARIABLE => {}
            (None, _) => warnings.push(ConfigIssue::new(source, "", unknown_variable(name))),
        }
    }
    assignments
}

fn unknown_variable(name: &str) -> Diagnostic {
    let names: Vec<String> = table::rows().map(Row::variable).collect();
    let hint = match nearest(name, names.iter().map(String::as_str)) {
        Some(known) => format!("did you mean {known}?"),
        None => "unset it, or see `corelane serve --help`".to_owned(),
    };
    Diagnostic::new("no option has this variable; it is ignored", hint)
}
