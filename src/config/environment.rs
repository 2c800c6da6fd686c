//! The one place that reads the environment.
//!
//! What it keeps true: only names that begin with `CORELANE_` are looked at. A variable that is
//! set to nothing counts as not set, as container files write it. An unknown one is a warning and
//! not a problem: a cluster may define `CORELANE_PORT` and the like for a service of that name.

use std::ffi::OsString;

use crate::config::file::Assignment;
use crate::config::problem::{Problem, Refusal, Source};
use crate::config::suggest::nearest;
use crate::config::table::{self, Row};

/// What all names begin with.
pub const PREFIX: &str = "CORELANE_";

/// The variable that names the file, as `--config` does.
pub const FILE_VARIABLE: &str = "CORELANE_CONFIG";

/// The variables of this process that begin with [`PREFIX`], sorted by name.
pub fn variables() -> Vec<(String, OsString)> {
    #[expect(clippy::disallowed_methods, reason = "this is the place that may")]
    let all = std::env::vars_os();
    let mut ours: Vec<_> = all
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
        .filter(|(name, value)| name.starts_with(PREFIX) && !value.is_empty())
        .collect();
    ours.sort_unstable();
    ours
}

/// Turns variables into assignments.
pub fn read(
    variables: &[(String, OsString)],
    problems: &mut Vec<Problem>,
    warnings: &mut Vec<Problem>,
) -> Vec<Assignment> {
    let mut assignments = Vec::new();
    for (name, value) in variables {
        let source = Source::Environment { variable: name.clone() };
        match (table::rows().find(|row| row.variable() == *name), value.to_str()) {
            (Some(row), Some(text)) => {
                assignments.push(Assignment { row, text: text.to_owned(), source });
            }
            (Some(row), None) => {
                let refusal = Refusal::new("its value is not UTF-8", row.unit.shape());
                problems.push(Problem::new(source, row.key, refusal));
            }
            (None, _) if name == FILE_VARIABLE => {}
            (None, _) => warnings.push(Problem::new(source, "", unknown(name))),
        }
    }
    assignments
}

fn unknown(name: &str) -> Refusal {
    let names: Vec<String> = table::rows().map(Row::variable).collect();
    let remedy = match nearest(name, names.iter().map(String::as_str)) {
        Some(known) => format!("did you mean {known}?"),
        None => "unset it, or see `corelane serve --help`".to_owned(),
    };
    Refusal::new("no option has this variable; it is ignored", remedy)
}
