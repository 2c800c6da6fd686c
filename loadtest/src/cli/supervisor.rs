//! Supervision of a command that starts processes, so that none of them survives it.
//!
//! ```text
//!  command ─▶ supervisor ─▶ worker ─▶ server, or processes of a stdio target
//!  waits      waits         runs the load test
//! ```
//!
//! Invariants: all three adopt orphaned descendants (`PR_SET_CHILD_SUBREAPER`), so that no process
//! leaves them. The supervisor and the command end their descendants when the process below them
//! has ended, however it did. If the process above one ends, even by SIGKILL, the supervisor
//! receives SIGTERM, and the worker a signal on which it replaces itself by a program that ends its
//! descendants (`PR_SET_PDEATHSIG`). So any two of the three may be killed at once. If all three
//! are, the kernel kills a server (SIGKILL), but not the programs that it has started. Signals are
//! passed on downwards.
//!
//! The role is in the name of the process, its first argument.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use corelane_load::children::end_descendants;
use corelane_load::metrics::control_group::remove_left_groups;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, wait,
};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGTERM, SIGURG};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// Beginning of the name of a supervisor; the process id of its parent follows.
const SUPERVISOR: &str = "corelane-load: supervisor of ";
/// Beginning of the name of a worker; the process id of its parent follows.
const WORKER: &str = "corelane-load: worker of ";
/// Beginning of the name of a process that becomes a server; the process id of its parent follows.
const START: &str = "corelane-load: start for ";
/// Name of a process that ends its descendants.
const END: &str = "corelane-load: end";
/// This program, even if its file was replaced.
const SELF: &str = "/proc/self/exe";
/// How long a process may take to exit after SIGTERM.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(5);
/// Exit status of a process that a signal ended, without the number of the signal.
const EXIT_SIGNAL: u8 = 128;

/// Role of this process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Role {
    /// Started by the user.
    Command,
    /// Between the command and the worker.
    Supervisor,
    /// Runs the load test.
    Worker,
    /// Ends the descendants of a worker, in its place.
    End,
    /// Becomes a server.
    Start,
}

impl Role {
    /// Takes on the role that the name of this process has.
    ///
    /// # Errors
    ///
    /// If the parent has ended, or the system refuses.
    pub(super) fn take(name: Option<&OsString>) -> io::Result<Self> {
        let name = name.and_then(|name| name.to_str()).unwrap_or_default();
        let (role, signal, parent) = if let Some(parent) = name.strip_prefix(SUPERVISOR) {
            (Self::Supervisor, Signal::TERM, parent)
        } else if let Some(parent) = name.strip_prefix(WORKER) {
            (Self::Worker, Signal::URG, parent)
        } else if let Some(parent) = name.strip_prefix(START) {
            (Self::Start, Signal::KILL, parent)
        } else {
            return Ok(if name == END { Self::End } else { Self::Command });
        };
        if role == Self::Worker {
            end_without_parent(parent.to_owned())?;
        }
        set_parent_process_death_signal(Some(signal))?;
        if !is_parent(parent) {
            return Err(io::Error::other("the command has ended"));
        }
        if role == Self::Start {
            return Ok(role);
        }
        set_child_subreaper(Some(getpid()))?;
        Ok(role)
    }

    /// Returns the name of the process below this one.
    fn name_below(self) -> String {
        let own = getpid().as_raw_nonzero();
        match self {
            Self::Command => format!("{SUPERVISOR}{own}"),
            _ => format!("{WORKER}{own}"),
        }
    }

    /// Runs `arguments` in a process below this one, ends everything that it leaves, and returns
    /// its exit status.
    ///
    /// # Errors
    ///
    /// If the process cannot be started.
    pub(super) fn supervise(self, arguments: &[OsString]) -> io::Result<ExitCode> {
        if self == Self::Start {
            return Err(become_server(arguments));
        }
        set_child_subreaper(Some(getpid()))?;
        if self == Self::End {
            end_all(|| ());
            return Ok(ExitCode::FAILURE);
        }
        let mut signals = caught_signals()?;
        let mut command = Command::new(SELF);
        command.arg0(self.name_below()).args(arguments);
        if self == Self::Command {
            // A signal to the group of the command does not end the supervisor before its work.
            command.process_group(0);
        }
        let below = Pid::from_child(&command.spawn()?);
        let status = wait_for(below, &mut signals);
        end_all(|| {
            reap(below);
        });
        remove_left_groups();
        drop(signals);
        Ok(exit_code(status))
    }
}

