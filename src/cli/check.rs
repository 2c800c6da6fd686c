//! `corelane check`: validates the configuration and reports what this machine does not support.
//!
//! Standard output is itself a valid configuration file, with the source of every value as a
//! comment. The ring that a shard gets here, and warnings, go to standard error and do not change
//! the exit code. Options or files of authentication that cannot be used are an error.

use std::io::{self, Write};
use std::process::ExitCode;

use crate::config::issue::{Diagnostic, Source};
use crate::config::options::RingBackend;
use crate::config::table::Row;
use crate::config::{ConfigIssue, EffectiveConfig, MachineLimits, Options, directories};
use crate::server::{check_auth, check_tls, probe_ring};

use crate::cli::print_diagnostic;

/// Prints the options that differ from their defaults, or all, and the warnings about them.
pub(crate) fn run(effective: &EffectiveConfig, shows_all: bool) -> ExitCode {
    for warning in &effective.warnings {
        print_diagnostic("warning", warning);
    }
    let mut unsupported = Vec::new();
    let has_uring = check_ring(&effective.options, &mut unsupported);
    let machine = MachineLimits { has_uring: Some(has_uring), ..MachineLimits::detect() };
    unsupported.extend(machine.warnings(&effective.options));
    unsupported.extend(directories::find_unreadable(&effective.options));
    match check_tls(&effective.options) {
        Ok(warnings) => {
            let hint = "clients refuse an expired one";
            let warnings = warnings.into_iter().map(|it| Diagnostic::new(it, hint));
            unsupported.extend(warnings.map(|it| ("tls.certificates", it)));
        }
        Err(error) => {
            let hint = "the server will not start: correct the files or their paths";
            unsupported.push(("tls.certificates", Diagnostic::new(error, hint)));
        }
    }
    let authentication = check_auth(&effective.options);
    for (key, cause) in unsupported {
        print_diagnostic("warning", &ConfigIssue::new(effective.source(key).clone(), key, cause));
    }
    let written = if shows_all {
        write_options(effective.rows(), &mut io::stdout().lock())
    } else {
        write_options(effective.changed_rows(), &mut io::stdout().lock())
    };
    if let Err(error) = authentication {
        print_diagnostic("error", &format!("authentication: {error}; the server will not start"));
        return ExitCode::FAILURE;
    }
    match written {
        Ok(()) => ExitCode::SUCCESS,
        // The reader closed the pipe early, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            print_diagnostic("error", &format!("standard output: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Sets up the ring of a shard and prints its features. Returns whether it is an `io_uring`.
fn check_ring(options: &Options, unsupported: &mut Vec<(&'static str, Diagnostic)>) -> bool {
    let mut warn = |message: String| {
        let hint = "allow io_uring on this machine, or set ring.backend = \"poll\"";
        unsupported.push(("ring.backend", Diagnostic::new(message, hint)));
    };
    match probe_ring(options) {
        Ok(probe) => {
            print_diagnostic("ring", &probe.description);
            let Some(error) = probe.uring_error else {
                return options.engine.ring != RingBackend::Poll;
            };
            warn(format!("poll is used: {error}"));
        }
        Err(error) => warn(format!("the server will not start: {error}")),
    }
    false
}

fn write_options<'a>(
    rows: impl Iterator<Item = (&'static Row, String, &'a Source)>,
    out: &mut impl Write,
) -> io::Result<()> {
    for (row, value, source) in rows {
        let line = format!("{} = {value}", row.key);
        writeln!(out, "{line:<44} # {source}")?;
    }
    out.flush()
}
