//! `check`: is the configuration valid, what does it come to, and can this machine give it?
//!
//! What it keeps true: what it prints on standard output is itself a configuration file, with the
//! source of every value as a comment; warnings go to standard error and change no exit code; a
//! reader that leaves before the end is no failure.

use std::io::{self, Write};
use std::process::ExitCode;

use corelane::config::{Effective, Machine, Problem, directories};

use crate::cli::complain;

/// Prints the effective options. Their problems, had there been any, were told before.
pub(crate) fn run(effective: &Effective) -> ExitCode {
    for warning in &effective.warnings {
        complain("warning", warning);
    }
    let mut refusals = Machine::look().warnings(&effective.options);
    refusals.extend(directories::unreadable(&effective.options));
    for (key, refusal) in refusals {
        complain("warning", &Problem::new(effective.source(key).clone(), key, refusal));
    }
    match write(effective, &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            complain("error", &format!("standard output: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn write(effective: &Effective, out: &mut impl Write) -> io::Result<()> {
    for (row, value, source) in effective.rows() {
        let line = format!("{} = {value}", row.key);
        writeln!(out, "{line:<44} # {source}")?;
    }
    out.flush()
}
