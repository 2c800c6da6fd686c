//! The `corelane` binary: runs the command line.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    corelane::cli::run(std::env::args_os())
}
