//! From the file, the environment and flags to valid options: assignments are read, and applied by
//! [`apply`], or every error is reported.
//!
//! Invariants: later assignments take precedence; overridden values are validated, too.

pub mod raw_value;

#[cfg(feature = "cli")]
pub mod open_telemetry;

#[cfg(feature = "cli")]
pub mod environment;
#[cfg(feature = "cli")]
pub mod file;

#[cfg(feature = "cli")]
pub mod load;

use crate::config::issue::{ConfigErrors, ConfigIssue, Source};
use crate::config::options::Options;
use crate::config::read::raw_value::Assignment;
use crate::config::rules;

/// Options that satisfy all rules, and where each of them was set.
pub(super) type Applied = (Options, Vec<(&'static str, Source)>);

/// Applies `assignments`, in ascending precedence, to the defaults of their profile. `problems` are
/// those of reading them.
///
/// # Errors
///
/// A value is invalid, or options contradict each other; all errors are returned.
pub(super) fn apply(
    assignments: Vec<Assignment>,
    mut problems: Vec<ConfigIssue>,
) -> Result<Applied, ConfigErrors> {
    let mut options = profile_defaults(&assignments);
    let mut sources = Vec::new();
    for Assignment { row, text, source } in assignments {
        match row.set_value(&mut options, &text) {
            Ok(()) => sources.push((row.key, source)),
            Err(diagnostic) => problems.push(ConfigIssue::new(source, row.key, diagnostic)),
        }
    }
    // A rule about an invalid option would report a value that was not set. If the file could not
    // be parsed, any option may have been set in it.
    let is_file_invalid = problems.iter().any(|problem| problem.key.is_empty());
    for rule in rules::RULES.iter().filter(|_| !is_file_invalid) {
        let is_valid = |key: &&str| problems.iter().all(|problem| problem.key != **key);
        if let (true, Some(diagnostic)) = (rule.keys.iter().all(is_valid), (rule.check)(&options)) {
            let key = rule.keys[0];
            let source = source_of(&sources, key).clone();
            problems.push(ConfigIssue::new(source, key, diagnostic));
        }
    }
    problems.sort_by(|one, other| one.source.cmp(&other.source));
    if problems.is_empty() { Ok((options, sources)) } else { Err(ConfigErrors(problems)) }
}

/// Returns where the option with this key was set.
pub(super) fn source_of<'a>(sources: &'a [(&'static str, Source)], key: &str) -> &'a Source {
    let set = sources.iter().rev().find(|(known, _)| *known == key);
    set.map_or(&Source::Default, |(_, source)| source)
}

/// Returns the defaults of the `profile` with the highest precedence.
fn profile_defaults(assignments: &[Assignment]) -> Options {
    let mut options = Options::default();
    for Assignment { row, text, .. } in assignments.iter().filter(|it| it.row.key == PROFILE) {
        // An invalid text changes nothing here; `apply` reports it.
        row.set_value(&mut options, text).ok();
    }
    Options::for_profile(options.profile)
}

/// Key of the option that selects the defaults.
const PROFILE: &str = "profile";
