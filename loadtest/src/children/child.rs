//! One child process: start, standard error, and termination.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use corelane_base::time::Instant;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::descendants::Descendants;
use super::stderr_tail::StderrTail;
use super::{EXIT_TIMEOUT, Program, StderrMode};
use crate::metrics::process_group::ProcessGroup;
use crate::metrics::process_tree::ProcessTree;

/// Size of one read from a pipe.
const READ_BYTES: usize = 16 * 1024;
/// Reads from standard error after the child exited. A descendant may still hold the pipe open, so
/// the end of the stream is not awaited.
const FINAL_READS_MAX: usize = 64;

/// Escalation of the termination of a child.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum TerminationStep {
    /// Its input was closed.
    InputClosed,
    /// It received `SIGTERM`.
    Terminated,
    /// It received `SIGKILL`.
    Killed,
}

/// Termination in progress.
#[derive(Debug)]
struct Termination {
    since: Instant,
    step: TerminationStep,
    /// Descendants found while the child was alive. Those of a child that exits on its own can no
    /// longer be found.
    descendants: Option<Descendants>,
    /// Exit status, once the child exited.
    status: Option<ExitStatus>,
}

#[derive(Debug)]
pub(super) struct Child {
    pub(super) connection: u32,
    process: std::process::Child,
    stderr: Option<ChildStderr>,
    stderr_tail: StderrTail,
    /// Duplicate of the standard output. It is drained during termination, so that a last response
    /// does not fail with a broken pipe.
    stdout: Option<ChildStdout>,
    termination: Option<Termination>,
}

/// A started child with the pipes for its owner.
pub(super) struct StartedChild {
    pub(super) child: Child,
    pub(super) stdin: OwnedFd,
    pub(super) stdout: OwnedFd,
}

impl Child {
    /// Starts `program`, or returns the error with the name of the program.
    pub(super) fn start(connection: u32, program: &Program) -> Result<StartedChild, String> {
        let name = program.command.first().map_or("", String::as_str);
        let start = || {
            let errors = match program.stderr {
                StderrMode::Capture => Stdio::piped(),
                StderrMode::Inherit => Stdio::inherit(),
            };
            let mut command = Command::new(name);
            command.args(program.command.iter().skip(1)).stderr(errors);
            let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let missing = || io::Error::other("no pipe for a standard stream");
            let input: OwnedFd = process.stdin.take().ok_or_else(missing)?.into();
            let output = process.stdout.take().ok_or_else(missing)?;
            let second = output.as_fd().try_clone_to_owned()?;
            let errors = process.stderr.take();
            let (tail, output, termination) = (StderrTail::default(), Some(output), None);
            let child = Self {
                connection,
                process,
                stderr: errors,
                stderr_tail: tail,
                stdout: output,
                termination,
            };
            Ok(StartedChild { child, stdin: input, stdout: second })
        };
        start().map_err(|error: io::Error| format!("'{name}' cannot be started: {error}"))
    }

    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Begins the termination after the input was closed.
    pub(super) fn begin_termination(&mut self, now: Instant) {
        let termination = Termination {
            since: now,
            step: TerminationStep::InputClosed,
            descendants: None,
            status: None,
        };
        self.termination.get_or_insert(termination);
    }

    pub(super) const fn is_terminating(&self) -> bool {
        self.termination.is_some()
    }

    /// Advances the termination. Returns the last step once the child is gone. `tree` is scanned at
    /// most once for all children of one pass.
    pub(super) fn advance_termination(
        &mut self,
        now: Instant,
        group: &ProcessGroup,
        tree: &mut Option<ProcessTree>,
    ) -> Option<TerminationStep> {
        let pid = self.process.id();
        let Termination { since, step, descendants, status } = self.termination.as_mut()?;
        if status.is_none() && has_ended(pid) {
            // Before `wait`, while `/proc` still has its CPU time.
            group.remove(pid);
            *status = self.process.wait().ok();
        }
        if status.is_some() && !descendants.as_mut().is_some_and(Descendants::is_alive) {
            return Some(*step);
        }
        let is_late = now >= since.after(EXIT_TIMEOUT);
        if descendants.is_none() || is_late {
            let tree = tree.get_or_insert_with(ProcessTree::scan);
            descendants.get_or_insert_default().add_from(tree, pid);
        }
        if !is_late {
            return None;
        }
        let (next, signal) = match step {
            TerminationStep::InputClosed => (TerminationStep::Terminated, Signal::TERM),
            TerminationStep::Terminated => (TerminationStep::Killed, Signal::KILL),
            TerminationStep::Killed => {
                // Not even SIGKILL ends it: it hangs in the kernel.
                group.remove(pid);
                return Some(TerminationStep::Killed);
            }
        };
        (*since, *step) = (now, next);
        if let Some(descendants) = descendants {
            descendants.send_signal(signal);
        }
        if status.is_none()
            && let Some(pid) = pid_of(pid)
        {
            // The child was not waited for, so its PID cannot have been reused.
            kill_process(pid, signal).unwrap_or(());
        }
        None
    }

    /// Returns how the child ended, with the last lines of its standard error.
    pub(super) fn describe_exit(&mut self) -> String {
        for _ in 0..FINAL_READS_MAX {
            let Some(errors) = &self.stderr else { break };
            let mut fds = [PollFd::new(errors, PollFlags::IN)];
            if !poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
                break;
            }
            self.read_stderr();
        }
        let termination = self.termination.as_ref();
        let ended = match termination
            .and_then(|termination| Some((termination.step, termination.status?)))
        {
            Some((TerminationStep::InputClosed, status)) => format!("the program ended ({status})"),
            _ => "the program closed its standard output and did not end".into(),
        };
        match self.last_stderr() {
            Some(lines) => format!("{ended}: {lines}"),
            None => ended,
        }
    }

    /// Returns the last lines of its standard error, or `None` if it was empty.
    pub(super) fn last_stderr(&self) -> Option<String> {
        self.stderr_tail.last_lines()
    }

    /// Returns the read end of its standard error while it is open.
    pub(super) fn stderr(&self) -> Option<BorrowedFd<'_>> {
        self.stderr.as_ref().map(AsFd::as_fd)
    }

    /// Returns the standard output to drain during termination.
    pub(super) fn terminating_stdout(&self) -> Option<BorrowedFd<'_>> {
        self.stdout.as_ref().filter(|_| self.is_terminating()).map(AsFd::as_fd)
    }

    /// Reads from standard error, which must be ready.
    pub(super) fn read_stderr(&mut self) {
        let mut buf = [0; READ_BYTES];
        match self.stderr.as_mut().map(|stderr| stderr.read(&mut buf)) {
            Some(Ok(len)) if len > 0 => self.stderr_tail.add(&buf[..len]),
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => self.stderr = None,
        }
    }

    /// Reads and discards standard output, which must be ready.
    pub(super) fn discard_stdout(&mut self) {
        let mut buf = [0; READ_BYTES];
        match self.stdout.as_mut().map(|stdout| stdout.read(&mut buf)) {
            Some(Ok(len)) if len > 0 => {}
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => self.stdout = None,
        }
    }
}

fn pid_of(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// Returns whether a child that was not waited for has exited.
fn has_ended(number: u32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let Some(pid) = pid_of(number) else { return false };
    // An error means that the process is not our child any more.
    waitid(WaitId::Pid(pid), options).map_or(true, |status| status.is_some())
}
