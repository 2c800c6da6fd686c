//! `corelane-load` against servers: of Corelane, scripted ones and those of others.
//!
//! The modules share a process and run in parallel; what they write below the target directory has
//! names of their own. `memory` is a program by itself: it counts allocations.

mod agreement;
mod command;
mod drive;
mod hostile;
mod interrupts;
mod judgements;
mod listen;
mod many;
mod other_servers;
mod pipes;
mod plans;
mod report;
mod scenes;
mod schemas;
mod supervision;
mod tls;
mod truth;
mod tuning;
mod users;

use std::path::{Path, PathBuf};

use corelane_test_support::{ExitResult, run_program};

/// The program under test.
const LOAD: &str = env!("CARGO_BIN_EXE_corelane-load");

/// Flags of a short run that is valid on every machine.
const SHORT: [&str; 4] = ["--closed", "--connections=2", "--warm-up=0s", "--duration=300ms"];

/// Runs the program and returns its output. A result that it writes is validated.
fn load<'a>(arguments: impl IntoIterator<Item = &'a str>) -> ExitResult {
    let arguments: Vec<&str> = arguments.into_iter().collect();
    let ended = run_program(LOAD, arguments.iter().copied());
    for path in schemas::json_files(&arguments).filter(|_| ended.status != 2) {
        schemas::validate(path);
    }
    ended
}

/// Returns the lines of standard error without the warnings about the machine, which may be busy.
fn lines_without_warnings(stderr: &str) -> Vec<&str> {
    stderr.lines().filter(|line| !line.starts_with("warning: ")).collect()
}

/// Returns the path of a file of one test.
fn file_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}
