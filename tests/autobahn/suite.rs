//! Runs the suite's fuzzing client as a child process.
//!
//! It runs its cases one after the other, each over its own connection and with its own timeout.
//! Its progress output goes to a file: writing to a pipe whose test has ended would keep it from
//! noticing that the server is gone.

use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::report::Case;

/// Timeout of all cases of one test, on a loaded machine.
const RUN_TIMEOUT: Duration = Duration::from_mins(10);

/// Results of one run of the suite.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) cases: Vec<Case>,
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
}

/// Runs the cases that match `patterns` against the server at `address`.
pub(crate) fn run(patterns: &[&str], address: SocketAddr) -> Run {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let reports = dir.path().join("reports");
    let spec = json!({
        "outdir": reports,
        "servers": [{ "agent": "corelane", "url": format!("ws://{address}") }],
        "cases": patterns,
        "exclude-cases": [],
        "exclude-agent-cases": {},
    });
    let (spec_file, progress_file) = (dir.path().join("spec"), dir.path().join("progress"));
    std::fs::write(&spec_file, spec.to_string()).expect("the directory is writable");

    let mut command = command();
    command.args(["--mode", "fuzzingclient", "--spec"]).arg(spec_file);
    command.stdin(Stdio::null());
    command.stdout(File::create(&progress_file).expect("the directory is writable"));
    command.stderr(Stdio::piped());
    let (errors, status) = SuiteProcess(command.spawn().expect("the suite starts")).wait();
    let progress = std::fs::read_to_string(progress_file).unwrap_or_default();
    Run { cases: Case::read_all(&reports), status, output: progress + &errors }
}

/// A running suite; killed when dropped.
struct SuiteProcess(Child);

impl SuiteProcess {
    /// Waits for the process to exit; returns its standard error and its status.
    fn wait(mut self) -> (String, ExitStatus) {
        let mut stderr = self.0.stderr.take().expect("standard error is a pipe");
        let (sender, errors) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = stderr.read_to_end(&mut bytes);
            // The receiver is gone after a timeout.
            drop(sender.send(read.map(|_| String::from_utf8_lossy(&bytes).into_owned())));
        });
        let errors = errors.recv_timeout(RUN_TIMEOUT).expect("the suite ends in time");
        let status = self.0.wait().expect("the child can be waited for");
        (errors.expect("the pipe can be read"), status)
    }
}

impl Drop for SuiteProcess {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns the command of the suite, with the Python installed for it.
fn command() -> Command {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("autobahn");
    assert!(
        dir.join("installed").is_file(),
        "the suite is not in {}: run tests/autobahn/install.sh (./test.sh does)",
        dir.display()
    );
    let programs = dir.join("python/bin");
    let mut command = Command::new(programs.join("python"));
    // Python 2.7 warns about its age.
    command.env("PYTHONWARNINGS", "ignore").arg(programs.join("wstest"));
    command
}
