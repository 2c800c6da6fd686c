//! Processes that come and go during a run, looked at as one server.
//!
//! What it keeps true: CPU time never goes back. A member that leaves takes its memory with it and
//! leaves the CPU time that it has spent; what members have started themselves counts with them,
//! because a program is often a script around the server.
//!
//! What it does not do: look at thousands of members each second, some microseconds each, by which
//! the load would be late. They are looked at in turn, and the others count as they were.

#![expect(
    clippy::disallowed_types,
    reason = "the collector and the threads that have the children share it; no ring waits for it"
)]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::census::Census;
use super::process::{Account, Memory, Process, Sample};

/// Members that are looked at each second.
pub const LOOKS_MAX: usize = 128;

/// Processes that are watched together.
#[derive(Debug, Default)]
pub struct Group {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<Member>,
    /// Who is looked at next.
    next: usize,
    census: Census,
    /// CPU time of those that have left.
    left: Duration,
    /// The most CPU time that was told.
    told: Duration,
    words: Option<String>,
    programs: Programs,
}

/// A process that was started.
#[derive(Clone, Copy, Debug)]
struct Member {
    pid: u32,
    /// As it was when it was looked at last.
    seen: Option<(Duration, Memory)>,
}

impl Member {
    fn look(&mut self) {
        let process = Process::of(self.pid);
        // One that has ended and was not waited for has no memory any more.
        self.seen = Some((process.cpu().unwrap_or_default(), process.memory().unwrap_or_default()));
    }
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
        state.members.push(Member { pid, seen: None });
        state.programs.started += 1;
    }

    /// A process has ended; asked before it is waited for, so that the system still knows it.
    pub fn leave(&self, pid: u32) {
        let mut state = self.state();
        if let Some(place) = state.members.iter().position(|member| member.pid == pid) {
            state.members.swap_remove(place);
            let waited = Account::of(pid).map_or(Duration::ZERO, |account| account.waited);
            state.left += Process::of(pid).cpu().unwrap_or_default() + waited;
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

    /// What all of them cost so far, after a look at those that were never looked at and at
    /// `looks_max` others. What they share, their program above all, counts once: as much of it as
    /// one of them has at most.
    pub fn sample(&self, looks_max: usize) -> Sample {
        let mut state = self.state();
        let State { members, next, census, left, told, .. } = &mut *state;
        census.renew();
        members.iter_mut().filter(|member| member.seen.is_none()).for_each(Member::look);
        let count = members.len();
        for _ in 0..count.min(looks_max) {
            *next = (*next + 1) % count;
            members[*next].look();
        }
        let pids: Vec<u32> = members.iter().map(|member| member.pid).collect();
        let mut below: Vec<Member> =
            census.below(&pids).into_iter().map(|pid| Member { pid, seen: None }).collect();
        below.iter_mut().for_each(Member::look);
        let (mut cpu, mut own_bytes, mut shared_bytes) = (*left, 0, 0);
        for Member { pid, seen } in members.iter().chain(&below) {
            let (spent, memory) = seen.unwrap_or_default();
            cpu += spent + census.waited(*pid);
            own_bytes += memory.own_bytes;
            shared_bytes = memory.shared_bytes.max(shared_bytes);
        }
        // What was waited for is counted in ticks, and in nanoseconds while it runs.
        *told = cpu.max(*told);
        Sample { cpu: *told, resident_bytes: own_bytes + shared_bytes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A shell that works for a while by itself and in a process that it starts.
    fn worker(script: &str) -> Child {
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", script]).stdin(Stdio::piped());
        shell.spawn().expect("there is a shell")
    }

    #[test]
    fn work_of_members_counts_when_they_have_gone() {
        let group = Group::default();
        let work = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        // The second counts what the first has started as well.
        for script in [work.into(), format!("({work}); true")] {
            let before = group.sample(usize::MAX).cpu;
            let mut child = worker(&script);
            group.join(child.id());
            let pid = rustix::process::Pid::from_child(&child);
            let ended =
                rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
            rustix::process::waitid(rustix::process::WaitId::Pid(pid), ended).unwrap();
            group.leave(child.id());
            child.wait().unwrap();
            let after = group.sample(usize::MAX);
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
        assert!(group.sample(usize::MAX).resident_bytes >= alone / 2);
    }

    #[test]
    fn what_members_share_counts_once_and_they_are_looked_at_in_turn() {
        let group = Group::default();
        let mut children: Vec<Child> = (0..4).map(|_| worker("read end")).collect();
        for child in &children {
            group.join(child.id());
        }
        let all = group.sample(0).resident_bytes;
        let memories = children.iter().map(|child| Process::of(child.id()).memory().unwrap());
        let apart: u64 = memories.map(|memory| memory.own_bytes + memory.shared_bytes).sum();
        assert!(all > 0 && all < apart, "{all} {apart}");
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(group.sample(3).resident_bytes > 0);
        assert_eq!(group.sample(1).resident_bytes, 0);
    }
}
