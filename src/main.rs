//! The `corelane` binary: runs the command line.

#![forbid(unsafe_code)]

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
