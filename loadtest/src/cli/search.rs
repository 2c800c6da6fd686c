//! `corelane-load search`: finds the highest rate at which the server keeps the thresholds, and
//! measures at fractions of it.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use corelane_engine::clock;
use corelane_load::discovery::Discovery;
use corelane_load::generator::{self, RunConfig, RunError, StopRequest};
use corelane_load::metrics::process_group::ProcessGroup;
use corelane_load::plan::{HumanDuration, PhasePlan, Plan};
use corelane_load::probe::{self, SearchResult, SearchScale, Trial, trial_plan};
use corelane_load::report::search::{format_run, format_scale};
use corelane_load::report::{html, sweep};
use corelane_load::result::{Manifest, RunOrigin, RunResult};
use corelane_load::sweep::{SweepResult, run_steps};

use super::discovery::complete_trials;
use super::files::write_or_print;
use super::interrupt::stop_on_signal;
use super::load_arguments::LoadArguments;
use super::search_arguments::SearchArguments;
use super::server::ServerProcess;
use super::terminal::LiveLine;
use super::{CliError, EXIT_FAILED, EXIT_INVALID, error_with_target, print_stderr};

/// Runs the command and returns its exit status.
pub(super) fn search(arguments: &SearchArguments) -> Result<ExitCode, CliError> {
    let plan = arguments.plan()?;
    check(&plan)?;
    arguments.files.check()?;
    let generator = &arguments.load.generator;
    let core_use = generator.core_use();
    let mut server = arguments.load.server(&plan)?;
    let first = trial_plan(&plan, 1.0, CHECKED_SPAN);
    let Discovery { plan, server: identity, .. } =
        complete_trials(&plan, &first, &mut server, generator.quiet)?;
    generator.print_warnings(&first.run_config()?, core_use);
    let origin = RunOrigin { server: identity, ..arguments.files.origin() };
    let result = measure(arguments, &plan, &mut server, &origin)?;
    drop(server);
    if arguments.markdown.as_deref() != Some(Path::new("-")) {
        std::io::stdout().write_all(sweep::table(&result).as_bytes())?;
    }
    if let Some(path) = &arguments.markdown {
        write_or_print(path, &sweep::markdown(&result, &arguments.source()))?;
    }
    arguments.files.write(&result, html::sweep_page)?;
    Ok(status(&result))
}

/// Performs the search and, if it finds a rate, the runs at its fractions.
fn measure(
    arguments: &SearchArguments,
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
    let settings = searched.sweep.clone().unwrap_or_default();
    // The runs at fractions have the warm-up of the plan.
    let plan = if settings.fractions.is_empty() {
        searched
    } else {
        Plan { sweep: searched.sweep, ..plan.clone() }
    };
    let at =
        |rate| Plan { phases: vec![PhasePlan::constant(rate, settings.duration)], ..plan.clone() };
    let report_run = |round, part, result: &RunResult| {
        if !load.generator.quiet {
            print_stderr(&sweep::format_run(round, part, result));
        }
    };
    let steps = match found.answer.rate() {
        Some(rate) if !stop.is_made() => {
            run_steps(&settings, rate, &stop, |rate| run(at(rate)), report_run)?
        }
        _ => Vec::new(),
    };
    found.is_stopped = stop.is_made();
    Ok(SweepResult { plan, manifest, search: found, steps })
}

/// Measured time of the plan that is checked before the first run.
const CHECKED_SPAN: HumanDuration = HumanDuration::from_secs(1);

/// Checks the settings of a search before its server is started.
fn check(plan: &Plan) -> Result<(), CliError> {
    let sweep = plan.sweep.clone().unwrap_or_default();
    sweep.check()?;
    SearchScale::default().options(&sweep).check()?;
    trial_plan(plan, 1.0, sweep.search_duration.unwrap_or(CHECKED_SPAN)).run_config()?;
    Ok(())
}

/// Searches with `run`, which performs the run of a plan; progress goes to standard error. Returns
/// the plan of the runs, with their times, and the result.
fn run_search(
    plan: &Plan,
    is_quiet: bool,
    stop: &StopRequest,
    run: &mut impl FnMut(Plan) -> Result<RunResult, CliError>,
) -> Result<(Plan, SearchResult), CliError> {
    let mut sweep = plan.sweep.clone().unwrap_or_default();
    let scale = match (sweep.rate_first, sweep.search_duration) {
        (Some(_), Some(_)) => SearchScale::default(),
        _ => measure_scale(plan, is_quiet, run)?,
    };
    if stop.is_made() {
        return Err(RunError::Stopped.into());
    }
    let (plan, span) = scale.trials(plan, sweep.search_duration);
    let options = scale.options(&sweep);
    options.check()?;
    sweep.search_duration = Some(span);
    let at = |rate| run(trial_plan(&plan, rate, span)).map(|it| Trial::from_result(&it));
    let found = probe::search(options, stop, at, |probe| {
        if !is_quiet {
            print_stderr(&format_run(probe));
        }
    })?;
    Ok((Plan { sweep: Some(sweep), ..plan }, found))
}

/// Measures what one connection with one request at a time reaches.
fn measure_scale(
    plan: &Plan,
    is_quiet: bool,
    run: &mut impl FnMut(Plan) -> Result<RunResult, CliError>,
) -> Result<SearchScale, CliError> {
    let mut scale = SearchScale::default();
    for span in SearchScale::spans(plan) {
        scale = SearchScale::from_result(&run(SearchScale::plan(plan, span))?);
        if scale.is_known() {
            break;
        }
    }
    if !is_quiet {
        print_stderr(&format_scale(&scale));
    }
    Ok(scale)
}

fn status(result: &SweepResult) -> ExitCode {
    if result.has_passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(if result.is_invalid() { EXIT_INVALID } else { EXIT_FAILED })
    }
}

/// Performs one run, whose progress a terminal shows. Fails if not all connections open.
fn run_once(
    plan: Plan,
    load: &LoadArguments,
    watched: Option<&ProcessGroup>,
    origin: &RunOrigin,
    stop: &StopRequest,
) -> Result<RunResult, CliError> {
    let run_config = RunConfig { stop: stop.clone(), ..plan.run_config()? };
    let line = LiveLine::new(load.generator.quiet);
    let finding = generator::run(
        &run_config,
        load.generator.threads,
        &load.generator.cores,
        watched,
        |_, second| {
            line.show(&second.summary);
        },
    );
    drop(line);
    let finding = finding.map_err(|error| error_with_target(&plan, &error))?;
    let manifest = Manifest::of(&finding, clock::unix_ms(), origin);
    let result = RunResult::new(plan, manifest, &finding);
    let (opened, wanted) = (result.totals.opened, result.plan.connections);
    if opened < wanted as u64 {
        let why = result.totals.last_error.as_deref().unwrap_or("timeout");
        let target = &result.plan.target;
        return Err(format!(
            "{target}: only {opened} of {wanted} connections opened: {why}; raise the limits on \
             both sides, or use fewer (--connections)"
        )
        .into());
    }
    Ok(result)
}
