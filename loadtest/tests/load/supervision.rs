//! Tests that no process survives a command, however it ends.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "test setup")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use corelane_load::metrics::process_tree::ProcessTree;
use corelane_load::target::Target;
use corelane_test_support::TIMEOUT;
use rustix::process::{Pid, Signal, kill_process};

use crate::LOAD;
use crate::pipes::server_command;

/// A running command, whose program has left a process in a session of its own.
struct RunningCommand {
    command: Child,
    /// Lines of standard error, which every process of the command holds open.
    lines: Receiver<String>,
}

impl RunningCommand {
    fn start(flags: &[&str]) -> Self {
        Self::start_with_trap("", flags)
    }

    /// Starts a command whose left process ignores these signals.
    fn start_with_trap(ignored: &str, flags: &[&str]) -> Self {
        let trap =
            if ignored.is_empty() { String::new() } else { format!("trap \"\" {ignored}; ") };
        let script = format!("(setsid sh -c '{trap}echo ready >&2; exec sleep 600' &); exec cat");
        let target = Target::Command(["sh", "-c", &script].map(String::from).to_vec()).to_string();
        let command = Command::new(LOAD)
            .args(["run", &target, "--server-stderr=inherit", "--quiet"])
            .args(["--era=modern", "--tool=echo", "--arguments={}"])
            .args(flags)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self::when_ready(command)
    }

    /// Starts a command that waits for this server, which writes "ready" and does not listen.
    fn start_with_server(server: &[&str]) -> Self {
        // No server has it: the listener that found it is closed.
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let command = Command::new(LOAD)
            .args(["run", &format!("tcp://{free}"), "--connect-timeout=1h"])
            .arg(format!("--server={}", shlex::try_join(server.iter().copied()).unwrap()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self::when_ready(command)
    }

    /// Waits until the program of a command is ready.
    fn when_ready(mut command: Child) -> Self {
        let stderr = BufReader::new(command.stderr.take().unwrap());
        let (tx, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines() {
                drop(tx.send(line.unwrap()));
            }
        });
        let running = Self { command, lines };
        assert_eq!(running.lines.recv_timeout(TIMEOUT).as_deref(), Ok("ready"));
        running
    }

    /// Returns the supervisor, the worker and the processes below it.
    fn descendants(&self) -> Vec<Pid> {
        let below = ProcessTree::scan().descendants(&[self.command.id()]);
        below.into_iter().map(|pid| Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()).collect()
    }

    /// Waits until no process holds standard error.
    fn assert_all_ended(mut self, case: &str) {
        loop {
            match self.lines.recv_timeout(TIMEOUT) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => panic!("{case}: a process is still running"),
            }
        }
        self.command.wait().unwrap();
    }
}

#[test]
fn signal_to_command_ends_all_processes() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::KILL] {
        let running = RunningCommand::start(&["--connect-timeout=1h"]);
        kill_process(Pid::from_child(&running.command), signal).unwrap();
        running.assert_all_ended(&format!("{signal:?}"));
    }
}

#[test]
fn process_that_ignores_sigterm_is_killed() {
    let running = RunningCommand::start_with_trap("TERM", &["--connect-timeout=1h"]);
    kill_process(Pid::from_child(&running.command), Signal::KILL).unwrap();
    running.assert_all_ended("SIGKILL after SIGTERM");
}

#[test]
fn killed_supervisor_or_worker_ends_all_processes() {
    for place in [0, 1] {
        let running = RunningCommand::start(&["--connect-timeout=1h"]);
        kill_process(running.descendants()[place], Signal::KILL).unwrap();
        running.assert_all_ended(&place.to_string());
    }
}

#[test]
fn any_two_killed_processes_end_all_others() {
    for spared in 0..3 {
        let running = RunningCommand::start(&["--connect-timeout=1h"]);
        let below = running.descendants();
        let mut killed = vec![Pid::from_child(&running.command), below[0], below[1]];
        killed.remove(spared);
        // A stopped process does nothing before it is killed, too.
        for pid in &killed {
            kill_process(*pid, Signal::STOP).unwrap();
        }
        // From below, since the end of one above lets those below continue. The last may have ended
        // with the first.
        for pid in killed.iter().rev() {
            kill_process(*pid, Signal::KILL).unwrap_or(());
        }
        running.assert_all_ended(&spared.to_string());
    }
}

#[test]
fn server_ends_with_all_three_killed_processes() {
    let script = "echo ready >&2; exec sleep 600";
    let running = RunningCommand::start_with_server(&["sh", "-c", script]);
    let below = running.descendants();
    let killed = [Pid::from_child(&running.command), below[0], below[1]];
    for pid in &killed {
        kill_process(*pid, Signal::STOP).unwrap();
    }
    for pid in killed.iter().rev() {
        kill_process(*pid, Signal::KILL).unwrap_or(());
    }
    running.assert_all_ended("three killed");
}

#[test]
fn failed_run_ends_all_processes() {
    RunningCommand::start(&["--connect-timeout=300ms"]).assert_all_ended("connect timeout");
}

#[test]
fn supervised_command_keeps_exit_status() {
    let run = |flags: &[&str]| {
        let mut command = Command::new(LOAD);
        let output = command.args(["run", "--quiet"]).args(flags).output().unwrap();
        output.status.code()
    };
    assert_eq!(run(&["stdio:true"]), Some(2), "the program does not come up");
    let command = ["sh".to_owned(), "-c".into(), server_command()].to_vec();
    let target = Target::Command(command).to_string();
    let status = run(&[&target, "--closed", "--requests=20", "--warm-up=0s", "--p99-max=1us"]);
    // Other programs may have caused it on a busy machine.
    assert!(matches!(status, Some(1 | 3)), "a threshold is missed: {status:?}");
}
