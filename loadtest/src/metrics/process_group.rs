//! A changing group of processes, measured as one server.
//!
//! Invariants: CPU time never decreases. A process that leaves takes its memory with it, while its
//! CPU time stays. Descendants count with their process, because the program is often a shell
//! script around the server.
//!
//! Sampling thousands of processes each second would delay the load. A bounded number is sampled in
//! turn; the others count with their last sample.

#![expect(
    clippy::disallowed_types,
    reason = "shared by the collector and the pool threads; no ring waits for it"
)]

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::control_group::ControlGroup;
use super::process::{Memory, Process, ProcessStat, Sample};
use super::process_tree::ProcessTree;

/// Processes that are sampled each second.
pub const SAMPLES_MAX: usize = 128;

/// A group of processes that are observed together.
#[derive(Debug, Default)]
pub struct ProcessGroup {
    state: Mutex<GroupState>,
}

#[derive(Debug, Default)]
struct GroupState {
    members: Vec<Member>,
    /// Next member to sample.
    next_member: usize,
    process_tree: ProcessTree,
    /// CPU time of the processes that have left.
    exited_cpu: Duration,
    /// Highest CPU time reported so far.
    reported_cpu: Duration,
    last_stderr: Option<String>,
    programs: ProgramCounts,
    /// Process whose descendants count, without itself.
    root: Option<u32>,
    /// The group that has all processes of the server.
    control_group: Option<ControlGroup>,
}

/// Which processes count as the server's.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Accounting {
    /// Those of its control group.
    ControlGroup,
    /// The program and its descendants.
    Descendants,
    /// The process, its descendants and its process group.
    ProcessGroup,
}

impl Accounting {
    /// Returns the processes as a noun phrase.
    pub const fn description(self) -> &'static str {
        match self {
            Self::ControlGroup => "its control group",
            Self::Descendants => "its descendants",
            Self::ProcessGroup => "its descendants and process group",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Member {
    pid: u32,
    /// Last sample.
    last_sample: Option<(Duration, Memory)>,
}

impl Member {
    fn sample(&mut self) {
        let process = Process::from_pid(self.pid);
        // A zombie has no memory.
        self.last_sample =
            Some((process.cpu().unwrap_or_default(), process.memory().unwrap_or_default()));
    }
}

impl GroupState {
    /// Returns CPU time and memory of the control group, if there is one.
    fn sample_control_group(&mut self) -> Option<Sample> {
        let group = self.control_group.as_ref()?;
        self.reported_cpu = self.reported_cpu.max(group.cpu()?);
        let (mut own_bytes, mut shared_bytes) = (0, 0);
        for pid in group.processes() {
            let memory = Process::from_pid(pid).memory().unwrap_or_default();
            own_bytes += memory.private_bytes;
            shared_bytes = memory.shared_bytes.max(shared_bytes);
        }
        Some(Sample { cpu: self.reported_cpu, resident_bytes: own_bytes + shared_bytes })
    }
}

/// Number of programs that were started for a run, and of those that had to be terminated.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct ProgramCounts {
    /// Programs started.
    pub started: u64,
    /// Programs that did not exit after their input was closed and received `SIGTERM`.
    pub terminated: u64,
    /// Programs that did not exit after `SIGTERM` and were killed.
    pub killed: u64,
}

impl ProcessGroup {
    /// Returns a group of `pid`, its descendants, and the members of the process group that it
    /// leads.
    pub fn of_process(pid: u32) -> Self {
        let members = vec![Member { pid, last_sample: None }];
        Self { state: Mutex::new(GroupState { members, ..GroupState::default() }) }
    }

    /// Returns a group of all descendants of `pid`, without itself.
    pub fn of_descendants(pid: u32) -> Self {
        Self { state: Mutex::new(GroupState { root: Some(pid), ..GroupState::default() }) }
    }

    /// Uses the figures of a control group, which has all processes of the group.
    pub fn use_control_group(&self, group: ControlGroup) {
        self.state().control_group = Some(group);
    }

    /// Returns which processes count.
    pub fn accounting(&self) -> Accounting {
        let state = self.state();
        match (&state.control_group, state.root) {
            (Some(_), _) => Accounting::ControlGroup,
            (None, Some(_)) => Accounting::Descendants,
            (None, None) => Accounting::ProcessGroup,
        }
    }

    /// Returns whether a process of the group can be inspected.
    pub fn is_visible(&self) -> bool {
        let state = self.state();
        state.members.iter().any(|member| Process::from_pid(member.pid).memory().is_some())
    }

    /// Adds a process.
    pub fn add(&self, pid: u32) {
        let mut state = self.state();
        state.members.push(Member { pid, last_sample: None });
        state.programs.started += 1;
    }

    /// Removes a process that exited. Must be called before `wait`, while `/proc` still has it.
    pub fn remove(&self, pid: u32) {
        let mut state = self.state();
        if let Some(place) = state.members.iter().position(|member| member.pid == pid) {
            state.members.swap_remove(place);
            let waited =
                ProcessStat::read(pid).map_or(Duration::ZERO, |account| account.waited_cpu);
            state.exited_cpu += Process::from_pid(pid).cpu().unwrap_or_default() + waited;
        }
    }

    /// Counts a process that received `SIGTERM`.
    pub fn count_terminated(&self) {
        self.state().programs.terminated += 1;
    }

    /// Counts a process that was killed.
    pub fn count_killed(&self) {
        self.state().programs.killed += 1;
    }

    /// Stores the last lines of standard error of a process that exited.
    pub fn record_stderr(&self, lines: String) {
        self.state().last_stderr = Some(lines);
    }

