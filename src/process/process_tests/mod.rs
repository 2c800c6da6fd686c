//! Tests with real processes. The programs that they need are this test program itself, with the
//! name of a test that is ignored otherwise.

mod ends;
mod reach;
mod starts;
mod supervision;

use std::fs::File;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::{
    ChildHandle, ChildSpec, ChildStdio, Exit, Supervisor, SupervisorCommand, run_supervisor,
};

/// Until a test fails that waits for an event.
const TIMEOUT: Duration = Duration::from_mins(2);

#[test]
#[ignore = "the supervisor process of the tests"]
fn supervisor_process() {
    run_supervisor().unwrap_or(());
}

fn supervisor() -> Supervisor {
    Supervisor::start(SupervisorCommand::this_program(test_arguments("supervisor_process")))
        .unwrap()
}

/// The arguments of this program for a test, on the first thread.
fn test_arguments(name: &str) -> [String; 5] {
    let name = format!("process_tests::{name}");
    [&name, "--exact", "--include-ignored", "--test-threads=1", "--nocapture"].map(String::from)
}

/// A shell with a script.
fn shell(script: &str) -> ChildSpec {
    let mut spec = ChildSpec::new("/bin/sh");
    spec.arguments = vec!["-c".into(), script.into()];
    spec
}

/// A child with pipes.
struct TestChild {
    handle: ChildHandle,
    stdin: PipeWriter,
    stdout: BufReader<PipeReader>,
    stderr: PipeReader,
    exit: Receiver<Exit>,
}

/// What a child has written, and how it has ended.
#[derive(Debug, Eq, PartialEq)]
struct Outcome {
    exit: Exit,
    stdout: String,
    stderr: String,
}

impl TestChild {
    fn spawn(supervisor: &Supervisor, spec: &ChildSpec) -> Self {
        let (stdin_child, stdin) = pipe().unwrap();
        let (stdout, stdout_child) = pipe().unwrap();
        let (stderr, stderr_child) = pipe().unwrap();
        let stdio = ChildStdio {
            stdin: stdin_child.into(),
            stdout: stdout_child.into(),
            stderr: stderr_child.into(),
        };
        let (exit_tx, exit) = channel();
        let on_exit = move |exit| exit_tx.send(exit).unwrap_or(());
        let handle = supervisor.spawn(spec, stdio, on_exit).unwrap();
        Self { handle, stdin, stdout: BufReader::new(stdout), stderr, exit }
    }

    fn read_line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn write_line(&mut self) {
        self.stdin.write_all(b"\n").unwrap();
    }

    /// Reads until no process has the pipes, and waits for the exit.
    fn finish(mut self) -> Outcome {
        drop(self.stdin);
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.stdout.read_to_string(&mut stdout).unwrap();
        self.stderr.read_to_string(&mut stderr).unwrap();
        Outcome { exit: self.exit.recv_timeout(TIMEOUT).unwrap(), stdout, stderr }
    }
}

fn run(supervisor: &Supervisor, spec: &ChildSpec) -> Outcome {
    TestChild::spawn(supervisor, spec).finish()
}

/// Returns why a child is not started.
fn refusal(supervisor: &Supervisor, spec: &ChildSpec) -> String {
    match run(supervisor, spec).exit {
        Exit::NotStarted(why) => why,
        exit => panic!("{exit}"),
    }
}

/// Standard streams that lead nowhere.
fn no_stdio() -> ChildStdio {
    let null =
        || -> OwnedFd { File::options().read(true).write(true).open("/dev/null").unwrap().into() };
    ChildStdio { stdin: null(), stdout: null(), stderr: null() }
}

/// The process id of the supervisor.
fn supervisor_id(supervisor: &Supervisor) -> i32 {
    run(supervisor, &shell("echo $PPID")).stdout.trim().parse().unwrap()
}

fn is_running(process: &str) -> bool {
    let id = process.trim().parse().unwrap();
    crate::proc_table::Stat::of(id).is_some_and(|stat| !stat.is_zombie)
}

/// Waits until a process has ended.
fn wait_for_end(process: i32) {
    let Ok(process) = pidfd_open(Pid::from_raw(process).unwrap(), PidfdFlags::empty()) else {
        return;
    };
    let mut polled = [PollFd::new(&process, PollFlags::IN)];
    let timeout = TIMEOUT.try_into().unwrap();
    assert_eq!(poll(&mut polled, Some(&timeout)), Ok(1));
}
