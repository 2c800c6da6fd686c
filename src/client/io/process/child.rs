//! Programs that are children of this process, in the group of a shell that watches it.
//!
//! `PR_SET_PDEATHSIG` is no substitute: it is set between fork and exec, it names the thread that
//! started the program, which may end before, and it does not reach what the program has started.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::pipes::ProgramPipes;
use super::{ProgramExit, environment};
use crate::target::Program;

/// A program that is a child of this process.
#[derive(Debug)]
pub(super) struct WatchedChild {
    child: Child,
    /// Leads the process group, and ends it if this process is killed. Without it the child leads
    /// its group.
    watcher: Option<Watcher>,
}

impl WatchedChild {
    /// Starts `program`.
    pub(super) fn start(program: &Program, pipes: ProgramPipes) -> io::Result<Self> {
        let mut command = Command::new(&program.program);
        let watcher = Watcher::start();
        let leader = watcher.as_ref().and_then(|watcher| i32::try_from(watcher.leader().id()).ok());
        command.args(&program.arguments).process_group(leader.unwrap_or(0));
        command.env_clear().envs(environment(program));
        if let Some(directory) = &program.directory {
            command.current_dir(directory);
        }
        let ProgramPipes { stdin, stdout, stderr } = pipes;
        let child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn()?;
        Ok(Self { child, watcher })
    }

    /// Returns how the program has ended, or `None` while it runs. The child is not reaped.
    pub(super) fn exit(&self) -> Option<ProgramExit> {
        let id = process_id(&self.child)?;
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(id), options).ok()??;
        let signal = || status.terminating_signal().map(ProgramExit::Signal);
        status.exit_status().map(ProgramExit::Status).or_else(signal)
    }

    /// Ends the program, whose input is closed.
    pub(super) fn stop(mut self, exit_timeout: Duration) -> Option<ExitStatus> {
        stop(&mut self.child, exit_timeout, self.watcher.as_ref())
    }
}

fn process_id(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Ends `child` and its process group, and returns how it has ended. The leader of the group is
/// reaped after that: until then its id names the group and no other.
fn stop(
    child: &mut Child,
    exit_timeout: Duration,
    watcher: Option<&Watcher>,
) -> Option<ExitStatus> {
    let group = process_id(watcher.map_or(child, Watcher::leader));
    if let (Some(id), Some(group)) = (process_id(child), group) {
        let exited = notify_exit(id);
        for signal in [Signal::TERM, Signal::KILL] {
            // Also an error once there is no thread that waits.
            if exited.recv_timeout(exit_timeout) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            send_to_group(group, signal);
        }
        // What the program has started and left behind.
        send_to_group(group, Signal::KILL);
    }
    match child.wait() {
        Ok(status) => Some(status),
        Err(error) => {
            tracing::warn!(%error, "the program of a server cannot be awaited");
            None
        }
    }
}

/// Sends `signal` to a process group, which may be empty.
fn send_to_group(id: Pid, signal: Signal) {
    if let Err(error) = kill_process_group(id, signal) {
        tracing::debug!(%error, "the program of a server gets no signal");
    }
}

/// Returns a channel that receives a message when a child exits; the child is not reaped.
fn notify_exit(id: Pid) -> Receiver<()> {
    let (exited_tx, exited_rx) = bounded(1);
    let wait = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        if let Err(error) = waitid(WaitId::Pid(id), options) {
            tracing::debug!(%error, "the program of a server cannot be awaited");
        }
        // Fails if the program was ended before.
        exited_tx.send(()).unwrap_or(());
    };
    if let Err(error) = std::thread::Builder::new().name("corelane-wait".into()).spawn(wait) {
        tracing::warn!(%error, "no thread to wait for the program of a server");
    }
    exited_rx
}

/// Waits for the end of its input, which ends with this process, and then ends its process group.
const SCRIPT: &str = "trap '' TERM; read -r _; sleep 1; kill -TERM 0; sleep 5; kill -KILL 0";

/// A shell that watches this process. It leads the process group of a program, and exists before
/// it. Dropping it ends the shell alone.
#[derive(Debug)]
struct Watcher {
    shell: Child,
    /// Open as long as this process runs; no other process has it.
    _input: Option<ChildStdin>,
}

impl Watcher {
    /// Starts to watch, or logs why that is not possible.
    fn start() -> Option<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match shell {
            Ok(mut shell) => Some(Self { _input: shell.stdin.take(), shell }),
            Err(error) => {
                tracing::warn!(%error, "the program of a server outlives this process if killed");
                None
            }
        }
    }

    /// Returns the shell, which leads the process group.
    const fn leader(&self) -> &Child {
        &self.shell
    }

    fn end(&mut self) -> io::Result<()> {
        self.shell.kill()?;
        self.shell.wait()?;
        Ok(())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Before its input is closed.
        if let Err(error) = self.end() {
            tracing::debug!(%error, "the shell that watches this process cannot be ended");
        }
    }
}
