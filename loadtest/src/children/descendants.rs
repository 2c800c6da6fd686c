//! Descendants of a child: the program is often a shell script around the server.
//!
//! Invariants: processes are held by pidfd, not by PID, so a signal never reaches a process that
//! reused the PID. Systems without pidfds (all but Linux) find no descendants and end only the
//! child itself.

use std::thread;
use std::time::Duration;

use corelane_engine::clock::Clock;
use rustix::process::Signal;
#[cfg(target_os = "linux")]
use {
    rustix::event::{PollFd, PollFlags, Timespec, poll},
    rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal},
    std::os::fd::OwnedFd,
};

use crate::metrics::process_tree::ProcessTree;

/// Interval of polling descendants that end.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// How long killed descendants are awaited. A longer one hangs in the kernel.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// Ends all descendants of process `of` with `SIGTERM`, and with `SIGKILL` those that are running
/// after `timeout`. Calls `on_poll` while waiting. Returns whether any had to be killed.
pub fn end_descendants(of: u32, timeout: Duration, mut on_poll: impl FnMut()) -> bool {
    let find = || {
        let mut found = Descendants::default();
        found.add_from(&ProcessTree::scan(), of);
        found
    };
    let clock = Clock::start();
    find().send_signal(Signal::TERM);
    let deadline = clock.now().after(timeout);
    while clock.now() < deadline {
        on_poll();
        if !find().is_alive() {
            return false;
        }
        thread::park_timeout(POLL_INTERVAL);
    }
    let deadline = deadline.after(KILL_TIMEOUT);
    while clock.now() < deadline {
        let mut found = find();
        found.send_signal(Signal::KILL);
        on_poll();
        if !found.is_alive() {
            break;
        }
        thread::park_timeout(POLL_INTERVAL);
    }
    true
}

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
