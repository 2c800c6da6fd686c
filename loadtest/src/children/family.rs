//! What a child has started itself: a program is often a script around the server.
//!
//! What it keeps true: its members are held by descriptors, not by numbers, so a signal never
//! reaches a process that came later. Systems without such descriptors (all but Linux) have empty
//! families: there only the child itself is ended.

use rustix::process::Signal;

#[cfg(target_os = "linux")]
use {
    rustix::event::{PollFd, PollFlags, Timespec, poll},
    rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal},
    std::os::fd::OwnedFd,
};

use crate::measure::census::Census;

/// The processes below a child.
#[derive(Debug, Default)]
pub(super) struct Family {
    #[cfg(target_os = "linux")]
    members: Vec<OwnedFd>,
}

#[cfg(target_os = "linux")]
impl Family {
    /// Takes in what stands below the process of this number; a member may be taken in twice.
    pub(super) fn gather(&mut self, census: &Census, of: u32) {
        let below = census.below(&[of]).into_iter();
        let pids = below.filter_map(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        // What has ended since the census needs no end.
        self.members.extend(pids.filter_map(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()));
    }

    /// Sends all of them a signal.
    pub(super) fn signal(&self, signal: Signal) {
        for member in &self.members {
            // It fails where the member has ended, which is what is wanted.
            pidfd_send_signal(member, signal).unwrap_or(());
        }
    }

    /// Whether one of them has not ended.
    pub(super) fn is_alive(&mut self) -> bool {
        // The descriptor of a process is readable from its end on.
        let has_ended = |member: &OwnedFd| {
            let mut fds = [PollFd::new(member, PollFlags::IN)];
            poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        };
        self.members.retain(|member| !has_ended(member));
        !self.members.is_empty()
    }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unused_self, reason = "its twin for Linux has members")]
impl Family {
    /// Nobody is found.
    pub(super) const fn gather(&mut self, _census: &Census, _of: u32) {}

    /// Nobody hears it.
    pub(super) const fn signal(&self, _signal: Signal) {}

    /// Nobody is.
    pub(super) const fn is_alive(&mut self) -> bool {
        false
    }
}
