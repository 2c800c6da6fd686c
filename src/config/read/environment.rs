//! Reads options from environment variables. No other module reads the environment.
//!
//! Invariants: only names that begin with `CORELANE_`, and those of OpenTelemetry, are read. An
//! empty variable counts as unset, because container files write it so. An unknown one that begins
//! with `CORELANE_` and differs from a known one by up to two characters is an error, as it is
//! misspelled. Any other is a warning: a cluster may define `CORELANE_PORT` and the like for a
//! service of that name.

use std::ffi::OsString;

use crate::config::issue::{ConfigIssue, Diagnostic, Source};
use crate::config::read::open_telemetry;
use crate::config::read::raw_value::Assignment;
use crate::config::table::{self, Row};
use crate::config::unit::nearest;

/// Prefix of all variables.
pub const PREFIX: &str = "CORELANE_";

/// Variable that names the configuration file, as `--config` does.
pub const FILE_VARIABLE: &str = "CORELANE_CONFIG";

/// Returns the variables of this process that begin with [`PREFIX`] or are those of OpenTelemetry,
/// and are not empty, sorted by name.
pub fn variables() -> Vec<(String, OsString)> {
    #[expect(clippy::disallowed_methods, reason = "this module alone reads the environment")]
    let all = std::env::vars_os();
    let mut prefixed: Vec<_> = all
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, _)| name.starts_with(PREFIX) || open_telemetry::has_meaning(name))
        .filter(|(_, value)| !value.is_empty())
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
    for (name, value) in variables.iter().filter(|(name, _)| name.starts_with(PREFIX)) {
        let source = Source::Environment { variable: name.clone() };
        match (table::rows().find(|row| row.has_variable(name)), value.to_str()) {
            (Some(row), Some(text)) => {
                if let Some(other) = other_assignment(&assignments, row, text) {
                    problems.push(ConfigIssue::new(source.clone(), row.key, other));
                }
                assignments.push(Assignment { row, text: text.to_owned(), source });
            }
            (Some(row), None) => {
                let diagnostic = Diagnostic::new("the value is not UTF-8", row.unit.notation());
                problems.push(ConfigIssue::new(source, row.key, diagnostic));
            }
            (None, _) if OTHER_VARIABLES.contains(&name.as_str()) => {}
            (None, _) => match misspelled_variable(name) {
                Some(misspelled) => problems.push(ConfigIssue::new(source, "", misspelled)),
                None => warnings.push(ConfigIssue::new(source, "", unknown_variable(name))),
            },
        }
    }
    assignments
}

/// Returns what is wrong if the other variable of the option has another value.
fn other_assignment(assignments: &[Assignment], row: &Row, text: &str) -> Option<Diagnostic> {
    let mut others = assignments.iter();
    let other = others.find(|other| other.row.key == row.key && other.text != text)?;
    let message = format!("{text} differs from {} of {}", other.text, other.source);
    Some(Diagnostic::new(message, "set one of the two variables"))
}

/// Returns every variable with a meaning.
fn known_variables() -> Vec<String> {
    let of_options = table::rows()
        .flat_map(|row| [Some(row.variable()), row.variable_of_key()].into_iter().flatten());
    of_options.chain(OTHER_VARIABLES.map(str::to_owned)).collect()
}

/// Returns the error of a variable that differs from a known one by up to [`EDITS_MAX`] edits.
fn misspelled_variable(name: &str) -> Option<Diagnostic> {
    let known = known_variables().into_iter();
    let distances = known.map(|it| (strsim::damerau_levenshtein(name, &it), it));
    let (_, known) = distances.filter(|(edits, _)| *edits <= EDITS_MAX).min()?;
    let message = "no option has this variable";
    Some(Diagnostic::new(message, format!("did you mean {known}? Correct or unset it")))
}

fn unknown_variable(name: &str) -> Diagnostic {
    // The prefix, which all have, makes no name similar.
    let names = known_variables();
    let known = names.iter().filter_map(|name| name.strip_prefix(PREFIX));
    let hint = match nearest(name.strip_prefix(PREFIX).unwrap_or(name), known) {
        Some(known) => format!("did you mean {PREFIX}{known}?"),
        None => "unset it, or see `corelane serve --help`".to_owned(),
    };
    Diagnostic::new("no option has this variable; it is ignored", hint)
}

/// Variables that are no options: that of the file, and that of the commands that call a server.
const OTHER_VARIABLES: [&str; 2] = [FILE_VARIABLE, "CORELANE_TOKEN"];

/// Largest edit distance of a misspelled name from the known one (Damerau-Levenshtein).
const EDITS_MAX: usize = 2;
