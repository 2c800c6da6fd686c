//! Tests of figures and verdicts against servers of exactly known behaviour.
//!
//! The machine may be busy. A test asserts against the log of the server, and repeats a run that
//! the tool calls invalid.

#![expect(clippy::unwrap_used, reason = "test setup")]

mod compare;
mod cpu;
mod figures;
mod framing;
mod memory;
mod outputs;
mod python_server;
mod saturation;
mod server;
mod thresholds;
mod timeouts;

use std::sync::atomic::{AtomicUsize, Ordering};

use corelane_load::result::{RunResult, RunStatus};
use corelane_test_support::ExitResult;

pub(crate) use self::server::{ServerModel, TruthServer};
use crate::{file_path, load};

/// Runs that may be invalid before a test fails.
const RUNS_MAX: usize = 10;
/// Number of the next result file.
static NEXT_FILE: AtomicUsize = AtomicUsize::new(0);

/// A run of the program.
pub(crate) struct Run {
    pub(crate) result: RunResult,
    pub(crate) server: TruthServer,
    pub(crate) ended: ExitResult,
}

/// Runs `corelane-load run` with these flags against a new server, again while the run is invalid.
pub(crate) fn run(model: ServerModel, flags: &[&str]) -> Run {
    for _ in 0..RUNS_MAX {
        let server = TruthServer::start(model);
        let number = NEXT_FILE.fetch_add(1, Ordering::Relaxed);
        let file = file_path(&format!("truth-{number}.json"));
        let json = format!("--json={}", file.display());
        let target = server.target();
        let ended =
            load(["run", &target, &json, "--quiet"].into_iter().chain(flags.iter().copied()));
        let text = std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("{}", ended.stderr));
        let result: RunResult = serde_json::from_str(&text).unwrap();
        if result.status() != RunStatus::Invalid {
            return Run { result, server, ended };
        }
        eprintln!("{}", ended.stdout);
    }
    panic!("every run is invalid");
}
