//! Processes that come and go during a run, looked at as one server.
//!
//! What it keeps true: CPU time never goes back. A member that leaves takes its memory with it and
//! leaves the CPU time that it has spent; what members have started themselves counts with them,
//! because a program is often a script around the server.

#![expect(
    clippy::disallowed_types,
    reason = "the collector and the threads that have the children share it; no ring waits for it"
)]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::census::Census;
use super::process::{Process, Sample};

/// Processes that are watched together.
#[derive(Debug, Default)]
pub struct Group {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<u32>,
    /// CPU time of those that have left.
    left: Duration,
    /// The most CPU time that was told.
    told: Duration,
    words: Option<String>,
    programs: Programs,
}

/// What became of programs that were started for a run.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Programs {
    /// Those that were started.
    pub started: u64,
    /// Those of them that did not end with their input and had to be asked by `SIGTERM`.
    pub terminated: u64,
    /// Those that did not end after that either and were killed.
    pub killed: u64,
}

impl Group {
    /// A process has been started.
    pub fn join(&self, pid: u32) {
        let mut state = self.state();
        state.members.push(pid);
        state.programs.started += 1;
    }

    /// A process has ended; asked before it is waited for, so that the system still knows it.
    pub fn leave(&self, pid: u32) {
        let mut state = self.state();
        if let Some(place) = state.members.iter().position(|member| *member == pid) {
            state.members.swap_remove(place);
            state.left += Process::of(pid).whole_cpu().unwrap_or_default();
        }
    }

    /// A process had to be asked to end.
    pub fn note_terminated(&self) {
        self.state().programs.terminated += 1;
    }

    /// A process had to be killed.
    pub fn note_killed(&self) {
        self.state().programs.killed += 1;
    }

    /// A process that has ended had said this last.
    pub fn note_words(&self, words: String) {
        self.state().words = Some(words);
    }

    /// What the last of those that have ended had said, where any of them said anything.
    pub fn words(&self) -> Option<String> {
        self.state().words.clone()
    }

    /// What became of all of them so far.
    pub fn programs(&self) -> Programs {
        self.state().programs
    }

    /// What all of them cost so far. A look at every process of the machine.
    pub fn sample(&self) -> Sample {
        let mut state = self.state();
        let below = Census::take().below(&state.members);
        let mut sum = Sample { cpu: state.left, ..Sample::default() };
        for pid in state.members.iter().chain(&below) {
            let process = Process::of(*pid);
            sum.cpu += process.whole_cpu().unwrap_or_default();
            // A member that has ended and was not waited for has no memory any more.
            let sample = process.sample().unwrap_or_default();
            sum.resident_bytes += sample.resident_bytes;
            sum.own_bytes += sample.own_bytes;
        }
        // The system counts in ticks what has ended, and in nanoseconds what runs.
        state.told = state.told.max(sum.cpu);
        sum.cpu = state.told;
        sum
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    /// A shell that works for a while by itself and in a process that it starts.
    fn worker(script: &str) -> Child {
        Command::new("sh").args(["-c", script]).spawn().expect("there is a shell")
    }

    #[test]
    fn work_of_members_counts_when_they_have_gone() {
        let group = Group::default();
        let work = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        // The second counts what the first has started as well.
        for script in [work.into(), format!("({work}); true")] {
            let before = group.sample().cpu;
            let mut child = worker(&script);
            group.join(child.id());
            let pid = rustix::process::Pid::from_child(&child);
            let ended =
                rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
            rustix::process::waitid(rustix::process::WaitId::Pid(pid), ended).unwrap();
            group.leave(child.id());
            child.wait().unwrap();
            let after = group.sample();
            assert!(after.cpu >= before + Duration::from_millis(10), "{before:?} {after:?}");
            assert_eq!(after.resident_bytes, 0);
        }
        assert_eq!(group.programs(), Programs { started: 2, terminated: 0, killed: 0 });
    }

    #[test]
    fn members_and_what_they_have_started_are_added_up() {
        let group = Group::default();
        group.join(std::process::id());
        let alone = Process::own().sample().unwrap().resident_bytes;
        assert!(group.sample().resident_bytes >= alone / 2);
    }
}
