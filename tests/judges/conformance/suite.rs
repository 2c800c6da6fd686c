//! Runs the suite as a child process and reads its results.
//!
//! The suite runs its scenarios one after the other; the tests of the revisions run in parallel.
//! Fifty scenarios take eleven seconds, of which the suite waits nine for tasks.

use std::io::{self, PipeReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::conformance::results::Scenario;

/// Timeout of all scenarios of one revision.
const RUN_TIMEOUT: Duration = Duration::from_mins(3);

/// The scenarios to run and the revision of the client.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Selection<'s> {
    /// Requirements of a revision, scored or not.
    Requirements(&'static str),
    /// Scenarios that apply to a revision without a list of requirements.
    Applicable(&'static str),
    /// One scenario, with a client of the latest revision.
    Scenario(&'s str),
}

/// Results of one run of the suite.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) status: ExitStatus,
    pub(crate) output: String,
}

/// Runs a selection of scenarios against the server at `url`.
pub(crate) fn run(selection: Selection<'_>, url: &str) -> Run {
    let mut command = command();
    command.args(["server", "--url", url]);
    match selection {
        Selection::Requirements(revision) => command.args(["--requirements", revision]),
        Selection::Applicable(revision) => {
            command.args(["--suite", "all", "--spec-version", revision])
        }
        Selection::Scenario(name) => {
            // Scenarios of extensions belong to no revision.
            command.args(["--scenario", name, "--spec-version", "2026-07-28", "--force"])
        }
    };
    run_command(command)
}

/// Runs the scenarios that the flags in `selection` select against the client that `program` is;
/// the suite starts it for each scenario.
pub(crate) fn run_client(selection: &[&str], program: &Path) -> Run {
    let mut command = command();
    command.arg("client").args(selection).arg("--command").arg(program);
    run_command(command)
}

fn run_command(mut command: Command) -> Run {
    let results = tempfile::tempdir().expect("a temporary directory");
    let (reader, writer) = io::pipe().expect("a pipe");
    command.arg("--output-dir").arg(results.path());
    command.arg("--expected-failures").arg(source_dir().join("expected-failures.yml"));
    command.stdin(Stdio::null());
    command.stdout(writer.try_clone().expect("the pipe can be duplicated"));
    command.stderr(writer);
    let suite = SuiteProcess(command.spawn().expect("the suite starts"));
    // The pipe ends with the suite only if this process holds no write end.
    drop(command);
    let (output, status) = suite.wait(reader);

    let scenarios = Scenario::read_all(results.path());
    Run { scenarios, status, output }
}

/// A running suite; killed when dropped.
struct SuiteProcess(Child);

impl SuiteProcess {
    /// Waits for the process to exit; returns its output and its status.
    fn wait(mut self, mut reader: PipeReader) -> (String, ExitStatus) {
        let (sender, output) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = reader.read_to_end(&mut bytes);
            // The receiver is gone after a timeout.
            drop(sender.send(read.map(|_| String::from_utf8_lossy(&bytes).into_owned())));
        });
        let output = output.recv_timeout(RUN_TIMEOUT).expect("the suite ends in time");
        let status = self.0.wait().expect("the child can be waited for");
        (output.expect("the pipe can be read"), status)
    }
}

impl Drop for SuiteProcess {
    fn drop(&mut self) {
        // Both fail only if the process has already exited.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Returns the command of the suite, with the Node.js installed for it.
fn command() -> Command {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    assert!(
        dir.join("installed").is_file(),
        "the suite is not in {}: run tests/judges/conformance/install.sh (./test.sh does)",
        dir.display()
    );
    let programs = dir.join("node_modules/.bin");
    let mut command = Command::new(node());
    command.arg(programs.join("conformance"));
    command
}

/// Returns the path of the Node.js installed for the suite.
pub(crate) fn node() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance/node_modules/.bin/node")
}

fn source_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judges/conformance")
}
