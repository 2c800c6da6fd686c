//! The interface of the server: starts children, and ends them.

use std::ffi::OsString;
use std::io;
use std::sync::{Arc, OnceLock, PoisonError, mpsc};

use crate::connection::{Connection, Mutex, OnExit, Rejected};
use crate::sandbox::{Sandbox, can_create_network_namespace};
use crate::spec::{ChildSpec, ChildStdio, Exit};
use crate::supervise::{MODE_VARIABLE, Mode};
use crate::wire::{self, ChildId};

/// How a program starts its supervisor: itself, with arguments for which its `main` calls
/// [`run_supervisor`](crate::run_supervisor).
#[derive(Clone, Debug)]
pub struct SupervisorCommand {
    /// The program; `/proc/self/exe` is the running one, whatever stands at its path by now.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

impl SupervisorCommand {
    /// The argument for which `corelane` is a supervisor. Not for people.
    pub const ARGUMENT: &'static str = "supervise-processes";

    /// The running program with arguments.
    pub fn this_program(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        let arguments = arguments.into_iter().map(Into::into).collect();
        Self { program: "/proc/self/exe".into(), arguments }
    }
}

/// Starts children in a process of its own, which ends all of them when this process ends or the
/// last clone is dropped with the last [`ChildHandle`]. Clones share it.
#[derive(Clone, Debug)]
pub struct Supervisor(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    command: SupervisorCommand,
    plain: Mutex<Option<Arc<Connection>>>,
    /// Started for the first child without network, if this process may not create network
    /// namespaces.
    user_namespace: Mutex<Option<Arc<Connection>>>,
    has_network_namespaces: OnceLock<bool>,
}

impl Supervisor {
    /// Starts the process.
    ///
    /// # Errors
    ///
    /// The program cannot be started; or this process is a supervisor itself, since `main` does not
    /// call [`run_supervisor`](crate::run_supervisor).
    #[expect(clippy::disallowed_methods, reason = "the variable is not for users")]
    pub fn start(command: SupervisorCommand) -> io::Result<Self> {
        if std::env::var_os(MODE_VARIABLE).is_some() {
            let message = "a supervisor of child processes starts no other: `main` has to call \
                           `run_supervisor` for its arguments";
            return Err(io::Error::other(message));
        }
        let shared = Shared {
            command,
            plain: Mutex::default(),
            user_namespace: Mutex::default(),
            has_network_namespaces: OnceLock::new(),
        };
        shared.connect(Mode::Plain)?;
        Ok(Self(Arc::new(shared)))
    }

    /// Starts a child, without waiting for anything but the start of a supervisor that has ended.
    /// `on_exit` is called once, also if the child cannot be started: on a thread that serves all
    /// children, so it returns soon. The child is terminated when its handle is dropped.
    ///
    /// # Errors
    ///
    /// The supervisor cannot be started; `on_exit` is not called then.
    pub fn spawn(
        &self,
        spec: &ChildSpec,
        stdio: ChildStdio,
        on_exit: impl FnOnce(Exit) + Send + 'static,
    ) -> io::Result<ChildHandle> {
        let encode = |id| wire::encode_spawn(id, spec);
        self.submit(spec.sandbox.as_ref(), encode, Some(stdio), Box::new(on_exit))
    }

    /// Checks that children can be started in `sandbox` on this machine: blocks until the
    /// supervisor has tried. Not to be called by `on_exit` of a child.
    ///
    /// # Errors
    ///
    /// A sentence that says what is missing.
    pub fn check(&self, sandbox: &Sandbox) -> Result<(), String> {
        let (exit_tx, exit_rx) = mpsc::sync_channel(1);
        let on_exit = move |exit| exit_tx.send(exit).unwrap_or(());
        let encode = |id| wire::encode_check(id, sandbox);
        let handle = self
            .submit(Some(sandbox), encode, None, Box::new(on_exit))
            .map_err(|error| format!("the supervisor of child processes: {error}"))?;
        let exit = exit_rx.recv().unwrap_or(Exit::SupervisorGone);
        drop(handle);
        match exit {
            Exit::Code(_) => Ok(()),
            exit => Err(exit.to_string()),
        }
    }

    fn submit(
        &self,
        sandbox: Option<&Sandbox>,
        encode: impl Fn(ChildId) -> Vec<u8>,
        mut stdio: Option<ChildStdio>,
        mut on_exit: OnExit,
    ) -> io::Result<ChildHandle> {
        let mode = self.0.mode(sandbox);
        // The supervisor may end while it is used.
        for _ in 0..ATTEMPTS {
            let connection = self.0.connect(mode)?;
            match connection.submit(&encode, stdio, on_exit) {
                Ok(id) => {
                    let shared = Arc::clone(&self.0);
                    return Ok(ChildHandle { shared: Some(shared), connection, id });
                }
                Err(Rejected { stdio: unsent, on_exit: uncalled }) => {
                    stdio = unsent;
                    on_exit = uncalled;
                }
            }
        }
        Err(io::Error::other("the supervisor of child processes ends at once"))
    }
}

/// Supervisors that are started for one child, at most.
const ATTEMPTS: usize = 3;

impl Shared {
    /// Returns which supervisor starts children in `sandbox`.
    fn mode(&self, sandbox: Option<&Sandbox>) -> Mode {
        let is_open = sandbox.is_none_or(|sandbox| sandbox.network);
        if is_open || *self.has_network_namespaces.get_or_init(can_create_network_namespace) {
            Mode::Plain
        } else {
            Mode::UserNamespace
        }
    }

    /// Returns the running supervisor, or starts one.
    fn connect(&self, mode: Mode) -> io::Result<Arc<Connection>> {
        let slot = match mode {
            Mode::Plain => &self.plain,
            Mode::UserNamespace => &self.user_namespace,
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(connection) = slot.as_ref().filter(|connection| connection.is_open()) {
            return Ok(Arc::clone(connection));
        }
        let SupervisorCommand { program, arguments } = &self.command;
        let connection = Connection::start(program, arguments, mode)?;
        *slot = Some(Arc::clone(&connection));
        Ok(connection)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for slot in [&mut self.plain, &mut self.user_namespace] {
            let slot = slot.get_mut().unwrap_or_else(PoisonError::into_inner);
            if let Some(connection) = slot.take() {
                connection.close();
            }
        }
    }
}

/// A child. Dropping it terminates the child, if it still runs, without waiting for its end.
#[derive(Debug)]
pub struct ChildHandle {
    /// Keeps the supervisor. `None` once detached.
    shared: Option<Arc<Shared>>,
    connection: Arc<Connection>,
    id: ChildId,
}

impl ChildHandle {
    /// Sends SIGTERM to the process group of the child, and SIGKILL after its grace. What is left
    /// of the group when the child itself ends gets SIGKILL then.
    pub fn terminate(&self) {
        self.connection.signal(self.id, wire::encode_terminate);
    }

    /// Sends SIGKILL to the process group of the child.
    pub fn kill(&self) {
        self.connection.signal(self.id, wire::encode_kill);
    }

    /// Drops the handle; the child runs until it or the supervisor ends.
    pub fn detach(mut self) {
        self.shared = None;
    }
}

impl Drop for ChildHandle {
    fn drop(&mut self) {
        if self.shared.is_some() {
            self.terminate();
        }
    }
}
