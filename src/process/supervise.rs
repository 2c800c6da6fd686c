//! The supervisor process: starts children, and ends what they leave behind.
//!
//! It has one thread, and one more for the start of a child in a sandbox.
//!
//! Invariants:
//! - A process group is signalled before its leader is reaped, so that its id is of no other.
//! - What is reparented to this process and belongs to no running child is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nix::sys::signal::SigSet;
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, kill_process_group, wait, waitpid,
};
use rustix::time::{ClockId, clock_gettime};

use crate::proc_table::ChildTable;
use crate::sandbox::enter_user_namespace;
use crate::socket::{self, Received};
use crate::spec::{ChildSpec, ChildStdio, Exit};
use crate::start;
use crate::tag::Tag;
use crate::wire::{self, ChildId, Ended, Request};

/// Variable of the environment of a supervisor: what it is started for.
pub(crate) const MODE_VARIABLE: &str = "CORELANE_SUPERVISOR";

/// What a supervisor process is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Mode {
    /// Children with the rights of the server.
    Plain,
    /// Children without network, in a user namespace, since the server may not create network
    /// namespaces otherwise.
    UserNamespace,
}

impl Mode {
    /// Its value of [`MODE_VARIABLE`].
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::UserNamespace => "user-namespace",
        }
    }
}

/// Runs the supervisor: to be called by `main` of the program, before it starts a thread, if its
/// arguments are those of [`SupervisorCommand`](crate::SupervisorCommand). Returns when the server
/// has ended and all children are gone.
///
/// # Errors
///
/// This process was not started by [`Supervisor`](crate::Supervisor), or the system has no room
/// for what it needs.
#[expect(clippy::disallowed_methods, reason = "the variable is not for users")]
pub fn run_supervisor() -> io::Result<()> {
    let name = std::env::var_os(MODE_VARIABLE);
    let mode = [Mode::Plain, Mode::UserNamespace].into_iter().find(|mode| {
        let mode = mode.name();
        name.as_ref().is_some_and(|name| name == mode)
    });
    let Some(mode) = mode else {
        let message = "the supervisor of child processes is started by the server only";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    };
    close_inherited();
    // Fails if it leads a session already.
    rustix::process::setsid().ok();
    rustix::thread::set_name(c"corelane-spawn")?;
    rustix::process::set_child_subreaper(Some(getpid()))?;
    SigSet::empty().thread_set_mask()?;
    // A handler, unlike an ignored signal, ends with exec.
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2]
    {
        signal_hook::flag::register(signal.as_raw(), Arc::clone(&ignored))?;
    }
    let (signals, handler) = UnixStream::pair()?;
    signals.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(Signal::CHILD.as_raw(), handler)?;
    let refusal = match mode {
        Mode::Plain => None,
        Mode::UserNamespace => enter_user_namespace().err(),
    };
    Children::new(signals, refusal).run();
    Ok(())
}

/// Closes what the server had open without `O_CLOEXEC`.
fn close_inherited() {
    let Ok(folder) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    let inherited: Vec<i32> = numbers.filter(|number| *number > 2).collect();
    for number in inherited {
        // The directory itself is closed already.
        nix::unistd::close(number).ok();
    }
}

/// Time between SIGTERM and SIGKILL when the server has ended.
const END_TIME: Duration = Duration::from_millis(500);

/// A running child, the leader of its process group.
struct RunningChild {
    id: ChildId,
    grace: Duration,
}

/// When a child is killed that was terminated.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Deadline {
    at: Duration,
    process: i32,
}

/// What poll has returned.
struct Ready {
    socket: bool,
    signals: bool,
}

/// All children, and the connection to the server.
struct Children {
    socket: io::Stdin,
    received: Received,
    /// Readable after SIGCHLD.
    signals: UnixStream,
    table: ChildTable,
    /// By process id.
    running: BTreeMap<i32, RunningChild>,
    processes: BTreeMap<ChildId, i32>,
    deadlines: BTreeSet<Deadline>,
    /// Why no child can be started.
    refusal: Option<String>,
}

impl Children {
    fn new(signals: UnixStream, refusal: Option<String>) -> Self {
        Self {
            socket: io::stdin(),
            received: Received::default(),
            signals,
            table: ChildTable::new(raw(getpid())),
            running: BTreeMap::new(),
            processes: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            refusal,
        }
    }

