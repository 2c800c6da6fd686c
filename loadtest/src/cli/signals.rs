//! Terminates a started server when a signal terminates this program.
//!
//! The server receives SIGTERM, then the signal has its default effect. This program does not wait
//! for the server. SIGKILL cannot be handled.

use std::io;
use std::process::Child;

#[cfg(target_os = "linux")]
use {
    rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
    signal_hook::{
        consts::{SIGHUP, SIGINT, SIGTERM},
        iterator::Signals,
        low_level::emulate_default_handler,
    },
    std::thread,
};

/// Termination signals, caught until a server is started.
#[cfg(target_os = "linux")]
pub(super) struct TerminationSignals(Signals);

#[cfg(target_os = "linux")]
impl TerminationSignals {
    /// Catches the termination signals, except those that were ignored at start (`nohup`, or a
    /// shell in the background).
    pub(super) fn catch() -> io::Result<Self> {
        let ignored =
            ignored_signals(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let is_default = |signal: &i32| ignored & 1 << (signal - 1) == 0;
        Signals::new([SIGHUP, SIGINT, SIGTERM].into_iter().filter(is_default)).map(Self)
    }

    /// Sends SIGTERM to `server` when a caught signal arrives, then applies the signal's default.
    pub(super) fn forward_to(mut self, server: &Child) -> io::Result<()> {
        // A pidfd, since a process id may be reused.
        let server = pidfd_open(Pid::from_child(server), PidfdFlags::empty())?;
        let watch = move || {
            for signal in self.0.forever() {
                pidfd_send_signal(&server, Signal::TERM).unwrap_or(());
                emulate_default_handler(signal).unwrap_or(());
            }
        };
        thread::Builder::new().name("load-signals".into()).spawn(watch).map(drop)
    }
}

/// Returns the mask of ignored signals, the first in the lowest bit (proc(5), `SigIgn`).
#[cfg(target_os = "linux")]
fn ignored_signals(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// Without pidfds signals are not handled.
#[cfg(not(target_os = "linux"))]
pub(super) struct TerminationSignals;

#[cfg(not(target_os = "linux"))]
impl TerminationSignals {
    /// Catches nothing.
    pub(super) const fn catch() -> io::Result<Self> {
        Ok(Self)
    }

    /// Does nothing.
    pub(super) const fn forward_to(self, _server: &Child) -> io::Result<()> {
        Ok(())
    }
}
