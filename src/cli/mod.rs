//! The commands: `serve`, `stdio` and `check`.
//!
//! What it keeps true: standard output carries what a command was asked for and nothing else
//! (nothing at all in `serve`, only MCP in `stdio`); everything about a run goes to standard
//! error. Exit codes: 0 done, 1 could not be done, 2 not understood.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

use corelane::config::{self, Effective, Problem, directories};
use corelane::observe::Event;

mod arguments;
mod check;
mod lines;
mod serve;

/// Runs the command that `arguments` name; the first of them is the program.
pub(crate) fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let matches = match arguments::parse(arguments) {
        Ok(matches) => matches,
        Err(error) => return understood(&error),
    };
    let Some((command, matches)) = matches.subcommand() else {
        return ExitCode::from(USAGE);
    };
    let command_line = arguments::command_line(matches);
    let effective = match config::load(&command_line) {
        Ok(effective) => effective,
        Err(problems) => {
            for problem in &problems.0 {
                complain("error", problem);
            }
            return ExitCode::FAILURE;
        }
    };
    if command != "check" && refuse_directories(&effective) {
        return ExitCode::FAILURE;
    }
    match command {
        "check" => check::run(&effective),
        "stdio" => serve::stdio(start(effective)),
        _ => serve::serve(start(effective), command_line),
    }
}

/// Opens the way of events to standard error, and sends the doubts about options along it.
fn start(effective: Effective) -> config::Options {
    lines::start(effective.options.log.level);
    doubt(&effective);
    effective.options
}

/// Complains of directories that cannot be served; whether there are some.
fn refuse_directories(effective: &Effective) -> bool {
    let refusals = directories::unreadable(&effective.options);
    for (key, refusal) in &refusals {
        let source = effective.source(key).clone();
        complain("error", &Problem::new(source, *key, refusal.clone()));
    }
    !refusals.is_empty()
}

/// Tells what is odd about the configuration and not wrong.
fn doubt(effective: &Effective) {
    for warning in &effective.warnings {
        Event::OptionDoubted { doubt: &warning.to_string() }.emit();
    }
}

/// Shows what clap has to say: help, version or what it did not understand.
fn understood(error: &clap::Error) -> ExitCode {
    error.print().ok();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(USAGE))
}

/// Writes a line about the command itself. A standard error that is closed is no reason to panic.
fn complain(kind: &str, about: &impl Display) {
    writeln!(io::stderr(), "{kind}: {about}").ok();
}

/// The exit code of a command line that was not understood, as clap's own.
const USAGE: u8 = 2;
