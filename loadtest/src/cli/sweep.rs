//! `corelane-load sweep`: finds the highest rate, and measures at fractions of it.

use std::io::Write;
use std::process::ExitCode;

use corelane_load::plan::{PhasePlan, Plan, SweepPlan};
use corelane_load::probe::{self, Trial, trial_plan};
use corelane_load::report::{html, search, sweep as report};
use corelane_load::result::{Manifest, RunResult};
use corelane_load::search::SearchOptions;
use corelane_load::sweep::{SweepResult, run_steps};

use super::discovery::complete_trials;
use super::files::{check_writable, write};
use super::search::run_once;
use super::search_arguments::SweepArguments;
use super::server::ServerProcess;
use super::{CliError, EXIT_FAILED, EXIT_INVALID, print_stderr, write_json};

/// Runs the command and returns its exit status.
pub(super) fn sweep(arguments: &SweepArguments) -> Result<ExitCode, CliError> {
    let plan = arguments.plan()?;
    let sweep = plan.sweep.clone().unwrap_or_default();
    sweep.check()?;
    SearchOptions::from(&sweep).check()?;
    let kept = [&arguments.json, &arguments.html];
    kept.into_iter().flatten().try_for_each(|path| check_writable(path))?;
    let first = trial_plan(&plan, sweep.rate_first, sweep.search_duration);
    first.run_config()?;
    let mut server = arguments.load.server(&plan)?;
    let plan = complete_trials(&plan, &first, arguments.load.quiet)?;
    let result = run_sweep(arguments, &plan, &sweep, &mut server)?;
    drop(server);
    let text = if arguments.markdown {
        report::markdown(&result, &arguments.source())
    } else {
        report::table(&result)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    if let Some(path) = &arguments.json {
        write_json(path, &result)?;
    }
    if let Some(path) = &arguments.html {
        write(path, &html::sweep_page(&result))?;
    }
    Ok(status(&result))
}

/// Performs the search and, if it finds a rate, the runs at its fractions.
fn run_sweep(
    arguments: &SweepArguments,
    plan: &Plan,
    sweep: &SweepPlan,
    server: &mut ServerProcess,
) -> Result<SweepResult, CliError> {
    let load = &arguments.load;
    let mut manifest = Manifest::default();
    let mut run = |plan: Plan| -> Result<RunResult, CliError> {
        server.check()?;
        let result = run_once(plan, load, server.process())?;
        manifest = result.manifest.clone();
        Ok(result)
    };
    let report_line = |line: String| {
        if !load.quiet {
            print_stderr(&line);
        }
    };
    let found = probe::search(
        SearchOptions::from(sweep),
        |rate| {
            run(trial_plan(plan, rate, sweep.search_duration))
                .map(|result| Trial::from_result(&result))
        },
        |probe| report_line(search::format_run(probe)),
    )?;
    let at =
        |rate| Plan { phases: vec![PhasePlan::constant(rate, sweep.duration)], ..plan.clone() };
    let steps = match found.answer.rate() {
        Some(rate) => run_steps(
            sweep,
            rate,
            |rate| run(at(rate)),
            |round, part, result| report_line(report::format_run(round, part, result)),
        )?,
        None => Vec::new(),
    };
    Ok(SweepResult { plan: plan.clone(), manifest, search: found, steps })
}

fn status(result: &SweepResult) -> ExitCode {
    if result.has_passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(if result.is_invalid() { EXIT_INVALID } else { EXIT_FAILED })
    }
}
