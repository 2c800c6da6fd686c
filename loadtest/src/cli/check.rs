//! `corelane-load check`: what of this machine differs from the profile, and what that costs.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use corelane_load::report::check::paragraphs;
use corelane_load::tuning::{Wish, look, review};

use super::arguments::CheckArguments;
use super::{Failure, MISSED};

/// Runs the command; its status.
pub(super) fn check(arguments: &CheckArguments) -> Result<ExitCode, Failure> {
    let wish = Wish { connections: arguments.connections, sources: arguments.sources.get() };
    let review = review(&look(Path::new("/")), wish);
    let text = if arguments.json {
        serde_json::to_string_pretty(&review)? + "\n"
    } else {
        paragraphs(&review)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if review.is_enough() { ExitCode::SUCCESS } else { ExitCode::from(MISSED) })
}
