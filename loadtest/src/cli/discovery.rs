//! Completion of a plan by what the server offers.

use corelane_load::discovery::{DiscoveryError, discover};
use corelane_load::plan::Plan;

use super::{CliError, print_stderr};

/// Returns the plan with what it leaves to be found out, and prints what was chosen. A server that
/// is unreachable, or ends, leaves the plan as it is: the run reports it.
pub(super) fn complete_plan(plan: &Plan, is_quiet: bool) -> Result<Plan, CliError> {
    let found = match discover(plan, &plan.run_config()?) {
        Err(DiscoveryError::Unreachable(_) | DiscoveryError::Program(_)) => {
            return Ok(plan.clone());
        }
        found => found.map_err(|error| format!("{}: {error}", plan.target))?,
    };
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
