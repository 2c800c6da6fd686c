//! `corelane-load check`: checks this machine for what it is used for now, or for a number of
//! connections.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use corelane_load::report::check::paragraphs;
use corelane_load::tuning::{PlannedLoad, inspect, review};

use super::arguments::CheckArguments;
use super::{CliError, EXIT_FAILED};

/// Runs the command and returns its exit status.
pub(super) fn check(arguments: &CheckArguments) -> Result<ExitCode, CliError> {
    let sources = arguments.sources.get();
    let load = arguments.connections.map(|connections| PlannedLoad { connections, sources });
    let review = review(&inspect(Path::new("/")), load);
    let text = if arguments.json {
        serde_json::to_string_pretty(&review)? + "\n"
    } else {
        paragraphs(&review)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if review.is_sufficient() { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILED) })
}
