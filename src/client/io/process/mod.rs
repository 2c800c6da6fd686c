//! The programs that a client starts: their start, their standard error and their end. They also
//! end if this process is killed.
//!
//! `PR_SET_PDEATHSIG` is no substitute: it is set between fork and exec, it names the thread that
//! started the program, which may end before, and it does not reach what the program has started.

mod events;

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use self::events::ProgramEvents;
pub use self::events::{ProgramCallback, ProgramEvent};
use crate::sync::CloseSlot;
use crate::target::{Program, ProgramStderr};

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

/// A running program. Dropping it, after its input is closed, ends it on a thread of its own: it
/// has its exit timeout to exit, then gets SIGTERM, and as much later SIGKILL, its process group
/// too.
pub struct ServerProcess {
    /// With its events; `None` once it is ended.
    child: Option<(Child, ProgramEvents)>,
    /// Another descriptor of the pipe that is its standard input.
    input: Option<OwnedFd>,
    exit_timeout: Duration,
    /// Leads the process group, and ends it if this process is killed.
    watcher: Option<Watcher>,
    /// Dropped once the program has ended.
    exit: Option<Arc<ExitNotifier>>,
}

impl ServerProcess {
    /// `child` is in the process group of `watcher`, or leads its own.
    const fn new(
        child: Child,
        input: Option<OwnedFd>,
        exit_timeout: Duration,
        watcher: Option<Watcher>,
        events: ProgramEvents,
    ) -> Self {
        Self { child: Some((child, events)), input, exit_timeout, watcher, exit: None }
    }

    /// Holds `exit` until the program has ended.
    pub fn hold(&mut self, exit: &Arc<ExitNotifier>) {
        self.exit = Some(Arc::clone(exit));
    }

    /// Returns how the program has ended, or `None` while it runs.
    pub fn exit(&self) -> Option<ProgramExit> {
        let (child, _) = self.child.as_ref()?;
        ProgramExit::of(process_id(child)?)
    }

    /// Returns whether something that was sent to the program was not read.
    pub fn has_unread_input(&self) -> bool {
        let input = self.input.as_ref();
        input.is_some_and(|input| ioctl_fionread(input).is_ok_and(|bytes| bytes > 0))
    }
}

impl fmt::Debug for ServerProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let child = self.child.as_ref().map(|(child, _)| child);
        formatter.debug_struct("ServerProcess").field("child", &child).finish_non_exhaustive()
    }
}

/// Sets slots when it is dropped: once the programs that hold it have ended.
#[derive(Debug, Default)]
pub struct ExitNotifier(Mutex<Vec<CloseSlot>>);

impl ExitNotifier {
    /// Adds a slot, if there is one.
    pub fn notify(&self, slot: Option<CloseSlot>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(slot);
    }
}

