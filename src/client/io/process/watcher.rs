//! Ends a program if this process is killed.
//!
//! `PR_SET_PDEATHSIG` is no substitute: it is set between fork and exec, it names the thread that
//! started the program, which may end before, and it does not reach what the program has started.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::Pid;

/// Waits for the end of its input, which ends with this process, and then ends a process group.
const SCRIPT: &str = "read -r _; sleep 1; kill -TERM \"-$1\" && sleep 5 && kill -KILL \"-$1\"";

/// A shell that watches this process. Dropping it ends the shell and nothing else.
#[derive(Debug)]
pub(super) struct Watcher {
    shell: Child,
    /// Open as long as this process runs, and no other process has it.
    _input: Option<ChildStdin>,
}

impl Watcher {
    /// Starts to watch over the process group `group`, or logs why that is not possible.
    pub(super) fn start(group: Pid) -> Option<Self> {
        // A group of its own, so that signals of a terminal do not reach the shell.
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "sh", &group.as_raw_nonzero().to_string()])
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        match shell {
            Ok(mut shell) => Some(Self { _input: shell.stdin.take(), shell }),
            Err(error) => {
                tracing::warn!(%error, "the program of a server outlives this process if killed");
                None
            }
        }
    }

    fn end(&mut self) -> io::Result<()> {
        self.shell.kill()?;
        self.shell.wait()?;
        Ok(())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        // Before its input is closed.
        if let Err(error) = self.end() {
            tracing::debug!(%error, "the shell that watches this process cannot be ended");
        }
    }
}
