//! Programs that are children of a supervisor, a second process of this program.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;

use corelane_process::{
    ChildHandle, ChildSpec, ChildStdio, Exit, Supervisor, SupervisorCommand, Variable, find_program,
};
use crossbeam::channel::{Receiver, RecvTimeoutError, bounded};
use rustix::process::Signal;

use super::pipes::ProgramPipes;
use super::{ProgramExit, environment};
use crate::target::Program;

#[expect(clippy::disallowed_types, reason = "locked to start a program")]
type Mutex<T> = std::sync::Mutex<T>;

/// What starts the programs of this process, if its `main` can be a supervisor.
static SUPERVISION: OnceLock<Supervision> = OnceLock::new();

struct Supervision {
    command: SupervisorCommand,
    supervisor: Mutex<Option<Supervisor>>,
}

/// Has all programs that clients start from now on be children of a second process of this program,
/// which is started with the first of them. That process ends them, and all that they have started,
/// when this process ends, by SIGKILL too. For `command` the `main` of the program calls
/// [`corelane_process::run_supervisor`]. A second call does nothing.
///
/// Without it, a shell for each program watches this process, and what leaves the process group of
/// the program is not ended.
pub fn supervise_programs(command: SupervisorCommand) {
    SUPERVISION.get_or_init(|| Supervision { command, supervisor: Mutex::default() });
}

/// Returns what starts programs; `None` if this process has no supervisor.
pub(super) fn supervisor() -> Option<io::Result<Supervisor>> {
    let supervision = SUPERVISION.get()?;
    let mut started = supervision.supervisor.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(supervisor) = &*started {
        return Some(Ok(supervisor.clone()));
    }
    let supervisor = Supervisor::start(supervision.command.clone());
    Some(supervisor.inspect(|supervisor| *started = Some(supervisor.clone())))
}

/// A program that is a child of the supervisor.
#[derive(Debug)]
pub(super) struct SupervisedChild {
    handle: ChildHandle,
    /// Set when it has ended.
    exit: Arc<OnceLock<Exit>>,
    ended: Receiver<()>,
}

impl SupervisedChild {
    /// Starts `program`.
    pub(super) fn start(
        supervisor: &Supervisor,
        program: &Program,
        pipes: ProgramPipes,
    ) -> io::Result<Self> {
        let environment: Vec<Variable> =
            environment(program).map(|(name, value)| Variable::new(name, value)).collect();
        let path = environment.iter().find(|it| it.name == "PATH").map(|it| it.value.as_os_str());
        // The supervisor would say so later, when the start is over.
        find_program(&program.program, program.directory.as_deref(), path)
            .map_err(|why| io::Error::new(io::ErrorKind::NotFound, why))?;
        let spec = ChildSpec {
            arguments: program.arguments.clone(),
            environment,
            // The supervisor may have been started in another directory.
            directory: Some(match &program.directory {
                Some(directory) => std::env::current_dir()?.join(directory),
                None => std::env::current_dir()?,
            }),
            grace: program.exit_timeout,
            ..ChildSpec::new(&program.program)
        };
        let ProgramPipes { stdin, stdout, stderr } = pipes;
        let exit = Arc::<OnceLock<Exit>>::default();
        let (ended_tx, ended) = bounded(0);
        let slot = Arc::clone(&exit);
        let on_exit = move |exit| {
            slot.get_or_init(|| exit);
            drop(ended_tx);
        };
        let handle = supervisor.spawn(&spec, ChildStdio { stdin, stdout, stderr }, on_exit)?;
        Ok(Self { handle, exit, ended })
    }

    /// Returns how the program has ended, or `None` while it runs.
    pub(super) fn exit(&self) -> Option<ProgramExit> {
        Some(match self.exit.get()? {
            Exit::Code(status) => ProgramExit::Status(*status),
            Exit::Signal(signal) => ProgramExit::Signal(*signal),
            Exit::NotStarted(why) => ProgramExit::NotStarted(why.as_str().into()),
            Exit::SupervisorGone => ProgramExit::Signal(Signal::KILL.as_raw()),
        })
    }

    /// Ends the program, whose input is closed.
    pub(super) fn stop(self, exit_timeout: Duration) -> Option<ExitStatus> {
        // Nothing is sent: the channel is disconnected.
        if self.ended.recv_timeout(exit_timeout) == Err(RecvTimeoutError::Timeout) {
            self.handle.terminate();
            self.ended.recv().unwrap_or(());
        }
        self.exit().map(|exit| match exit {
            ProgramExit::Status(status) => ExitStatus::from_raw(status << 8),
            ProgramExit::Signal(signal) => ExitStatus::from_raw(signal),
            // As a shell has it.
            ProgramExit::NotStarted(_) => ExitStatus::from_raw(127 << 8),
        })
    }
}
