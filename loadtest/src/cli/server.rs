//! The server process: an existing one, or one that is started for the runs.
//!
//! A started server is always terminated with all its descendants: with SIGTERM, then SIGKILL; by
//! the supervisor if this program ends otherwise. Starting fails if the address is already in use
//! by another server.

use std::env;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use clap::Args;
use corelane_engine::clock::Clock;
use corelane_load::children::end_descendants;
use corelane_load::metrics::control_group::{ControlGroup, OwnedControlGroup};
use corelane_load::metrics::process_group::ProcessGroup;
use corelane_load::metrics::process_tree::ProcessTree;
use corelane_load::plan::Plan;
use corelane_load::target::{Target, Transport};
use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::{CliError, print_stderr, supervisor};

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);
/// Interval of polling a server that starts or ends.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long a terminated server may take to exit.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(5);

/// Flags of the measured server process.
#[derive(Args, Debug)]
pub(super) struct ServerArguments {
    /// Server process whose CPU and memory are measured, with its control group if it has one of
    /// its own, else with its descendants and process group.
    #[arg(long, value_name = "PID", conflicts_with = "server")]
    pid: Option<u32>,
    /// Command that starts the server, quoted as in a shell; all its processes are measured, and
    /// terminated afterwards.
    #[arg(long, value_name = "COMMAND")]
    server: Option<String>,
}

impl ServerArguments {
    /// Returns whether a server is measured.
    pub(super) const fn is_named(&self) -> bool {
        self.server.is_some() || self.pid.is_some()
    }

    /// Returns whether a server is started.
    pub(super) const fn has_command(&self) -> bool {
        self.server.is_some()
    }

    /// Starts the server, or finds the process named by `--pid`.
    pub(super) fn start(&self, plan: &Plan, is_quiet: bool) -> Result<ServerProcess, CliError> {
        match (&self.server, self.pid) {
            (Some(command), _) => ServerProcess::start(command, plan, is_quiet),
            (None, Some(pid)) => ServerProcess::attach(pid),
            (None, None) => Ok(ServerProcess::default()),
        }
    }
}

/// The server process, if it is known.
#[derive(Debug, Default)]
pub(super) struct ServerProcess {
    group: Option<ProcessGroup>,
    child: Option<Child>,
    command: String,
    /// Where the system grants one.
    control_group: Option<OwnedControlGroup>,
}

impl ServerProcess {
    /// Uses the running process `pid`.
    fn attach(pid: u32) -> Result<Self, CliError> {
        let group = ProcessGroup::of_process(pid);
        if !group.is_visible() {
            let why = format!("process {pid} does not exist or cannot be inspected");
            return Err(why.into());
        }
        let tree = ProcessTree::scan();
        let below = tree.descendants(&[pid]);
        if let Some(whole) = ControlGroup::of_server(pid, |other| below.contains(&other)) {
            group.use_control_group(whole);
        }
        let (child, command, control_group) = (None, String::new(), None);
        Ok(Self { group: Some(group), child, command, control_group })
    }

    /// Starts `command`, split like a shell does, and waits until the target accepts connections,
    /// at most the connect timeout of the plan. Its standard output is discarded.
    fn start(command: &str, plan: &Plan, is_quiet: bool) -> Result<Self, CliError> {
        let target: Target = plan.target.parse()?;
        if target.transport() == Transport::Stdio {
            return Err("a stdio target starts its own servers: remove --server".into());
        }
        let addresses = target.resolve()?;
        if accepts_connections(&addresses) {
            return Err(format!(
                "{target} is already in use by another server: stop it, or remove --server"
            )
            .into());
        }
        let words = shlex::split(command)
            .ok_or_else(|| format!("--server has an unterminated quote: {command}"))?;
        let (program, arguments) =
            words.split_first().ok_or("--server is empty: write a command")?;
        let cannot_start = |error| format!("cannot start '{program}': {error}; correct --server");
        check_executable(program).map_err(cannot_start)?;
        let control_group = OwnedControlGroup::create();
        let file = control_group.as_ref().map(|owned| owned.group().processes_file());
        let child = supervisor::server_command((program, arguments), file.as_deref())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(if is_quiet { Stdio::null() } else { Stdio::inherit() })
            .spawn()
            .map_err(cannot_start)?;
        // The server is the only child of this process; orphans of it become children, too.
        let group = Some(ProcessGroup::of_descendants(std::process::id()));
        let mut server = Self { group, child: Some(child), command: command.into(), control_group };
        let clock = Clock::start();
        let deadline = clock.now().after(plan.connect_timeout.get());
        while !accepts_connections(&addresses) {
            server.check()?;
            if clock.now() >= deadline {
                return Err(format!(
                    "{target} does not answer {} after '{command}' was started: correct the \
                     address or the command, or wait longer (--connect-timeout)",
                    plan.connect_timeout
                )
                .into());
            }
            thread::park_timeout(POLL_INTERVAL);
        }
        server.use_control_group();
        Ok(server)
    }

    /// Measures the control group if the server has entered it.
    fn use_control_group(&self) {
        let owned = self.control_group.as_ref().filter(|it| !it.group().processes().is_empty());
        if let (Some(owned), Some(group)) = (owned, &self.group) {
            group.use_control_group(owned.group().clone());
        }
    }

    /// Returns the processes to measure.
    pub(super) const fn process(&self) -> Option<&ProcessGroup> {
        self.group.as_ref()
    }

    /// Returns whether the server was started by this command.
    pub(super) const fn is_started(&self) -> bool {
        self.child.is_some()
    }

    /// Checks that a started server is still running.
    ///
    /// # Errors
    ///
    /// If it has exited, with its status.
    pub(super) fn check(&mut self) -> Result<(), CliError> {
        let Some(child) = &mut self.child else { return Ok(()) };
        match child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                let command = &self.command;
                Err(format!("the server '{command}' exited ({status})").into())
            }
        }
    }
}

impl Drop for ServerProcess {
    /// Terminates a started server and all its descendants.
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        if end_descendants(std::process::id(), TERMINATE_TIMEOUT, || ()) {
            print_stderr(&format!("'{}' did not exit after SIGTERM, and was killed", self.command));
        }
        // Without `/proc` it has received no signal.
        child.kill().unwrap_or(());
        drop(child.wait());
    }
}

/// Fails as the start of `program` would.
#[expect(clippy::disallowed_methods, reason = "where the system looks for programs")]
fn check_executable(program: &str) -> io::Result<()> {
    let access = |path: &Path| access(path, Access::EXEC_OK).map_err(io::Error::from);
    if program.contains('/') {
        return access(Path::new(program));
    }
    let folders = env::var_os("PATH").unwrap_or_default();
    let paths: Vec<PathBuf> =
        env::split_paths(&folders).map(|folder| folder.join(program)).collect();
    let is_found = paths.iter().any(|path| path.is_file() && access(path).is_ok());
    if is_found { Ok(()) } else { Err(io::Error::from_raw_os_error(Errno::NOENT.raw_os_error())) }
}

/// Returns whether any of the addresses accepts a connection.
fn accepts_connections(addresses: &[SocketAddr]) -> bool {
    addresses.iter().any(|address| TcpStream::connect_timeout(address, CONNECT_TIMEOUT).is_ok())
}
