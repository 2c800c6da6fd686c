//! Help on the kinds of failures.

use corelane_load::metrics::outcome::Failure;

/// Returns the help on kinds of failures, of the parity dialect or of MCP.
pub(super) fn failure_help(is_parity: bool) -> String {
    let kinds = Failure::of_dialect(is_parity);
    let kinds = kinds.map(|failure| (failure.name(), failure.description()));
    let lines = kinds.chain([Failure::UNSOLICITED, Failure::LATE]);
    let lines = lines.map(|(name, meaning)| format!("  {name:<11}  {meaning}\n"));
    format!("Failures of requests, as the results count them:\n{}", lines.collect::<String>())
}
