//! Commands: `run` and `search` perform load tests; `report`, `compare` and `capacity`
//! evaluate their results; `plan` prints plans.
//!
//! Results go to standard output, everything else to standard error; an error is one line with its
//! cause and a correction. Exit status: 0 passed or completed, 1 the run failed or missed a
//! threshold, 2 no result, 3 the run cannot be judged.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::ErrorKind;
use corelane_load::plan::Plan;

use self::arguments::{Arguments, Command};
#[cfg(target_os = "linux")]
use self::supervisor::Role;
#[cfg(not(target_os = "linux"))]
use self::unsupervised::{self as supervisor, Role};

mod calls;
mod credentials;
mod discovery;
mod failure_help;
mod files;
mod interrupt;
#[cfg(target_os = "linux")]
mod supervisor;
mod terminal;
#[cfg(not(target_os = "linux"))]
mod unsupervised;
mod usage_error;

mod arguments;
mod capacity;
mod commit;
mod compare;
mod load_arguments;
mod numbers;
mod plan;
mod report;
mod results;
mod run;
mod run_output;
mod search;
mod search_arguments;
mod server;

/// Exit status: the run failed or missed a threshold.
const EXIT_FAILED: u8 = 1;
/// Exit status: there is no result.
const EXIT_NO_RESULT: u8 = 2;
/// Exit status: the run is invalid.
const EXIT_INVALID: u8 = 3;

/// An error whose text is a single line.
type CliError = Box<dyn std::error::Error>;

/// Runs the command named by `arguments`; the first argument is the program.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let role = match Role::take(arguments.first()) {
        Ok(role @ (Role::Supervisor | Role::End | Role::Start)) => {
            return supervise(role, &arguments);
        }
        Ok(role) => role,
        Err(error) => return print_error(&error),
    };
    let command = match Arguments::read(&arguments) {
        Ok(arguments) => arguments.command,
        Err(error) => return print_usage_error(&error),
    };
    let starts_processes = match &command {
        Command::Run(arguments) => arguments.load.starts_processes(),
        Command::Search(arguments) => arguments.load.starts_processes(),
        _ => false,
    };
    if role == Role::Command && starts_processes && supervisor::is_available() {
        return supervise(role, &arguments);
    }
    execute(command)
}

/// Runs the command in a process below this one.
fn supervise(role: Role, arguments: &[OsString]) -> ExitCode {
    role.supervise(arguments.get(1..).unwrap_or_default())
        .unwrap_or_else(|error| print_error(&error))
}

fn execute(command: Command) -> ExitCode {
    let ended = match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Search(arguments) => search::search(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Capacity(arguments) => capacity::capacity(&arguments),
        Command::Plan(arguments) => plan::plan(&arguments),
        Command::Report(arguments) => report::report(&arguments),
    };
    ended.unwrap_or_else(|error| print_error(&error))
}

fn print_error(error: &impl Display) -> ExitCode {
    print_stderr(&format!("corelane-load: {error}"));
    ExitCode::from(EXIT_NO_RESULT)
}

/// Prints the help, or an error of the arguments in one line.
fn print_usage_error(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            error.print().ok();
        }
        _ => print_stderr(&format!("corelane-load: {}", usage_error::one_line(error))),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(EXIT_NO_RESULT))
}

/// Writes a line to standard error. A closed standard error is ignored.
fn print_stderr(line: &impl Display) {
    writeln!(io::stderr(), "{line}").ok();
}

/// Returns an error that names the target.
fn error_with_target(plan: &Plan, error: &impl Display) -> CliError {
    format!("{}: {error}", plan.target).into()
}
