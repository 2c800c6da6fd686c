//! Descendants of a child: the program is often a shell script around the server.
//!
//! Invariants: processes are held by pidfd, not by PID, so a signal never reaches a process that
//! reused the PID. Systems without pidfds (all but Linux) find no descendants and end only the
//! child itself.

use rustix::process::Signal;

#[cfg(target_os = "linux")]
use {
    rustix::event::{PollFd, PollFlags, Timespec, poll},
    rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal},
    std::os::fd::OwnedFd,
};

use crate::metrics::process_tree::ProcessTree;

#[derive(Debug, Default)]
pub(super) struct Descendants {
    #[cfg(target_os = "linux")]
    pidfds: Vec<OwnedFd>,
}

#[cfg(target_os = "linux")]
impl Descendants {
    /// Adds the descendants of process `of`. A process may be added twice.
    pub(super) fn add_from(&mut self, tree: &ProcessTree, of: u32) {
        let below = tree.descendants(&[of]).into_iter();
        let pids = below.filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        // A process that exited since the scan needs no signal.
        self.pidfds.extend(pids.filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()));
    }

    pub(super) fn send_signal(&self, signal: Signal) {
        for member in &self.pidfds {
            // Fails if the process has exited, which is the goal.
            pidfd_send_signal(member, signal).unwrap_or(());
        }
    }

    /// Returns whether any of the processes is still running.
    pub(super) fn is_alive(&mut self) -> bool {
        // A pidfd becomes readable when its process exits.
        let has_ended = |member: &OwnedFd| {
            let mut fds = [PollFd::new(member, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        };
        self.pidfds.retain(|member| !has_ended(member));
        !self.pidfds.is_empty()
    }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unused_self, reason = "same signature as on Linux")]
impl Descendants {
    pub(super) const fn add_from(&mut self, _tree: &ProcessTree, _of: u32) {}

    pub(super) const fn send_signal(&self, _signal: Signal) {}

    pub(super) const fn is_alive(&mut self) -> bool {
        false
    }
}
