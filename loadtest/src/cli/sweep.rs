//! `corelane-load sweep`: looks for the highest rate, and runs at parts of it.

use std::io::Write;
use std::process::ExitCode;

use corelane_load::plan::{PhasePlan, Plan, SweepPlan};
use corelane_load::probe::{self, Trial, trial_plan};
use corelane_load::report::{html, search, sweep as report};
use corelane_load::result::{Manifest, RunResult};
use corelane_load::search::Bounds;
use corelane_load::sweep::{SweepResult, steps};

use super::arguments::SweepArguments;
use super::search::run_once;
use super::server::Server;
use super::telling::{check_writable, write};
use super::{Failure, INVALID, MISSED, complain, keep};

/// Runs the command; its status.
pub(super) fn sweep(arguments: &SweepArguments) -> Result<ExitCode, Failure> {
    let plan = arguments.plan()?;
    let sweep = plan.sweep.clone().unwrap_or_default();
    sweep.check()?;
    Bounds::from(&sweep).check()?;
    let kept = [&arguments.json, &arguments.html];
    kept.into_iter().flatten().try_for_each(|path| check_writable(path))?;
    let mut server = arguments.load.server(&plan)?;
    let result = carry_out(arguments, &plan, &sweep, &mut server)?;
    drop(server);
    let text = if arguments.markdown {
        report::markdown(&result, &arguments.source())
    } else {
        report::table(&result)
    };
    std::io::stdout().write_all(text.as_bytes())?;
    if let Some(path) = &arguments.json {
        keep(path, &result)?;
    }
    if let Some(path) = &arguments.html {
        write(path, &html::sweep_page(&result))?;
    }
    Ok(status(&result))
}

/// The search and, where it finds a rate, the runs at its parts.
fn carry_out(
    arguments: &SweepArguments,
    plan: &Plan,
    sweep: &SweepPlan,
    server: &mut Server,
) -> Result<SweepResult, Failure> {
    let load = &arguments.load;
    let mut manifest = Manifest::default();
    let mut run = |plan: Plan| -> Result<RunResult, Failure> {
        server.check()?;
        let result = run_once(plan, load, server.process())?;
        manifest = result.manifest.clone();
        Ok(result)
    };
    let say = |line: String| {
        if !load.quiet {
            complain(&line);
        }
    };
    let found = probe::search(
        Bounds::from(sweep),
        |rate| run(trial_plan(plan, rate, sweep.search_span)).map(|result| Trial::of(&result)),
        |probe| say(search::line(probe)),
    )?;
    let at = |rate| Plan { phases: vec![PhasePlan::constant(rate, sweep.span)], ..plan.clone() };
    let steps = match found.answer.rate() {
        Some(rate) => steps(
            sweep,
            rate,
            |rate| run(at(rate)),
            |round, part, result| say(report::line(round, part, result)),
        )?,
        None => Vec::new(),
    };
    Ok(SweepResult { plan: plan.clone(), manifest, search: found, steps })
}

fn status(result: &SweepResult) -> ExitCode {
    if result.has_passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(if result.is_spoiled() { INVALID } else { MISSED })
    }
}
