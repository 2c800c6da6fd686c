//! Starts a program.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use super::events::{ProgramCallback, ProgramEvent, ProgramEvents};
use super::server_process::ServerProcess;
use super::watcher::Watcher;
use crate::target::{Program, ProgramStderr};

/// Environment variables that a program inherits.
const INHERITED_VARIABLES: [&str; 8] =
    ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

/// A program and its pipes.
pub struct StartedProgram {
    /// Written to.
    pub input: OwnedFd,
    /// Read from.
    pub output: OwnedFd,
    pub process: ServerProcess,
}

/// Starts `program`. Its events are passed to `on_event`, if there is one.
pub fn start(program: &Program, on_event: Option<ProgramCallback>) -> io::Result<StartedProgram> {
    let mut command = Command::new(&program.program);
    let watcher = Watcher::start();
    let leader = watcher.as_ref().and_then(|watcher| i32::try_from(watcher.leader().id()).ok());
    command.args(&program.arguments).process_group(leader.unwrap_or(0));
    if !program.inherits_env {
        command.env_clear();
        for name in INHERITED_VARIABLES {
            #[expect(clippy::disallowed_methods, reason = "the program inherits the variable")]
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
    }
    command.envs(program.environment.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &program.directory {
        command.current_dir(directory);
    }
    let on_event = on_event.or_else(|| match program.stderr {
        ProgramStderr::Log => Some(log_events(program)),
        ProgramStderr::Inherit | ProgramStderr::Discard => None,
    });
    command.stderr(match (&on_event, program.stderr) {
        (Some(_), _) => Stdio::piped(),
        (None, ProgramStderr::Discard) => Stdio::null(),
        (None, _) => Stdio::inherit(),
    });
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (input, output, stderr) = pipes;
    let events = ProgramEvents::new(on_event, stderr);
    // Without it, a program that ends counts as one that has read what was sent.
    let input_copy = input.as_ref().and_then(|input| input.as_fd().try_clone_to_owned().ok());
    let process = ServerProcess::new(child, input_copy, program.exit_timeout, watcher, events);
    let (Some(input), Some(output)) = (input, output) else {
        return Err(io::Error::other("no pipe for a standard stream"));
    };
    Ok(StartedProgram { input: input.into(), output: output.into(), process })
}

/// Logs the lines of a program.
fn log_events(program: &Program) -> ProgramCallback {
    let program = program.program.to_string_lossy().into_owned();
    Arc::new(move |event| match event {
        ProgramEvent::Stderr(line) => {
            tracing::info!(target: "corelane::client::stderr", program, line);
        }
        ProgramEvent::Exited(status) => tracing::debug!(program, %status, "a program has ended"),
    })
}
