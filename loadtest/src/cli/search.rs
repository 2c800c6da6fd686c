//! `corelane-load search`: looks for the highest rate at which a server keeps the thresholds.

use std::io::Write;
use std::process::ExitCode;

use corelane::engine::clock;
use corelane_load::generator;
use corelane_load::plan::{PhasePlan, Plan};
use corelane_load::probe::{self, Trial};
use corelane_load::report::search::{answer, line};
use corelane_load::result::{Manifest, RunResult};
use corelane_load::search::Answer;

use super::arguments::SearchArguments;
use super::{Failure, INVALID, MISSED, about, complain};

/// Runs the command; its status.
pub(super) fn search(arguments: &SearchArguments) -> Result<ExitCode, Failure> {
    let plan = arguments.plan()?;
    let bounds = arguments.bounds();
    bounds.check()?;
    let crew = (arguments.load.workers, &arguments.load.cores[..]);
    let at = |rate| {
        let phases = vec![PhasePlan::constant(rate, arguments.span)];
        try_once(Plan { phases, ..plan.clone() }, crew)
    };
    let found = probe::search(bounds, at, |probe| {
        if !arguments.load.quiet {
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

/// Does one run.
fn try_once(plan: Plan, crew: (u32, &[usize])) -> Result<Trial, Failure> {
    let job = plan.job()?;
    let finding = generator::run(&job, crew, None, |_, _| {});
    let finding = finding.map_err(|fruitless| about(&plan, &fruitless))?;
    let manifest = Manifest::of(&finding, clock::unix_ms());
    Ok(Trial::of(&RunResult::new(plan, manifest, &finding)))
}
