//! `corelane-load`: the binary. Commands are in [`cli`], everything else is in the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
