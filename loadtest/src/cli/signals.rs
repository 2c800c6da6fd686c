//! What becomes of a server that was started when a signal ends this program.
//!
//! What it keeps true: the server is asked to end first, and then the program ends by the signal as
//! it would have; a server that has ended by then is left alone, whatever has its number now.
//!
//! What it does not do: wait for the server, or do anything where the program is killed.

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

/// Signals that would end this program, held back until there is somebody to tell of them.
#[cfg(target_os = "linux")]
pub(super) struct Endings(Signals);

#[cfg(target_os = "linux")]
impl Endings {
    /// Holds them back from now on, but for those that the program was started not to hear: by
    /// `nohup`, or by a shell in its background.
    pub(super) fn hold() -> io::Result<Self> {
        let ignored = ignored(&std::fs::read_to_string("/proc/self/status").unwrap_or_default());
        let is_heard = |signal: &i32| ignored & 1 << (signal - 1) == 0;
        Signals::new([SIGHUP, SIGINT, SIGTERM].into_iter().filter(is_heard)).map(Self)
    }

    /// Has `server` asked to end when one of them ends the program, as long as that lasts.
    pub(super) fn pass_on(mut self, server: &Child) -> io::Result<()> {
        // Held by a descriptor and not by a number, which may be another's after it has ended.
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

/// The signals that a process ignores, the first in the lowest bit (proc(5), `SigIgn`).
#[cfg(target_os = "linux")]
fn ignored(status: &str) -> u64 {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

/// Elsewhere a process can be held by its number only, so that a server is left to itself.
#[cfg(not(target_os = "linux"))]
pub(super) struct Endings;

#[cfg(not(target_os = "linux"))]
impl Endings {
    /// Holds nothing back.
    pub(super) const fn hold() -> io::Result<Self> {
        Ok(Self)
    }

    /// Tells nobody.
    pub(super) const fn pass_on(self, _server: &Child) -> io::Result<()> {
        Ok(())
    }
}
