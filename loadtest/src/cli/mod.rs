//! The commands: `run`, `search` and `sweep` drive a server; `report`, `compare` and `capacity`
//! read what came of that; `check` looks at this machine.
//!
//! What it keeps true: a result goes to standard output, everything else to standard error; what
//! goes wrong is told in one line that says what and what to do; the status tells scripts what
//! happened: 0 passed, 1 a threshold was missed, 2 nothing was measured, 3 the run does not count,
//! because its plan could not be kept.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;
use corelane_load::generator::Fruitless;
use corelane_load::plan::Plan;
use serde::Serialize;

use self::arguments::{Arguments, Command};

mod credentials;

mod arguments;
mod capacity;
mod check;
mod compare;
mod report;
mod results;
mod run;
mod search;
mod server;
mod signals;
mod sweep;
mod telling;

/// A threshold was missed.
const MISSED: u8 = 1;
/// Nothing was measured.
const FRUITLESS: u8 = 2;
/// The plan could not be kept, so the run does not count.
const INVALID: u8 = 3;

/// Why a command came to nothing, in one line.
type Failure = Box<dyn std::error::Error>;

/// Runs the command that `arguments` name; the first of them is the program.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let command = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments.command,
        Err(error) => return understood(&error),
    };
    let ended = match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Search(arguments) => search::search(&arguments),
        Command::Sweep(arguments) => sweep::sweep(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Capacity(arguments) => capacity::capacity(&arguments),
        Command::Report(arguments) => report::report(&arguments),
        Command::Check(arguments) => check::check(&arguments),
    };
    match ended {
        Ok(status) => status,
        Err(error) => {
            complain(&format!("corelane-load: {error}"));
            ExitCode::from(FRUITLESS)
        }
    }
}

/// Shows the help that was asked for, or says what was not understood.
fn understood(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            error.print().ok();
        }
        _ => complain(&format!("corelane-load: {}", arguments::one_line(error))),
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(FRUITLESS))
}

/// Writes a line about a run. A standard error that is closed is no reason to panic.
fn complain(line: &impl Display) {
    writeln!(io::stderr(), "{line}").ok();
}

/// Writes a result into a file, as JSON.
fn keep(path: &Path, result: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(result)?;
    std::fs::write(path, text + "\n")
        .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
    Ok(())
}

/// Names the server in what is said about it.
fn about(plan: &Plan, fruitless: &Fruitless) -> Failure {
    format!("{}: {fruitless}", plan.target).into()
}
