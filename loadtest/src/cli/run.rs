//! `corelane-load run`: performs a load test and prints its result.

use std::io::Write;
use std::process::ExitCode;

use corelane_engine::clock;
use corelane_load::discovery::Discovery;
use corelane_load::generator::{self, RunConfig};
use corelane_load::report::{html, table};
use corelane_load::result::{Manifest, RunResult, RunStatus};

use super::discovery::complete_plan;
use super::files::check_writable;
use super::interrupt::stop_on_signal;
use super::load_arguments::RunArguments;
use super::run_output::RunOutput;
use super::{CliError, EXIT_FAILED, EXIT_INVALID, error_with_target};

/// Runs the command and returns its exit status.
pub(super) fn run(arguments: &RunArguments) -> Result<ExitCode, CliError> {
    let plan = arguments.plan()?;
    plan.run_config()?;
    let load = &arguments.load;
    let mut origin = arguments.files.origin();
    arguments.files.check()?;
    arguments.ci.check()?;
    let mut others = [&arguments.output.csv, &arguments.output.hlog].into_iter().flatten();
    others.try_for_each(|path| check_writable(path))?;
    let core_use = load.generator.core_use();
    let mut server = load.server(&plan)?;
    let Discovery { plan, server: identity, .. } =
        complete_plan(&plan, &mut server, load.generator.quiet)?;
    origin.server = identity;
    let mut run_output = RunOutput::new(arguments, &plan)?;
    let run_config = RunConfig { stop: stop_on_signal()?, ..plan.run_config()? };
    load.generator.print_warnings(&run_config, core_use);
    let (threads, cores) = (load.generator.threads, &load.generator.cores);
    let finding = generator::run(&run_config, threads, cores, server.process(), |_, second| {
        run_output.write_second(second);
    });
    let finding = finding.map_err(|error| error_with_target(&plan, &error))?;
    drop(server);
    let manifest = Manifest::of(&finding, clock::unix_ms(), &origin);
    let result = RunResult::new(plan, manifest, &finding);
    if !arguments.ci.is_to_stdout() {
        std::io::stdout().write_all(table::table(&result).as_bytes())?;
    }
    arguments.files.write(&result, html::run_page)?;
    arguments.ci.write(&result)?;
    run_output.finish()?;
    Ok(exit_code(result.status()))
}

fn exit_code(status: RunStatus) -> ExitCode {
    match status {
        RunStatus::Passed | RunStatus::Completed => ExitCode::SUCCESS,
        RunStatus::Missed | RunStatus::Failed => ExitCode::from(EXIT_FAILED),
        RunStatus::Invalid => ExitCode::from(EXIT_INVALID),
    }
}
