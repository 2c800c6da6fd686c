//! Signals that end a run, and its partial result.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "test setup")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use corelane_load::result::{RunResult, RunStatus};
use corelane_load::sweep::SweepResult;
use corelane_load::target::{Target, Transport};
use rustix::process::{Pid, Signal, kill_process};
use serde::de::DeserializeOwned;

use crate::pipes::server_command;
use crate::truth::{ServerModel, TruthServer};
use crate::{LOAD, file_path};

/// A command that has written a line of its progress.
struct RunningCommand {
    command: Child,
    stderr: BufReader<std::process::ChildStderr>,
}

impl RunningCommand {
    fn start(arguments: &[&str]) -> Self {
        let mut command = Command::new(LOAD)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(command.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("  p99 ") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "no progress");
        }
        Self { command, stderr }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.command), signal).unwrap();
    }

    /// Returns how the command has ended, and its output.
    fn end(mut self) -> (ExitStatus, String) {
        let mut output = String::new();
        self.command.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        self.stderr.read_to_string(&mut output).unwrap();
        (self.command.wait().unwrap(), output)
    }
}

fn read<T: DeserializeOwned>(path: &std::path::Path) -> T {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

const LONG: [&str; 4] = ["--rate=100", "--duration=1h", "--warm-up=0s", "--progress=lines"];

#[test]
fn interrupted_run_has_a_partial_result() {
    let over_pipes = ["sh".to_owned(), "-c".into(), server_command()].to_vec();
    let server = TruthServer::start(ServerModel {
        service_time: Duration::from_millis(1),
        ..ServerModel::default()
    });
    let targets = [server.target(), Target::Command(over_pipes).to_string()];
    for (target, signal) in targets.iter().zip([Signal::INT, Signal::TERM]) {
        let file = file_path(&format!("interrupted-{}.json", signal.as_raw()));
        let json = format!("--json={}", file.display());
        let flags = ["run", target, "--era=legacy", &json];
        let running = RunningCommand::start(&[&flags[..], &LONG].concat());
        running.signal(signal);
        let (status, output) = running.end();
        assert_eq!(status.code(), Some(3), "{output}");
        let reason = output.lines().next().unwrap();
        assert!(
            reason.starts_with("INVALID  stopped after ") && reason.contains(" of "),
            "{output}"
        );
        let result: RunResult = read(&file);
        let totals = &result.totals;
        assert_eq!(result.status(), RunStatus::Invalid);
        assert!(totals.duration_s >= 0.9 && totals.duration_s < 3_600.0, "{output}");
        assert_eq!(totals.due, totals.answered, "{output}");
        assert!(totals.due >= 90 && totals.failures.is_empty(), "{output}");
    }
}

#[test]
fn outstanding_requests_of_interrupted_run_are_no_failures() {
    let server = TruthServer::start(ServerModel { lost_each: Some(2), ..ServerModel::default() });
    let file = file_path("interrupted-open.json");
    let json = format!("--json={}", file.display());
    let target = server.target();
    let flags = ["run", &target, "--timeout=1h", "-c", "1000"];
    let running = RunningCommand::start(&[&flags[..], &[&json], &LONG].concat());
    running.signal(Signal::INT);
    let (status, output) = running.end();
    assert_eq!(status.code(), Some(3), "{output}");
    let totals = read::<RunResult>(&file).totals;
    assert!(totals.answered > 0 && totals.failures.is_empty(), "{output}");
    assert_eq!(totals.due, totals.answered);
}

#[test]
fn second_signal_ends_the_command() {
    let server = TruthServer::start(ServerModel { lost_each: Some(1), ..ServerModel::default() });
    let target = server.target();
    let flags = ["run", &target, "--timeout=1h"];
    let running = RunningCommand::start(&[&flags[..], &LONG].concat());
    // A stopped process receives both before it can end. Whichever is handled first, the other one
    // ends the command.
    for signal in [Signal::STOP, Signal::INT, Signal::TERM, Signal::CONT] {
        running.signal(signal);
    }
    let (status, output) = running.end();
    let signals = [Signal::INT, Signal::TERM].map(Signal::as_raw);
    assert!(status.signal().is_some_and(|signal| signals.contains(&signal)), "{status} {output}");
}

#[test]
fn interrupted_search_returns_what_was_found() {
    let server = TruthServer::start(ServerModel {
        transport: Transport::Tcp,
        service_time: Duration::from_millis(1),
        ..ServerModel::default()
    });
    let file = file_path("interrupted-search.json");
    let json = format!("--json={}", file.display());
    let target = server.target();
    let flags = ["search", &target, "--errors-max=0", "--rate-first=10", "--duration=1s", &json];
    let running = RunningCommand::start(&flags);
    running.signal(Signal::INT);
    let (status, output) = running.end();
    assert_eq!(status.code(), Some(3), "{output}");
    assert!(output.contains("the search was stopped"), "{output}");
    let result: SweepResult = read(&file);
    assert!(result.search.is_stopped && result.is_invalid());
}
