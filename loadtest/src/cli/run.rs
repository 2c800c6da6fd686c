//! `corelane-load run`: performs a load test and prints its result.

use std::io::Write;
use std::process::ExitCode;

use corelane::engine::clock;
use corelane_load::generator;
use corelane_load::report::{html, table};
use corelane_load::result::{Manifest, RunResult, Verdict};

use super::arguments::RunArguments;
use super::files::{check_writable, write};
use super::run_output::RunOutput;
use super::{CliError, EXIT_INVALID, EXIT_THRESHOLD_MISSED, error_with_target, write_json};

/// Runs the command and returns its exit status.
pub(super) fn run(arguments: &RunArguments) -> Result<ExitCode, CliError> {
    let plan = arguments.plan()?;
    let run_config = plan.run_config()?;
    let load = &arguments.load;
    let kept = [&arguments.json, &arguments.html];
    kept.into_iter().flatten().try_for_each(|path| check_writable(path))?;
    let mut run_output = RunOutput::new(arguments, &plan)?;
    let server = load.server(&plan)?;
    let threads_and_cores = (load.threads, &load.cores[..]);
    let finding = generator::run(&run_config, threads_and_cores, server.process(), |_, second| {
        run_output.write_second(second);
    });
    let finding = finding.map_err(|error| error_with_target(&plan, &error))?;
    drop(server);
    let manifest = Manifest::of(&finding, clock::unix_ms());
    let result = RunResult::new(plan, manifest, &finding);
    std::io::stdout().write_all(table::table(&result).as_bytes())?;
    if let Some(path) = &arguments.json {
        write_json(path, &result)?;
    }
    if let Some(path) = &arguments.html {
        write(path, &html::run_page(&result))?;
    }
    run_output.finish()?;
    Ok(status(&result.verdict))
}

fn status(verdict: &Verdict) -> ExitCode {
    if !verdict.is_valid() {
        ExitCode::from(EXIT_INVALID)
    } else if verdict.has_passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_THRESHOLD_MISSED)
    }
}
