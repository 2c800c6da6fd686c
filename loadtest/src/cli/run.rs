//! `corelane-load run`: drives a server once and says what it did.

use std::io::Write;
use std::process::ExitCode;

use corelane::engine::clock;
use corelane_load::generator;
use corelane_load::report::{html, table};
use corelane_load::result::{Manifest, RunResult, Verdict};

use super::arguments::RunArguments;
use super::telling::{Telling, check_writable, write};
use super::{Failure, INVALID, MISSED, about, keep};

/// Runs the command; its status.
pub(super) fn run(arguments: &RunArguments) -> Result<ExitCode, Failure> {
    let plan = arguments.plan()?;
    let job = plan.job()?;
    let load = &arguments.load;
    let kept = [&arguments.json, &arguments.html];
    kept.into_iter().flatten().try_for_each(|path| check_writable(path))?;
    let mut telling = Telling::begin(arguments, &plan)?;
    let server = load.server(&plan)?;
    let crew = (load.workers, &load.cores[..]);
    let finding = generator::run(&job, crew, server.process(), |_, second| telling.tell(second));
    let finding = finding.map_err(|fruitless| about(&plan, &fruitless))?;
    drop(server);
    let manifest = Manifest::of(&finding, clock::unix_ms());
    let result = RunResult::new(plan, manifest, &finding);
    std::io::stdout().write_all(table::table(&result).as_bytes())?;
    if let Some(path) = &arguments.json {
        keep(path, &result)?;
    }
    if let Some(path) = &arguments.html {
        write(path, &html::run_page(&result))?;
    }
    telling.end()?;
    Ok(status(&result.verdict))
}

fn status(verdict: &Verdict) -> ExitCode {
    if !verdict.is_valid() {
        ExitCode::from(INVALID)
    } else if verdict.has_passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(MISSED)
    }
}
