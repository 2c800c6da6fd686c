//! `corelane-load sweep`: finds the highest rate, and measures at fractions of it.

use std::io::Write;
use std::process::ExitCode;

use corelane_load::discovery::Discovery;
use corelane_load::plan::{PhasePlan, Plan};
use corelane_load::probe::trial_plan;
use corelane_load::report::{html, sweep as report};
use corelane_load::result::{Manifest, RunOrigin, RunResult};
use corelane_load::sweep::{SweepResult, run_steps};

use super::discovery::complete_trials;
use super::interrupt::stop_on_signal;
use super::search::{CHECKED_SPAN, check, run_once, run_search};
use super::search_arguments::SweepArguments;
use super::server::ServerProcess;
use super::{CliError, EXIT_FAILED, EXIT_INVALID, print_stderr};

/// Runs the command and returns its exit status.
pub(super) fn sweep(arguments: &SweepArguments) -> Result<ExitCode, CliError> {
    let plan = arguments.plan()?;
    check(&plan)?;
    arguments.files.check()?;
    let mut server = arguments.load.server(&plan)?;
    let first = trial_plan(&plan, 1.0, CHECKED_SPAN);
    let Discovery { plan, server: identity, .. } =
        complete_trials(&plan, &first, &mut server, arguments.load.generator.quiet)?;
    let origin = RunOrigin { server: identity, ..arguments.files.origin() };
    let result = run_sweep(arguments, &plan, &mut server, &origin)?;
    drop(server);
    let text = if arguments.markdown {
        report::markdown(&result, &arguments.source())
    } else {
        report::table(&result)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    arguments.files.write(&result, html::sweep_page)?;
    Ok(status(&result))
}

/// Performs the search and, if it finds a rate, the runs at its fractions.
fn run_sweep(
    arguments: &SweepArguments,
    plan: &Plan,
    server: &mut ServerProcess,
    origin: &RunOrigin,
) -> Result<SweepResult, CliError> {
    let load = &arguments.load;
    let mut manifest = Manifest::default();
    let stop = stop_on_signal()?;
    let mut run = |plan: Plan| -> Result<RunResult, CliError> {
        server.check()?;
        let result = run_once(plan, load, server.process(), origin, &stop)?;
        manifest = result.manifest.clone();
        Ok(result)
    };
    let (searched, mut found) = run_search(plan, load.generator.quiet, &stop, &mut run)?;
    let sweep = searched.sweep.clone().unwrap_or_default();
    // The runs at fractions have the warm-up of the plan.
    let plan = Plan { sweep: searched.sweep, ..plan.clone() };
    let at =
        |rate| Plan { phases: vec![PhasePlan::constant(rate, sweep.duration)], ..plan.clone() };
    let report_run = |round, part, result: &RunResult| {
        if !load.generator.quiet {
            print_stderr(&report::format_run(round, part, result));
        }
    };
    let steps = match found.answer.rate() {
        Some(rate) if !stop.is_made() => {
            run_steps(&sweep, rate, &stop, |rate| run(at(rate)), report_run)?
        }
        _ => Vec::new(),
    };
    found.is_stopped = stop.is_made();
    Ok(SweepResult { plan, manifest, search: found, steps })
}

fn status(result: &SweepResult) -> ExitCode {
    if result.has_passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(if result.is_invalid() { EXIT_INVALID } else { EXIT_FAILED })
    }
}
