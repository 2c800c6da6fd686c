//! Completion of a plan by what the server offers.

use std::thread;
use std::time::Duration;

use corelane_engine::clock::Clock;
use corelane_load::discovery::{Discovery, DiscoveryError, Readiness, discover};
use corelane_load::generator::RunError;
use corelane_load::plan::Plan;

use super::server::ServerProcess;
use super::{CliError, error_with_target, print_stderr};

/// How long connections may be refused, or closed without an answer, by a server that this command
/// has not started.
const ABSENT_TIMEOUT: Duration = Duration::from_millis(1_500);
/// Delay between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// Returns the plan with what it leaves to be found out and the name of the server, and prints what
/// was chosen.
pub(super) fn complete_plan(
    plan: &Plan,
    server: &mut ServerProcess,
    is_quiet: bool,
) -> Result<Discovery, CliError> {
    let config = plan.run_config()?;
    let is_program = config.endpoint.program().is_some();
    let found = if is_program { discover(plan, &config) } else { discover_started(plan, server)? };
    let found = found.map_err(|error| match error {
        DiscoveryError::Unreachable(error) if is_program => {
            error_with_target(plan, &RunError::ProgramFailed(error.to_string()))
        }
        DiscoveryError::Unreachable(error) => {
            error_with_target(plan, &RunError::Unreachable(error.to_string()))
        }
        error => error_with_target(plan, &error),
    })?;
    if !is_quiet {
        found.notes.iter().for_each(print_stderr);
    }
    Ok(found)
}

/// Repeats the discovery while the server may be starting: until the connect timeout of the plan
/// if it accepts connections or was started by this command, else for a short time. Fails if a
/// started server ends.
fn discover_started(
    plan: &Plan,
    server: &mut ServerProcess,
) -> Result<Result<Discovery, DiscoveryError>, CliError> {
    let mut config = plan.run_config()?;
    let timeout = config.limits.connect_timeout;
    let absent = if server.is_started() { timeout } else { timeout.min(ABSENT_TIMEOUT) };
    let clock = Clock::start();
    let started = clock.now();
    loop {
        let found = discover(plan, &config);
        let Err(error) = &found else { return Ok(found) };
        server.check()?;
        let longest = match error.readiness() {
            Readiness::Absent => absent,
            Readiness::Silent => timeout,
            Readiness::Final => return Ok(found),
        };
        let waited = clock.now().since(started) + RETRY_INTERVAL;
        if waited >= longest {
            return Ok(found);
        }
        thread::park_timeout(RETRY_INTERVAL);
        // One attempt may wait for two answers.
        config.limits.connect_timeout = timeout.saturating_sub(waited) / 2;
    }
}

/// Completes the plan of a search by that of its first run.
pub(super) fn complete_trials(
    plan: &Plan,
    first: &Plan,
    server: &mut ServerProcess,
    is_quiet: bool,
) -> Result<Discovery, CliError> {
    let found = complete_plan(first, server, is_quiet)?;
    let Plan { era, calls, scenarios, .. } = found.plan;
    Ok(Discovery { plan: Plan { era, calls, scenarios, ..plan.clone() }, ..found })
}