impl Drop for ExitNotifier {
    fn drop(&mut self) {
        for slot in self.0.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            slot.set(());
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let Some((mut child, events)) = self.child.take() else { return };
        // The program sees the end of its input.
        self.input = None;
        let (exit, watcher, exit_timeout) =
            (self.exit.take(), self.watcher.take(), self.exit_timeout);
        let stop = move || {
            let status = stop(&mut child, exit_timeout, watcher.as_ref());
            drop(watcher);
            if let Some(status) = status {
                events.report_exit(status);
            }
            drop(exit);
        };
        if let Err(error) = std::thread::Builder::new().name("corelane-stop".into()).spawn(stop) {
            tracing::warn!(%error, "no thread to end the program of a server");
        }
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

/// Environment variables that a program inherits.
const INHERITED_VARIABLES: [&str; 8] =
    ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

/// A program and its pipes.
pub struct StartedProgram {
    /// Written to.
    pub input: OwnedFd,
    /// Read from.
    pub output: OwnedFd,
    pub process: ServerProcess,
}

/// Starts `program`. Its events are passed to `on_event`, if there is one.
pub fn start(program: &Program, on_event: Option<ProgramCallback>) -> io::Result<StartedProgram> {
    let mut command = Command::new(&program.program);
    let watcher = Watcher::start();
    let leader = watcher.as_ref().and_then(|watcher| i32::try_from(watcher.leader().id()).ok());
    command.args(&program.arguments).process_group(leader.unwrap_or(0));
    if !program.inherits_env {
        command.env_clear();
        for name in INHERITED_VARIABLES {
            #[expect(clippy::disallowed_methods, reason = "the program inherits the variable")]
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
    }
    command.envs(program.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    let on_event = on_event.or_else(|| match program.stderr {
        ProgramStderr::Log => Some(log_events(program)),
        ProgramStderr::Inherit | ProgramStderr::Discard => None,
    });
    command.stderr(match (&on_event, program.stderr) {
        (Some(_), _) => Stdio::piped(),
        (None, ProgramStderr::Discard) => Stdio::null(),
        (None, _) => Stdio::inherit(),
    });
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (input, output, stderr) = pipes;
    let events = ProgramEvents::new(on_event, stderr);
    // Without it, a program that ends counts as one that has read what was sent.
    let input_copy = input.as_ref().and_then(|input| input.as_fd().try_clone_to_owned().ok());
    let process = ServerProcess::new(child, input_copy, program.exit_timeout, watcher, events);
    let (Some(input), Some(output)) = (input, output) else {
        return Err(io::Error::other("no pipe for a standard stream"));
    };
    Ok(StartedProgram { input: input.into(), output: output.into(), process })
}

/// Logs the lines of a program.
fn log_events(program: &Program) -> ProgramCallback {
    let program = program.program.to_string_lossy().into_owned();
    Arc::new(move |event| match event {
        ProgramEvent::Stderr(line) => {
            tracing::info!(target: "corelane::client::stderr", program, line);
        }
        ProgramEvent::Exited(status) => tracing::debug!(program, %status, "a program has ended"),
    })
}

/// How a program has ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ProgramExit {
    /// It has exited with this status.
    Status(i32),
    /// This signal has ended it.
    Signal(i32),
}

impl ProgramExit {
    /// Returns how a child has ended, or `None` while it runs. The child is not reaped.
    fn of(id: Pid) -> Option<Self> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(id), options).ok()??;
        let signal = || status.terminating_signal().map(Self::Signal);
        status.exit_status().map(Self::Status).or_else(signal)
    }
}

impl fmt::Display for ProgramExit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(formatter, "exited with status {status}"),
            Self::Signal(signal) => {
                write!(formatter, "was killed by signal {signal}")?;
                match signal_name(*signal) {
                    Some(name) => write!(formatter, " ({name})"),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Returns the name of a signal that ends a program, as signal(7) has it.
fn signal_name(signal: i32) -> Option<&'static str> {
    let name = match Signal::from_named_raw(signal)? {
        Signal::HUP => "SIGHUP",
        Signal::INT => "SIGINT",
        Signal::QUIT => "SIGQUIT",
        Signal::ILL => "SIGILL",
        Signal::TRAP => "SIGTRAP",
        Signal::ABORT => "SIGABRT",
        Signal::BUS => "SIGBUS",
        Signal::FPE => "SIGFPE",
        Signal::KILL => "SIGKILL",
        Signal::USR1 => "SIGUSR1",
        Signal::SEGV => "SIGSEGV",
        Signal::USR2 => "SIGUSR2",
        Signal::PIPE => "SIGPIPE",
        Signal::ALARM => "SIGALRM",
        Signal::TERM => "SIGTERM",
        Signal::XCPU => "SIGXCPU",
        Signal::XFSZ => "SIGXFSZ",
        Signal::SYS => "SIGSYS",
        _ => return None,
    };
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_is_described_by_status_or_signal() {
        let text = |exit: ProgramExit| exit.to_string();
        assert_eq!(text(ProgramExit::Status(3)), "exited with status 3");
        assert_eq!(text(ProgramExit::Signal(9)), "was killed by signal 9 (SIGKILL)");
        assert_eq!(text(ProgramExit::Signal(64)), "was killed by signal 64");
    }
}
