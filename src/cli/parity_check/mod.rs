//! `corelane parity-check`: checks that a server complies with the parity dialect.
//!
//! The checks use blocking sockets and no code of the server or of the client, so that an error
//! that both share is found. Each opens connections of its own. Rules that hold for every message
//! are checked on every connection: [`rules`] those of one message, [`trace`] those of their order.

mod deadline;

mod endpoint;

mod wire;

mod rules;

mod trace;

mod suite;

mod peer;

mod steps;

mod checks;

mod report;

mod runner;

mod flags;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::ArgMatches;

use self::report::Report;
use self::wire::{Channel, OpenError};
use super::{USAGE_EXIT_CODE, print_diagnostic};

pub(crate) use self::flags::{NAME, command};

/// Runs the command.
pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    if flags::is_list(matches) {
        return exit_code(write_list(&mut io::stdout().lock()), true);
    }
    let settings = match flags::settings(matches) {
        Ok(settings) => settings,
        Err(error) => {
            print_diagnostic("error", &error);
            return ExitCode::from(USAGE_EXIT_CODE);
        }
    };
    let options = flags::run_options(matches);
    let selected = runner::select(&options.only);
    if selected.is_empty() {
        print_diagnostic("error", &"no check has the name of --only: --list prints all");
        return ExitCode::from(USAGE_EXIT_CODE);
    }
    for settings in std::iter::once(settings.clone()).chain(settings.for_other()) {
        let (endpoint, token) = (&settings.endpoint, settings.token.as_deref());
        match Channel::check_reachable(endpoint, token, settings.timeout) {
            // The server has answered, with a status that a check reports.
            Ok(()) | Err(OpenError { status: Some(_), .. }) => {}
            Err(error) => {
                print_diagnostic("error", &format!("{endpoint}: {}", error.message));
                return ExitCode::FAILURE;
            }
        }
    }
    let report = runner::run(&settings, options.jobs, &selected);
    exit_code(write(&report, options.is_json), report.is_compliant())
}

fn exit_code(written: io::Result<()>, is_compliant: bool) -> ExitCode {
    match written {
        // A reader that closes the pipe early, as `head` does, is no failure.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            print_diagnostic("error", &format!("standard output: {error}"));
            ExitCode::FAILURE
        }
        _ if is_compliant => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn write(report: &Report, is_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if is_json {
        writeln!(out, "{:#}", report.to_json())?;
    } else {
        report.write_table(&mut out)?;
    }
    out.flush()
}

fn write_list(out: &mut impl Write) -> io::Result<()> {
    for check in checks::all() {
        writeln!(out, "{:<32}  {:<10}  {}", check.name, check.level.as_str(), check.rule)?;
    }
    out.flush()
}
