//! Runs the suite's fuzzing client or its fuzzing server as a child process.
//!
//! It runs its cases one after the other, each over its own connection and with its own timeout.
//! Its progress output goes to a file: writing to a pipe whose test has ended would keep it from
//! noticing that the server is gone.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::autobahn::report::Case;

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

/// The suite's fuzzing server, for the client; killed when dropped.
#[derive(Debug)]
pub(crate) struct FuzzingServer {
    address: SocketAddr,
    reports: tempfile::TempDir,
    _process: SuiteProcess,
}

impl FuzzingServer {
    /// Starts a server of the cases that match `patterns`, without those that match `excluded`.
    pub(crate) fn start(patterns: &[&str], excluded: &[&str]) -> Self {
        // The suite takes no port 0, and another program may take a port that was free.
        let started = (0..PORTS_MAX).find_map(|_| Self::start_once(patterns, excluded));
        started.expect("the suite listens on a free port")
    }

    fn start_once(patterns: &[&str], excluded: &[&str]) -> Option<Self> {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let free = TcpListener::bind(any).and_then(|listener| listener.local_addr());
        let address = free.expect("a free loopback port");
        let reports = tempfile::tempdir().expect("a temporary directory");
        let spec = json!({
            "url": format!("ws://{address}"),
            "outdir": reports.path(),
            "cases": patterns,
            "exclude-cases": excluded,
            "exclude-agent-cases": {},
        });
        let spec_file = reports.path().join("spec");
        std::fs::write(&spec_file, spec.to_string()).expect("the directory is writable");
        let mut command = command();
        command.args(["--mode", "fuzzingserver", "--webport", "0", "--spec"]).arg(spec_file);
        command.env("PYTHONUNBUFFERED", "1").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = SuiteProcess(command.spawn().expect("the suite starts"));
        let stdout = process.0.stdout.take().expect("standard output is a pipe");
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        // Printed after its bind(2) and before its listen(2).
        lines.find(|line| line.contains("Fuzzing Server (Port"))?;
        while TcpStream::connect(address).is_err() {
            if !matches!(process.0.try_wait(), Ok(None)) {
                return None;
            }
            thread::yield_now();
        }
        // Its further output must not fill the pipe.
        thread::spawn(move || lines.for_each(drop));
        Some(Self { address, reports, _process: process })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the results, once the client has asked for the reports.
    pub(crate) fn cases(&self) -> Vec<Case> {
        Case::read_all(self.reports.path())
    }
}

/// Ports that are tried.
const PORTS_MAX: usize = 5;

/// A running suite; killed when dropped.
#[derive(Debug)]
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
        "the suite is not in {}: run tests/judges/autobahn/install.sh (./test.sh does)",
        dir.display()
    );
    let programs = dir.join("python/bin");
    let mut command = Command::new(programs.join("python"));
    // Python 2.7 warns about its age.
    command.env("PYTHONWARNINGS", "ignore").arg(programs.join("wstest"));
    command
}
