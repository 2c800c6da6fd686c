//! Runs the suite's fuzzing client as a child process.
//!
//! It plays its cases one after the other, each over a connection of its own, and bounds each by
//! itself; what bounds them all is the patience of a test. What it says of its progress goes to a
//! file: writing to a pipe that its test has left behind would keep it from noticing that there is
//! no server any more, and from ending.

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

/// How long the cases of one test may take together, on a machine that does other things too.
const PATIENCE: Duration = Duration::from_mins(10);

/// What became of them.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) cases: Vec<Case>,
    pub(crate) status: ExitStatus,
    pub(crate) said: String,
}

/// Plays the cases of some patterns against the server at `address`.
pub(crate) fn run(patterns: &[&str], address: SocketAddr) -> Run {
    let folder = tempfile::tempdir().expect("a folder for a moment");
    let reports = folder.path().join("reports");
    let plan = json!({
        "outdir": reports,
        "servers": [{ "agent": "corelane", "url": format!("ws://{address}") }],
        "cases": patterns,
        "exclude-cases": [],
        "exclude-agent-cases": {},
    });
    let (plan_file, progress_file) = (folder.path().join("plan"), folder.path().join("progress"));
    std::fs::write(&plan_file, plan.to_string()).expect("the folder is writable");

    let mut command = command();
    command.args(["--mode", "fuzzingclient", "--spec"]).arg(plan_file);
    command.stdin(Stdio::null());
    command.stdout(File::create(&progress_file).expect("the folder is writable"));
    command.stderr(Stdio::piped());
    let (problems, status) = Running(command.spawn().expect("the suite starts")).end();
    let progress = std::fs::read_to_string(progress_file).unwrap_or_default();
    Run { cases: Case::read_all(&reports), status, said: progress + &problems }
}

/// The suite, running. It never outlives its test.
struct Running(Child);

impl Running {
    /// Waits until it has ended by itself: what went wrong in its own eyes, and how it ended.
    fn end(mut self) -> (String, ExitStatus) {
        let mut stderr = self.0.stderr.take().expect("standard error is a pipe");
        let (sender, problems) = channel();
        thread::spawn(move || {
            let mut bytes = Vec::new();
            let read = stderr.read_to_end(&mut bytes);
            // Nobody listens any more where patience has ended.
            drop(sender.send(read.map(|_| String::from_utf8_lossy(&bytes).into_owned())));
        });
        let problems = problems.recv_timeout(PATIENCE).expect("the suite ends in time");
        let status = self.0.wait().expect("a child can be waited for");
        (problems.expect("a pipe can be read"), status)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only where it has ended already, which is what is wanted.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The suite, on the Python that was installed for it.
fn command() -> Command {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("autobahn");
    assert!(
        folder.join("installed").is_file(),
        "the suite is not in {}: run tests/autobahn/install.sh (./test.sh does)",
        folder.display()
    );
    let programs = folder.join("python/bin");
    let mut command = Command::new(programs.join("python"));
    // That the Python of the suite is old is known.
    command.env("PYTHONWARNINGS", "ignore").arg(programs.join("wstest"));
    command
}
