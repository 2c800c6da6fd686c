//! The server process: an existing one, or one that is started for the runs.
//!
//! A started server is always terminated: with SIGTERM, then SIGKILL; also when a signal terminates
//! this program, except SIGKILL. Starting fails if the address is already in use by another server.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use corelane::engine::clock::Clock;
use corelane_load::metrics::process::Process;
use corelane_load::plan::Plan;
use corelane_load::target::{Target, Transport};
use rustix::process::{Pid, Signal, kill_process};

use super::signals::TerminationSignals;
use super::{CliError, print_stderr};

/// Timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(250);
/// Interval of polling a server that starts or ends.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long a terminated server may take to exit.
const TERMINATE_TIMEOUT: Duration = Duration::from_secs(5);

/// The server process, if it is known.
#[derive(Debug, Default)]
pub(super) struct ServerProcess {
    process: Option<Process>,
    child: Option<Child>,
    command: String,
}

impl ServerProcess {
    /// Uses the running process `pid`.
    pub(super) fn attach(pid: u32) -> Result<Self, CliError> {
        let process = Process::from_pid(pid);
        if process.sample().is_none() {
            let why = format!("process {pid} does not exist or cannot be inspected");
            return Err(why.into());
        }
        Ok(Self { process: Some(process), child: None, command: String::new() })
    }

    /// Starts `command`, split at spaces, and waits until the target accepts connections, at most
    /// the connect timeout of the plan. Its standard output is discarded.
    pub(super) fn start(command: &str, plan: &Plan, is_quiet: bool) -> Result<Self, CliError> {
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
        let mut words = command.split_whitespace();
        let program = words.next().ok_or("--server is empty: write a command")?;
        let endings = TerminationSignals::catch()?;
        let child = Command::new(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(if is_quiet { Stdio::null() } else { Stdio::inherit() })
            .spawn()
            .map_err(|error| format!("cannot start '{program}': {error}; correct --server"))?;
        let process = Some(Process::from_pid(child.id()));
        let passed_on = endings.forward_to(&child);
        let mut server = Self { process, child: Some(child), command: command.into() };
        // Checked now, since only `server` terminates the child.
        passed_on?;
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
        Ok(server)
    }

    /// Returns the process to measure.
    pub(super) const fn process(&self) -> Option<&Process> {
        self.process.as_ref()
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
    /// Terminates a started server. Until it is waited for, its process id cannot be reused.
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        let is_over = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if is_over(child) {
            return;
        }
        kill_process(Pid::from_child(child), Signal::TERM).unwrap_or(());
        let clock = Clock::start();
        let deadline = clock.now().after(TERMINATE_TIMEOUT);
        while clock.now() < deadline {
            if is_over(child) {
                return;
            }
            thread::park_timeout(POLL_INTERVAL);
        }
        print_stderr(&format!("'{}' did not exit after SIGTERM, and was killed", self.command));
        child.kill().unwrap_or(());
        drop(child.wait());
    }
}

/// Returns whether any of the addresses accepts a connection.
fn accepts_connections(addresses: &[SocketAddr]) -> bool {
    addresses.iter().any(|address| TcpStream::connect_timeout(address, CONNECT_TIMEOUT).is_ok())
}
