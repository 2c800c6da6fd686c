//! Help on the kinds of failures.

use corelane_load::metrics::outcome::Failure;

/// Returns the help on kinds of failures.
pub(super) fn failure_help() -> String {
    let kinds = Failure::ALL.map(|failure| (failure.name(), failure.description()));
    let lines = kinds.into_iter().chain([Failure::UNSOLICITED, Failure::LATE]);
    let lines = lines.map(|(name, meaning)| format!("  {name:<11}  {meaning}\n"));
    format!("Failures of requests, as the results count them:\n{}", lines.collect::<String>())
}
