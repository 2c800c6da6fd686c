//! `corelane-load search`: looks for the highest rate at which a server keeps the thresholds.

use std::io::Write;
use std::process::ExitCode;

use corelane::engine::clock;
use corelane_load::generator;
use corelane_load::measure::process::Process;
use corelane_load::plan::Plan;
use corelane_load::probe::{self, Trial, trial_plan};
use corelane_load::report::search::{answer, line};
use corelane_load::result::{Manifest, RunResult};
use corelane_load::search::Answer;

use super::arguments::{LoadArguments, SearchArguments};
use super::{Failure, INVALID, MISSED, about, complain};

/// Runs the command; its status.
pub(super) fn search(arguments: &SearchArguments) -> Result<ExitCode, Failure> {
    let plan = arguments.plan()?;
    let bounds = arguments.bounds();
    bounds.check()?;
    let load = &arguments.load;
    let mut server = load.server(&plan)?;
    let at = |rate| {
        server.check()?;
        let plan = trial_plan(&plan, rate, arguments.span);
        run_once(plan, load, server.process()).map(|result| Trial::of(&result))
    };
    let found = probe::search(bounds, at, |probe| {
        if !load.quiet {
            complain(&line(probe));
        }
    })?;
    std::io::stdout().write_all(answer(&plan, &found).as_bytes())?;
    Ok(match (found.answer, found.limit()) {
        (Answer::Found { .. }, _) => ExitCode::SUCCESS,
        (Answer::TooSlow, Some(probe)) if !probe.trial.is_valid => ExitCode::from(INVALID),
        _ => ExitCode::from(MISSED),
    })
}

/// Does one run of a search without a word. Where connections do not open no rate is worth trying.
pub(super) fn run_once(
    plan: Plan,
    load: &LoadArguments,
    watched: Option<&Process>,
) -> Result<RunResult, Failure> {
    let job = plan.job()?;
    let crew = (load.workers, &load.cores[..]);
    let finding = generator::run(&job, crew, watched, |_, _| {});
    let finding = finding.map_err(|fruitless| about(&plan, &fruitless))?;
    let manifest = Manifest::of(&finding, clock::unix_ms());
    let result = RunResult::new(plan, manifest, &finding);
    let (opened, wanted) = (result.totals.opened, result.plan.connections);
    if opened < wanted as u64 {
        let why = result.totals.refused.as_deref().unwrap_or("no time was left");
        let target = &result.plan.target;
        return Err(format!(
            "{target}: only {opened} of {wanted} connections opened: {why}; let both sides have \
             more, or ask for fewer (--connections)"
        )
        .into());
    }
    Ok(result)
}
