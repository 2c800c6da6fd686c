//! The programs that a client starts: their start, their standard error and their end. They also
//! end if this process is killed.

mod exit;
mod pipes;

mod events;
mod stderr_log;

mod child;
#[cfg(feature = "supervised")]
mod supervised;

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitStatus;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use rustix::io::ioctl_fionread;

use self::child::WatchedChild;
use self::events::ProgramEvents;
pub use self::events::{ProgramCallback, ProgramEvent};
pub use self::exit::ProgramExit;
use self::pipes::ProgramPipes;
use self::stderr_log::log_events;
#[cfg(feature = "supervised")]
use self::supervised::SupervisedChild;
#[cfg(feature = "supervised")]
pub use self::supervised::supervise_programs;
use crate::sync::CloseSlot;
use crate::target::{Program, ProgramStderr};

#[expect(clippy::disallowed_types, reason = "held for the few steps of one operation")]
type Mutex<T> = std::sync::Mutex<T>;

/// A running program. Dropping it, after its input is closed, ends it on a thread of its own: it
/// has its exit timeout to exit, then gets SIGTERM, and as much later SIGKILL, its process group
/// too.
pub struct ServerProcess {
    /// With its events; `None` once it is ended.
    running: Option<(Running, ProgramEvents)>,
    /// Another descriptor of the pipe that is its standard input. Without it, a program that ends
    /// counts as one that has read what was sent.
    input: Option<OwnedFd>,
    exit_timeout: Duration,
    /// Dropped once the program has ended.
    exit: Option<Arc<ExitNotifier>>,
}

/// Who starts and ends a program.
#[derive(Debug)]
enum Running {
    /// This process.
    Watched(WatchedChild),
    /// The supervisor of this process.
    #[cfg(feature = "supervised")]
    Supervised(SupervisedChild),
}

impl Running {
    fn exit(&self) -> Option<ProgramExit> {
        match self {
            Self::Watched(child) => child.exit(),
            #[cfg(feature = "supervised")]
            Self::Supervised(child) => child.exit(),
        }
    }

    fn stop(self, exit_timeout: Duration) -> Option<ExitStatus> {
        match self {
            Self::Watched(child) => child.stop(exit_timeout),
            #[cfg(feature = "supervised")]
            Self::Supervised(child) => child.stop(exit_timeout),
        }
    }
}

impl ServerProcess {
    /// Holds `exit` until the program has ended.
    pub fn hold(&mut self, exit: &Arc<ExitNotifier>) {
        self.exit = Some(Arc::clone(exit));
    }

    /// Returns how the program has ended, or `None` while it runs.
    pub fn exit(&self) -> Option<ProgramExit> {
        self.running.as_ref()?.0.exit()
    }

    /// Returns whether something that was sent to the program was not read.
    pub fn has_unread_input(&self) -> bool {
        let input = self.input.as_ref();
        input.is_some_and(|input| ioctl_fionread(input).is_ok_and(|bytes| bytes > 0))
    }
}

impl fmt::Debug for ServerProcess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let running = self.running.as_ref().map(|(running, _)| running);
        formatter.debug_struct("ServerProcess").field("running", &running).finish_non_exhaustive()
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
        let Some((running, events)) = self.running.take() else { return };
        // The program sees the end of its input.
        self.input = None;
        let (exit, exit_timeout) = (self.exit.take(), self.exit_timeout);
        let stop = move || {
            if let Some(status) = running.stop(exit_timeout) {
                events.report_exit(status);
            }
            drop(exit);
        };
        if let Err(error) = std::thread::Builder::new().name("corelane-stop".into()).spawn(stop) {
            tracing::warn!(%error, "no thread to end the program of a server");
        }
    }
}

/// Environment variables that a program inherits.
const INHERITED_VARIABLES: [&str; 8] =
    ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

/// The environment of `program`.
fn environment(program: &Program) -> impl Iterator<Item = (OsString, OsString)> {
    let inherits = |name: &OsString| {
        program.inherits_env || INHERITED_VARIABLES.iter().any(|inherited| name == inherited)
    };
    #[expect(clippy::disallowed_methods, reason = "the program inherits the variables")]
    let inherited = std::env::vars_os().filter(move |(name, _)| inherits(name));
    let is_set = |name: &OsString| program.environment.iter().any(|(set, _)| set == name);
    inherited.filter(move |(name, _)| !is_set(name)).chain(program.environment.iter().cloned())
}

/// A program and its pipes.
pub struct StartedProgram {
    /// Written to.
    pub input: OwnedFd,
    /// Read from.
    pub output: OwnedFd,
    pub process: ServerProcess,
}

/// Starts `program`. Its events are passed to `on_event`, if there is one, and to the log, if its
/// standard error goes there.
pub fn start(program: &Program, on_event: Option<ProgramCallback>) -> io::Result<StartedProgram> {
    let is_logged = program.stderr == ProgramStderr::Log;
    let on_event = match (is_logged.then(|| log_events(program)), on_event) {
        (Some(log), Some(on_event)) => Some(Arc::new(move |event: ProgramEvent<'_>| {
            log(event);
            on_event(event);
        }) as ProgramCallback),
        (log, on_event) => log.or(on_event),
    };
    let (pipes, own) = pipes::open(program.stderr, on_event.is_some())?;
    let running = start_running(program, pipes)?;
    let events = ProgramEvents::new(on_event, own.stderr);
    let process = ServerProcess {
        running: Some((running, events)),
        input: own.input.as_fd().try_clone_to_owned().ok(),
        exit_timeout: program.exit_timeout,
        exit: None,
    };
    Ok(StartedProgram { input: own.input, output: own.output, process })
}

fn start_running(program: &Program, pipes: ProgramPipes) -> io::Result<Running> {
    #[cfg(feature = "supervised")]
    if let Some(supervisor) = supervised::supervisor() {
        let child = SupervisedChild::start(&supervisor?, program, pipes)?;
        return Ok(Running::Supervised(child));
    }
    Ok(Running::Watched(WatchedChild::start(program, pipes)?))
}
