//! `corelane check`: validates the configuration and reports what this machine does not support.
//!
//! Standard output is itself a valid configuration file, with the source of every value as a
//! comment. Warnings go to standard error and do not change the exit code.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::config::{ConfigIssue, EffectiveConfig, MachineLimits, directories};

use crate::cli::print_diagnostic;

/// Prints the effective options and the warnings about them.
pub(crate) fn run(effective: &EffectiveConfig) -> ExitCode {
    for warning in &effective.warnings {
        print_diagnostic("warning", warning);
    }
    let mut unsupported = MachineLimits::detect().warnings(&effective.options);
    unsupported.extend(directories::find_unreadable(&effective.options));
    for (key, cause) in unsupported {
        print_diagnostic("warning", &ConfigIssue::new(effective.source(key).clone(), key, cause));
    }
    match write_options(effective, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe early, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            print_diagnostic("error", &format!("standard output: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn write_options(effective: &EffectiveConfig, out: &mut impl Write) -> io::Result<()> {
    for (row, value, source) in effective.rows() {
        let line = format!("{} = {value}", row.key);
        writeln!(out, "{line:<44} # {source}")?;
    }
    out.flush()
}
