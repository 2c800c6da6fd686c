//! Ends a program if this process is killed.
//!
//! `PR_SET_PDEATHSIG` is no substitute: it is set between fork and exec, it names the thread that
//! started the program, which may end before, and it does not reach what the program has started.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Waits for the end of its input, which ends with this process, and then ends its process group.
const SCRIPT: &str = "trap '' TERM; read -r _; sleep 1; kill -TERM 0; sleep 5; kill -KILL 0";

/// A shell that watches this process. It leads the process group of a program, and exists before
/// it. Dropping it ends the shell alone.
#[derive(Debug)]
pub(super) struct Watcher {
    shell: Child,
    /// Open as long as this process runs; no other process has it.
    _input: Option<ChildStdin>,
}

impl Watcher {
    /// Starts to watch, or logs why that is not possible.
    pub(super) fn start() -> Option<Self> {
        let shell = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
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

    /// Returns the shell, which leads the process group.
    pub(super) const fn leader(&self) -> &Child {
        &self.shell
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
