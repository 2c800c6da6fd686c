//! `corelane parity-check`: checks that a server complies with the parity dialect. The checks are
//! those of the crate `corelane-parity-check`.

mod flags;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::ArgMatches;
use corelane_parity_check::Report;

use super::{USAGE_EXIT_CODE, print_diagnostic};

pub(crate) use self::flags::{NAME, command};

/// Runs the command.
pub(crate) fn run(matches: &ArgMatches) -> ExitCode {
    if flags::is_list(matches) {
        return exit_code(corelane_parity_check::write_list(&mut io::stdout().lock()), true);
    }
    let settings = match flags::settings(matches) {
        Ok(settings) => settings,
        Err(error) => {
            print_diagnostic("error", &error);
            return ExitCode::from(USAGE_EXIT_CODE);
        }
    };
    let options = flags::run_options(matches);
    let selected = corelane_parity_check::select(&options.only);
    if selected.is_empty() {
        print_diagnostic("error", &"no check has the name of --only: --list prints all");
        return ExitCode::from(USAGE_EXIT_CODE);
    }
    if let Err(error) = corelane_parity_check::check_reachable(&settings) {
        print_diagnostic("error", &error);
        return ExitCode::FAILURE;
    }
    let report = corelane_parity_check::run(&settings, options.jobs, &selected);
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
