//! One child: its start, its standard error, and the steps of its end.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use corelane::base::time::Moment;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::family::Family;
use super::tail::Tail;
use super::{ASKED_MAX, Errors, Program};
use crate::measure::census::Census;
use crate::measure::group::Group;

/// What one read of a pipe takes at most.
const READ_BYTES: usize = 16 * 1024;
/// Reads of a standard error whose other end has gone: what others may still hold open is not
/// waited for.
const LAST_READS_MAX: usize = 64;

/// How far the end of a child has been pressed.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Step {
    /// Its input was closed.
    Asked,
    /// It has got `SIGTERM`.
    Terminated,
    /// It has got `SIGKILL`.
    Killed,
}

/// The end of a child under way.
#[derive(Debug)]
struct Parting {
    since: Moment,
    step: Step,
    /// What it had started when it was first found alive; a child that has ended by itself has left
    /// nothing behind that could be found.
    family: Option<Family>,
    /// Where it has ended itself.
    status: Option<ExitStatus>,
}

/// A child.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) lane: u32,
    process: std::process::Child,
    errors: Option<ChildStderr>,
    tail: Tail,
    /// A second name of its standard output: what it says while it ends is read and thrown away,
    /// so that a last answer meets no broken pipe.
    output: Option<ChildStdout>,
    parting: Option<Parting>,
}

/// A child that has just been started.
pub(super) struct Born {
    pub(super) child: Child,
    pub(super) input: OwnedFd,
    pub(super) output: OwnedFd,
}

impl Child {
    /// Starts a program; why it could not be where it could not.
    pub(super) fn start(lane: u32, program: &Program) -> Result<Born, String> {
        let name = program.words.first().map_or("", String::as_str);
        let start = || {
            let errors = match program.errors {
                Errors::Keep => Stdio::piped(),
                Errors::Inherit => Stdio::inherit(),
            };
            let mut command = Command::new(name);
            command.args(program.words.iter().skip(1)).stderr(errors);
            let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
            let missing = || io::Error::other("it has no standard streams");
            let input: OwnedFd = process.stdin.take().ok_or_else(missing)?.into();
            let output = process.stdout.take().ok_or_else(missing)?;
            let second = output.as_fd().try_clone_to_owned()?;
            let errors = process.stderr.take();
            let (tail, output, parting) = (Tail::default(), Some(output), None);
            let child = Self { lane, process, errors, tail, output, parting };
            Ok(Born { child, input, output: second })
        };
        start().map_err(|error: io::Error| format!("'{name}' cannot be started: {error}"))
    }

    /// Its number among the processes, until it has ended.
    pub(super) fn pid(&self) -> u32 {
        self.process.id()
    }

    /// Its input was closed: from here on it has to end.
    pub(super) fn part(&mut self, now: Moment) {
        let parting = Parting { since: now, step: Step::Asked, family: None, status: None };
        self.parting.get_or_insert(parting);
    }

    /// Whether its end is under way.
    pub(super) const fn is_parting(&self) -> bool {
        self.parting.is_some()
    }

    /// Goes on with its end: how far it had to be pressed, once it is over. `census` is taken by
    /// the first child of a round that needs one.
    pub(super) fn advance(
        &mut self,
        now: Moment,
        group: &Group,
        census: &mut Option<Census>,
    ) -> Option<Step> {
        let pid = self.process.id();
        let Parting { since, step, family, status } = self.parting.as_mut()?;
        if status.is_none() && has_ended(pid) {
            // Before it is waited for, while the system still knows what it has cost.
            group.leave(pid);
            *status = self.process.wait().ok();
        }
        if status.is_some() && !family.as_mut().is_some_and(Family::is_alive) {
            return Some(*step);
        }
        let is_late = now >= since.after(ASKED_MAX);
        if family.is_none() || is_late {
            let census = census.get_or_insert_with(Census::take);
            family.get_or_insert_default().gather(census, pid);
        }
        if !is_late {
            return None;
        }
        let (next, signal) = match step {
            Step::Asked => (Step::Terminated, Signal::TERM),
            Step::Terminated => (Step::Killed, Signal::KILL),
            Step::Killed => {
                // What not even that ends is given up: the kernel itself holds it.
                group.leave(pid);
                return Some(Step::Killed);
            }
        };
        (*since, *step) = (now, next);
        if let Some(family) = family {
            family.signal(signal);
        }
        if status.is_none()
            && let Some(pid) = pid_of(pid)
        {
            // It was not waited for, so the number is still its own.
            kill_process(pid, signal).unwrap_or(());
        }
        None
    }

    /// How it ended and what it said last.
    pub(super) fn last_words(&mut self) -> String {
        for _ in 0..LAST_READS_MAX {
            let Some(errors) = &self.errors else { break };
            let mut fds = [PollFd::new(errors, PollFlags::IN)];
            if !poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
                break;
            }
            self.hear_errors();
        }
        let parting = self.parting.as_ref();
        let ended = match parting.and_then(|parting| Some((parting.step, parting.status?))) {
            Some((Step::Asked, status)) => format!("the program ended ({status})"),
            _ => "the program closed its standard output and did not end".into(),
        };
        match self.words() {
            Some(words) => format!("{ended}: {words}"),
            None => ended,
        }
    }

    /// What it said last on its standard error, where it said anything.
    pub(super) fn words(&self) -> Option<String> {
        self.tail.words()
    }

    /// Its standard error, while that is open.
    pub(super) fn errors(&self) -> Option<BorrowedFd<'_>> {
        self.errors.as_ref().map(AsFd::as_fd)
    }

    /// Its standard output, while it ends and that is open.
    pub(super) fn farewell(&self) -> Option<BorrowedFd<'_>> {
        self.output.as_ref().filter(|_| self.is_parting()).map(AsFd::as_fd)
    }

    /// Reads its standard error, which is ready.
    pub(super) fn hear_errors(&mut self) {
        let mut said = [0; READ_BYTES];
        match self.errors.as_mut().map(|errors| errors.read(&mut said)) {
            Some(Ok(length)) if length > 0 => self.tail.push(&said[..length]),
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => self.errors = None,
        }
    }

    /// Reads what it says while it ends, which is ready.
    pub(super) fn hear_farewell(&mut self) {
        let mut said = [0; READ_BYTES];
        match self.output.as_mut().map(|output| output.read(&mut said)) {
            Some(Ok(length)) if length > 0 => {}
            Some(Err(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => self.output = None,
        }
    }
}

fn pid_of(number: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(number).ok()?)
}

/// Whether a child that was not waited for has ended.
fn has_ended(number: u32) -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let Some(pid) = pid_of(number) else { return false };
    // Where the system refuses to tell, the child is not ours any more.
    waitid(WaitId::Pid(pid), options).map_or(true, |status| status.is_some())
}
