//! `corelane-load run`: drives a server once and says what it did.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use corelane::engine::clock;
use corelane_load::generator;
use corelane_load::report::{progress, table};
use corelane_load::result::{Manifest, RunResult, Verdict};

use super::arguments::RunArguments;
use super::{Failure, INVALID, MISSED, about, complain, keep};

/// Runs the command; its status.
pub(super) fn run(arguments: &RunArguments) -> Result<ExitCode, Failure> {
    let plan = arguments.plan()?;
    let job = plan.job()?;
    let load = &arguments.load;
    let server = load.server(&plan)?;
    let is_shown = !load.quiet && std::io::stderr().is_terminal();
    let crew = (load.workers, &load.cores[..]);
    let finding = generator::run(&job, crew, server.process(), |number, second| {
        if is_shown {
            complain(&progress::line(number, second));
        }
    });
    let finding = finding.map_err(|fruitless| about(&plan, &fruitless))?;
    drop(server);
    let manifest = Manifest::of(&finding, clock::unix_ms());
    let result = RunResult::new(plan, manifest, &finding);
    std::io::stdout().write_all(table::table(&result).as_bytes())?;
    if let Some(path) = &arguments.json {
        keep(path, &result)?;
    }
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
