//! Runs the suite as a child process and reads what it left.
//!
//! It plays its scenarios one after the other; what runs side by side are the tests of the
//! revisions. Fifty scenarios take eleven seconds, nine of which the suite waits for its tasks.

use std::io::{self, PipeReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::verdict::Scenario;

/// How long the scenarios of one revision may take together.
const PATIENCE: Duration = Duration::from_mins(3);

/// Which scenarios are played, and by a client of which revision.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Selection {
    /// What the suite asks of a revision, scored or not.
    Requirements(&'static str),
    /// Whatever applies to a revision that the suite has no list of requirements for.
    Applicable(&'static str),
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) scenarios: Vec<Scenario>,
    pub(crate) status: ExitStatus,
    pub(crate) said: String,
}

/// Plays a selection of scenarios against the server at `url`.
pub(crate) fn run(selection: Selection, url: &str) -> Run {
    let results = tempfile::tempdir().expect("a folder for a moment");
    let (reader, writer) = io::pipe().expect("a pipe");
    let mut command = command();
    command.args(["server", "--url", url, "--output-dir"]).arg(results.path());
    match selection {
        Selection::Requirements(revision) => command.args(["--requirements", revision]),
        Selection::Applicable(revision) => {
            command.args(["--suite", "all", "--spec-version", revision])
        }
    };
    command.arg("--expected-failures").arg(sources().join("expected-failures.yml"));
    command.stdin(Stdio::null());
    command.stdout(writer.try_clone().expect("a pipe has as many ends as one likes"));
    command.stderr(writer);
    let suite = Running(command.spawn().expect("the suite starts"));
    // The writing ends must go for the pipe to end with the suite.
    drop(command);
    let (said, status) = suite.end(reader);

    let entries = results.path().read_dir().expect("the results are in a folder");
    let mut folders: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    folders.sort();
    let scenarios = folders.iter().map(|folder| Scenario::read(folder)).collect();
    Run { scenarios, status, said }
}

/// The suite, running. It never outlives its test.
struct Running(Child);

impl Running {
    /// Waits until it has ended by itself: all that it said, and how it ended.
    fn end(mut self, mut reader: PipeReader) -> (String, ExitStatus) {
        let (sender, said) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = reader.read_to_end(&mut bytes);
            // Nobody listens any more where patience has ended.
            drop(sender.send(read.map(|_| String::from_utf8_lossy(&bytes).into_owned())));
        });
        let said = said.recv_timeout(PATIENCE).expect("the suite ends in time");
        let status = self.0.wait().expect("a child can be waited for");
        (said.expect("a pipe can be read"), status)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where it has ended already, which is what is wanted.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The suite, on the Node.js that was installed with it.
fn command() -> Command {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("conformance");
    assert!(
        folder.join("installed").is_file(),
        "the suite is not in {}: run tests/conformance/install.sh (./test.sh does)",
        folder.display()
    );
    let programs = folder.join("node_modules/.bin");
    let mut command = Command::new(programs.join("node"));
    command.arg(programs.join("conformance"));
    command
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}
