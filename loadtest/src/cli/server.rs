//! The server's process: one that runs already, or one that is started for the runs and ended after
//! them.
//!
//! What it keeps true: a server that was started is ended whatever happens to the command, politely
//! first, and asked to end where a signal ends this program; one that listened already is never
//! taken for the one that was started.
//!
//! What it does not do: see to a server when this program is killed.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use corelane::engine::clock::Clock;
use corelane_load::measure::process::Process;
use corelane_load::plan::Plan;
use corelane_load::target::{Target, Transport};
use rustix::process::{Pid, Signal, kill_process};

use super::signals::Endings;
use super::{Failure, complain};

/// How long one attempt to connect may take.
const CONNECT_MAX: Duration = Duration::from_millis(250);
/// How often a server that starts or ends is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long a server that was asked to end has for it.
const END_MAX: Duration = Duration::from_secs(5);

/// The server's process, as far as anything is known of it.
#[derive(Debug, Default)]
pub(super) struct Server {
    process: Option<Process>,
    child: Option<Child>,
    command: String,
}

impl Server {
    /// The process of this number, which runs already.
    pub(super) fn of(pid: u32) -> Result<Self, Failure> {
        let process = Process::of(pid);
        if process.sample().is_none() {
            let why = format!("there is no process {pid} to watch, or it may not be looked at");
            return Err(why.into());
        }
        Ok(Self { process: Some(process), child: None, command: String::new() })
    }

    /// Starts `command`, split at its spaces, and waits until the target of `plan` lets a client
    /// connect, at most as long as the plan lets connections take. Its standard output is dropped.
    pub(super) fn start(command: &str, plan: &Plan, is_quiet: bool) -> Result<Self, Failure> {
        let target: Target = plan.target.parse()?;
        if target.transport() == Transport::Stdio {
            return Err("a stdio target starts its own servers: leave --server out".into());
        }
        let addresses = target.resolve()?;
        if listens(&addresses) {
            return Err(format!(
                "{target}: something listens there already: stop it, or leave --server out"
            )
            .into());
        }
        let mut words = command.split_whitespace();
        let program = words.next().ok_or("--server: there is no command")?;
        let endings = Endings::hold()?;
        let child = Command::new(program)
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(if is_quiet { Stdio::null() } else { Stdio::inherit() })
            .spawn()
            .map_err(|error| format!("'{program}' cannot be started: {error}; correct --server"))?;
        let process = Some(Process::of(child.id()));
        let passed_on = endings.pass_on(&child);
        let mut server = Self { process, child: Some(child), command: command.into() };
        // Not before somebody sees to the end of the server.
        passed_on?;
        let clock = Clock::start();
        let deadline = clock.now().after(plan.connect_max.duration());
        while !listens(&addresses) {
            server.check()?;
            if clock.now() >= deadline {
                return Err(format!(
                    "{target} does not answer {} after '{command}' was started: correct the \
                     address or the command, or wait longer (--connect-max)",
                    plan.connect_max
                )
                .into());
            }
            thread::park_timeout(LOOK_EVERY);
        }
        Ok(server)
    }

    /// What to watch.
    pub(super) const fn process(&self) -> Option<&Process> {
        self.process.as_ref()
    }

    /// Whether a server that was started still runs.
    ///
    /// # Errors
    ///
    /// How it has ended.
    pub(super) fn check(&mut self) -> Result<(), Failure> {
        let Some(child) = &mut self.child else { return Ok(()) };
        match child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                let command = &self.command;
                Err(format!("the server '{command}' has ended by itself ({status})").into())
            }
        }
    }
}

impl Drop for Server {
    /// Ends a server that was started: asks it to (`SIGTERM`), and kills it where that does not
    /// help in time. It was not waited for until now, so its number is still its own.
    fn drop(&mut self) {
        let Some(child) = &mut self.child else { return };
        let is_over = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        if is_over(child) {
            return;
        }
        kill_process(Pid::from_child(child), Signal::TERM).unwrap_or(());
        let clock = Clock::start();
        let deadline = clock.now().after(END_MAX);
        while clock.now() < deadline {
            if is_over(child) {
                return;
            }
            thread::park_timeout(LOOK_EVERY);
        }
        complain(&format!("'{}' did not end when it was asked to, and was killed", self.command));
        child.kill().unwrap_or(());
        drop(child.wait());
    }
}

/// Whether anything lets a client connect at one of these addresses.
fn listens(addresses: &[SocketAddr]) -> bool {
    addresses.iter().any(|address| TcpStream::connect_timeout(address, CONNECT_MAX).is_ok())
}