    /// Returns the last lines of standard error of the last process that exited with any.
    pub fn last_stderr(&self) -> Option<String> {
        self.state().last_stderr.clone()
    }

    /// Returns the number of programs started, terminated and killed so far.
    pub fn program_counts(&self) -> ProgramCounts {
        self.state().programs
    }

    /// Returns CPU time and memory of the group after sampling the new processes and `looks_max`
    /// others. Shared memory, mainly the program file, counts once: the largest amount of any
    /// process.
    pub fn sample(&self, looks_max: usize) -> Sample {
        let mut state = self.state();
        if let Some(sample) = state.sample_control_group() {
            return sample;
        }
        let GroupState {
            members,
            next_member: next,
            process_tree: census,
            exited_cpu: left,
            reported_cpu: reported,
            root,
            ..
        } = &mut *state;
        census.refresh();
        members.iter_mut().filter(|member| member.last_sample.is_none()).for_each(Member::sample);
        let count = members.len();
        for _ in 0..count.min(looks_max) {
            *next = (*next + 1) % count;
            members[*next].sample();
        }
        let mut pids: Vec<u32> = members.iter().map(|member| member.pid).chain(*root).collect();
        let counted = pids.len();
        let companions = pids.iter().flat_map(|pid| census.group_members(*pid));
        let companions: BTreeSet<u32> = companions.filter(|pid| !pids.contains(pid)).collect();
        pids.extend(root.is_none().then_some(companions).into_iter().flatten());
        let mut below: Vec<Member> = pids[counted..]
            .iter()
            .copied()
            .chain(census.descendants(&pids))
            .map(|pid| Member { pid, last_sample: None })
            .collect();
        below.iter_mut().for_each(Member::sample);
        let waited = root.map_or(Duration::ZERO, |root| census.waited_cpu(root));
        let (mut cpu, mut own_bytes, mut shared_bytes) = (*left + waited, 0, 0);
        for Member { pid, last_sample: seen } in members.iter().chain(&below) {
            let (spent, memory) = seen.unwrap_or_default();
            cpu += spent + census.waited_cpu(*pid);
            own_bytes += memory.private_bytes;
            shared_bytes = memory.shared_bytes.max(shared_bytes);
        }
        // CPU time of waited-for children is in clock ticks, that of running ones in nanoseconds.
        *reported = cpu.max(*reported);
        Sample { cpu: *reported, resident_bytes: own_bytes + shared_bytes }
    }

    fn state(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// Starts a shell script with open standard input.
    fn spawn_shell(script: &str) -> Child {
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", script]).stdin(Stdio::piped());
        shell.spawn().expect("sh must be available")
    }

    #[test]
    fn process_group_keeps_cpu_time_of_exited() {
        let group = ProcessGroup::default();
        let work = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
        // The second script works in a child process.
        for script in [work.into(), format!("({work}); true")] {
            let before = group.sample(usize::MAX).cpu;
            let mut child = spawn_shell(&script);
            group.add(child.id());
            let pid = rustix::process::Pid::from_child(&child);
            let ended =
                rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
            rustix::process::waitid(rustix::process::WaitId::Pid(pid), ended).unwrap();
            group.remove(child.id());
            child.wait().unwrap();
            let after = group.sample(usize::MAX);
            assert!(after.cpu >= before + Duration::from_millis(10), "{before:?} {after:?}");
            assert_eq!(after.resident_bytes, 0);
        }
        assert_eq!(group.program_counts(), ProgramCounts { started: 2, terminated: 0, killed: 0 });
    }

    #[test]
    fn process_group_sums_members_and_descendants() {
        let group = ProcessGroup::default();
        group.add(std::process::id());
        let alone = Process::current().sample().unwrap().resident_bytes;
        assert!(group.sample(usize::MAX).resident_bytes >= alone / 2);
    }

    #[test]
    fn descendants_group_excludes_its_root() {
        let own = std::process::id();
        let group = ProcessGroup::of_descendants(own);
        let mut child = spawn_shell("read end");
        let resident = |group: &ProcessGroup| group.sample(usize::MAX).resident_bytes;
        assert!(resident(&group) > 0);
        let whole = resident(&ProcessGroup::of_process(own));
        assert!(resident(&group) < whole);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(ProcessGroup::of_process(own).is_visible());
        assert!(!ProcessGroup::of_process(u32::MAX).is_visible());
    }

    #[test]
    fn process_group_includes_members_that_left_the_leader() {
        // The script leads its group; its child is adopted by another process.
        let mut shell = Command::new("setsid");
        let script = "(sleep 60 & echo $!); read end";
        let shell = shell.args(["sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut leader = shell.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(leader.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let orphan: u32 = line.trim().parse().unwrap();
        let members = ProcessTree::scan().group_members(leader.id());
        assert!(members.contains(&orphan), "{members:?}");
        let orphan = rustix::process::Pid::from_raw(i32::try_from(orphan).unwrap()).unwrap();
        rustix::process::kill_process(orphan, rustix::process::Signal::KILL).unwrap();
        leader.kill().unwrap();
        leader.wait().unwrap();
    }

    #[test]
    fn process_group_counts_shared_memory_once() {
        let group = ProcessGroup::default();
        let mut children: Vec<Child> = (0..4).map(|_| spawn_shell("read end")).collect();
        for child in &children {
            group.add(child.id());
        }
        let all = group.sample(0).resident_bytes;
        let memories = children.iter().map(|child| Process::from_pid(child.id()).memory().unwrap());
        let apart: u64 = memories.map(|memory| memory.private_bytes + memory.shared_bytes).sum();
        assert!(all > 0 && all < apart, "{all} {apart}");
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(group.sample(3).resident_bytes > 0);
        assert_eq!(group.sample(1).resident_bytes, 0);
    }
}
