//! `corelane-load`: the program. Its commands stand in [`cli`], everything else in the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

mod cli;

fn main() -> ExitCode {
    cli::run(std::env::args_os())
}