/// Returns the command that starts `program` with its arguments, in the control group of
/// `processes_file` if there is one. The server receives SIGKILL when the thread that has started
/// it ends, whatever has ended it; programs that it starts do not.
pub(super) fn server_command(
    (program, arguments): (&str, &[String]),
    processes_file: Option<&Path>,
) -> Command {
    let mut command = Command::new(SELF);
    command.arg0(format!("{START}{}", getpid().as_raw_nonzero()));
    command.arg(processes_file.unwrap_or_else(|| Path::new("")));
    command.arg(program).args(arguments);
    command
}

/// Enters the control group and becomes the server. Returns only if that fails.
fn become_server(arguments: &[OsString]) -> io::Error {
    let [processes_file, program, arguments @ ..] = arguments else {
        return io::ErrorKind::InvalidInput.into();
    };
    if !processes_file.is_empty() {
        // If it fails, the server is measured by its descendants.
        drop(std::fs::write(processes_file, getpid().as_raw_nonzero().to_string()));
    }
    Command::new(program).args(arguments).exec()
}

/// Starts a thread that replaces this process by one which ends its descendants, on the signal that
/// follows the end of the parent. The load threads, which start programs again, end with it. The
/// signal is ignored by default, so that a second one changes nothing.
fn end_without_parent(parent: String) -> io::Result<()> {
    let mut signals = Signals::new([SIGURG])?;
    let watch = move || {
        // Another process may send the signal, too.
        if signals.forever().any(|_| !is_parent(&parent)) {
            // Returns only if the program cannot be started.
            drop(Command::new(SELF).arg0(END).exec());
            end_all(|| ());
            std::process::abort();
        }
    };
    thread::Builder::new().name("parent".into()).spawn(watch).map(drop)
}

/// Returns whether the parent of this process has this id.
fn is_parent(id: &str) -> bool {
    getppid().is_some_and(|pid| pid.as_raw_nonzero().to_string() == id)
}

/// Ends all descendants of this process. Calls `on_poll` while waiting.
fn end_all(on_poll: impl FnMut()) {
    let own = u32::try_from(getpid().as_raw_nonzero().get()).unwrap_or_default();
    end_descendants(own, TERMINATE_TIMEOUT, on_poll);
}

/// Returns whether this system can supervise.
pub(super) fn is_available() -> bool {
    Path::new(SELF).exists()
}

/// Catches the termination signals, except those that were ignored at start (`nohup`, or a shell in
/// the background), and the end of children.
fn caught_signals() -> io::Result<Signals> {
    let ends = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| !is_ignored(*signal));
    Signals::new(ends.chain([SIGCHLD]))
}

/// Returns whether this process ignores a signal.
pub(super) fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_signals(&status) & 1 << (signal - 1) != 0
}

/// Returns the mask of ignored signals, the first in the lowest bit (proc(5), `SigIgn`).
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// Waits until the process `below` has ended, and passes on signals to it.
fn wait_for(below: Pid, signals: &mut Signals) -> Option<WaitStatus> {
    for signal in signals.forever() {
        let signal = match signal {
            SIGHUP => Signal::HUP,
            SIGINT => Signal::INT,
            SIGTERM => Signal::TERM,
            _ => match reap(below) {
                Some(status) => return Some(status),
                None => continue,
            },
        };
        kill_process(below, signal).unwrap_or(());
    }
    None
}

/// Waits for all children that have ended, adopted ones too; returns the status of `below`.
fn reap(below: Pid) -> Option<WaitStatus> {
    let mut found = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == below {
            found = Some(status);
        }
    }
    found
}

/// Returns the exit status of a process. If a termination signal ended it, that ends this process.
fn exit_code(status: Option<WaitStatus>) -> ExitCode {
    let number = |number: i32| u8::try_from(number).unwrap_or(u8::MAX);
    let Some(status) = status else { return ExitCode::FAILURE };
    if let Some(signal) = status.terminating_signal() {
        if [SIGHUP, SIGINT, SIGTERM].contains(&signal) {
            emulate_default_handler(signal).unwrap_or(());
        }
        return ExitCode::from(EXIT_SIGNAL + number(signal));
    }
    ExitCode::from(status.exit_status().map_or(u8::MAX, number))
}