    /// Serves requests until the server has closed its end, then ends all children.
    fn run(mut self) {
        while let Ok(ready) = self.wait() {
            if ready.signals {
                self.drain_signals();
                self.reap();
            }
            self.kill_overdue();
            if ready.socket && !self.received.has_frame() && self.receive().is_none() {
                break;
            }
            // One request at a time: exits do not wait for a queue of starts.
            if let Some(frame) = self.received.take_frame()
                && self.serve(&frame).is_none()
            {
                break;
            }
        }
        self.end_all();
    }

    /// Waits for a request, an exit or a deadline.
    fn wait(&self) -> Result<Ready, Errno> {
        let timeout = if self.received.has_frame() {
            Some(Duration::ZERO)
        } else {
            self.deadlines.first().map(|first| first.at.saturating_sub(now()))
        };
        let timeout = timeout.and_then(|it| Timespec::try_from(it).ok());
        let mut polled =
            [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.signals, PollFlags::IN)];
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) => {
                let [socket, signals] = polled.map(|it| !it.revents().is_empty());
                Ok(Ready { socket, signals })
            }
            Err(Errno::INTR) => Ok(Ready { socket: false, signals: false }),
            Err(error) => Err(error),
        }
    }

    fn drain_signals(&mut self) {
        let mut buf = [0; 256];
        while self.signals.read(&mut buf).is_ok_and(|len| len == buf.len()) {}
    }

    /// Receives a part of a request; `None` if the server has closed its end.
    fn receive(&mut self) -> Option<()> {
        match self.received.receive(&self.socket, RecvFlags::empty()) {
            Ok(0) => None,
            Ok(_) | Err(Errno::INTR) => (!self.received.is_invalid()).then_some(()),
            Err(_) => None,
        }
    }

    /// Serves a request; `None` if it is malformed.
    fn serve(&mut self, frame: &[u8]) -> Option<()> {
        match wire::decode_request(frame)? {
            Request::Spawn(id, spec) => {
                let mut descriptor = || self.received.take_descriptor();
                let (stdin, stdout, stderr) = (descriptor()?, descriptor()?, descriptor()?);
                self.spawn(id, &spec, ChildStdio { stdin, stdout, stderr });
            }
            Request::Check(id, sandbox) => {
                let checked = match &self.refusal {
                    Some(why) => Err(why.clone()),
                    None => start::check_sandbox(&sandbox),
                };
                self.report(id, checked.map_or_else(Exit::NotStarted, |()| Exit::Code(0)));
            }
            Request::Terminate(id) => self.terminate(id),
            Request::Kill(id) => {
                if let Some(&process) = self.processes.get(&id) {
                    kill_group(process, Signal::KILL);
                }
            }
        }
        Some(())
    }

    fn spawn(&mut self, id: ChildId, spec: &ChildSpec, stdio: ChildStdio) {
        if let Some(why) = &self.refusal {
            return self.report(id, Exit::NotStarted(why.clone()));
        }
        Tag { supervisor: self.table.own(), child: id }.set();
        match start::start(spec, stdio) {
            Ok(pid) => {
                self.running.insert(raw(pid), RunningChild { id, grace: spec.grace });
                self.processes.insert(id, raw(pid));
            }
            Err(why) => self.report(id, Exit::NotStarted(why)),
        }
    }

    /// Sends SIGTERM, and sets the deadline of SIGKILL, unless there is one.
    fn terminate(&mut self, id: ChildId) {
        let Some(&process) = self.processes.get(&id) else { return };
        let Some(child) = self.running.get(&process) else { return };
        if self.deadlines.iter().any(|deadline| deadline.process == process) {
            return;
        }
        let at = now().saturating_add(child.grace);
        self.deadlines.insert(Deadline { at, process });
        kill_group(process, Signal::TERM);
        // A stopped child ends, too.
        kill_group(process, Signal::CONT);
    }

    fn kill_overdue(&mut self) {
        if self.deadlines.is_empty() {
            return;
        }
        let now = now();
        while self.deadlines.first().is_some_and(|first| first.at <= now) {
            if let Some(Deadline { process, .. }) = self.deadlines.pop_first() {
                kill_group(process, Signal::KILL);
            }
        }
    }

    /// Reaps what has ended.
    fn reap(&mut self) {
        let mut has_reaped = false;
        while let Some((process, status)) = self.reap_one() {
            has_reaped = true;
            self.report_exit(process, status);
        }
        if has_reaped {
            self.kill_left_behind();
        }
    }

    /// Kills the group of a child that has ended, then reaps the child.
    fn reap_one(&self) -> Option<(i32, WaitStatus)> {
        let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        let ended = match waitid(Id::All, flags) {
            Ok(status) => status.pid()?.as_raw(),
            // A real-time signal has killed it, which this function knows no name for.
            Err(nix::errno::Errno::EINVAL) => {
                let (pid, status) = wait(WaitOptions::NOHANG).ok()??;
                if self.running.contains_key(&raw(pid)) {
                    kill_process_group(pid, Signal::KILL).ok();
                }
                return Some((raw(pid), status));
            }
            Err(_) => return None,
        };
        if self.running.contains_key(&ended) {
            kill_group(ended, Signal::KILL);
        }
        let (pid, status) = waitpid(Pid::from_raw(ended), WaitOptions::NOHANG).ok()??;
        Some((raw(pid), status))
    }

    /// Reports the exit of a child; other processes have none that asks.
    fn report_exit(&mut self, process: i32, status: WaitStatus) {
        let Some(RunningChild { id, .. }) = self.running.remove(&process) else { return };
        self.processes.remove(&id);
        self.deadlines.retain(|deadline| deadline.process != process);
        let exit = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or_default()),
        };
        self.report(id, exit);
    }

    /// Sends the end of a child to the server.
    fn report(&self, id: ChildId, exit: Exit) {
        let frame = wire::encode_ended(&Ended { id, exit });
        let mut rest = frame.as_slice();
        while !rest.is_empty() {
            match socket::send(&self.socket, rest, &[], SendFlags::empty()) {
                Ok(len) => rest = &rest[len..],
                // The server has ended, which the next request shows.
                Err(_) => return,
            }
        }
    }

    /// Kills processes whose parents have ended and that belong to no running child.
    fn kill_left_behind(&self) {
        for process in self.table.ids() {
            if self.running.contains_key(&process) {
                continue;
            }
            let belongs_to_running = match Tag::of(process) {
                Some(tag) => self.processes.contains_key(&tag.child),
                // It may be of any.
                None => !self.running.is_empty(),
            };
            if !belongs_to_running {
                kill(process);
            }
        }
    }

    /// Ends all children, and what they leave behind, until this process has no child: SIGTERM,
    /// and SIGKILL soon after.
    fn end_all(mut self) {
        for process in self.running.keys() {
            kill_group(*process, Signal::TERM);
            // A stopped child ends, too.
            kill_group(*process, Signal::CONT);
        }
        let until = now().saturating_add(END_TIME);
        while !self.running.is_empty()
            && let Some(left) = until.checked_sub(now()).filter(|left| !left.is_zero())
            && let Ok(timeout) = Timespec::try_from(left)
        {
            let mut polled = [PollFd::new(&self.signals, PollFlags::IN)];
            match poll(&mut polled, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => break,
            }
            self.drain_signals();
            self.reap();
        }
        for process in self.running.keys() {
            kill_group(*process, Signal::KILL);
        }
        loop {
            let processes = self.table.ids();
            let killed = processes.iter().filter(|process| kill(**process)).count();
            if killed == 0 && !processes.is_empty() {
                // They run as other users.
                return;
            }
            match wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) => self.report_exit(raw(pid), status),
                Ok(None) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
            while let Some((process, status)) = self.reap_one() {
                self.report_exit(process, status);
            }
        }
    }
}

fn raw(pid: Pid) -> i32 {
    pid.as_raw_nonzero().get()
}

fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap_or_default()
}

/// Sends a signal to a child and its group. The child is not yet reaped, and may have left its
/// group.
fn kill_group(process: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(process)
        && kill_process_group(pid, signal).is_err()
    {
        kill_process(pid, signal).ok();
    }
}

/// Sends SIGKILL to a process, and returns whether that is permitted.
fn kill(process: i32) -> bool {
    Pid::from_raw(process).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}
