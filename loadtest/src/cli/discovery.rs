//! Completion of a plan by what the server offers.

use corelane_load::discovery::discover;
use corelane_load::plan::Plan;

use super::{CliError, print_stderr};

/// Returns the plan with what it leaves to be found out, and prints what was chosen.
pub(super) fn complete_plan(plan: &Plan, is_quiet: bool) -> Result<Plan, CliError> {
    let found = discover(plan, &plan.run_config()?);
    let found = found.map_err(|error| format!("{}: {error}", plan.target))?;
    if !is_quiet {
        found.notes.iter().for_each(print_stderr);
    }
    Ok(found.plan)
}

/// Completes the plan of a search by that of its first run.
pub(super) fn complete_trials(plan: &Plan, first: &Plan, is_quiet: bool) -> Result<Plan, CliError> {
    let complete = complete_plan(first, is_quiet)?;
    Ok(Plan { era: complete.era, calls: complete.calls, ..plan.clone() })
}
