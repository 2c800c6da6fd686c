//! Parents of all processes and the CPU time of their waited-for children, from `/proc`.
//!
//! A scan reads one file per process of the machine, some microseconds each: suitable once a
//! second, not per request. While no process is started, a refresh costs less. Empty without
//! `/proc`.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use super::process::ProcessStat;

/// Snapshot of parent-child relations of processes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ProcessTree {
    children: BTreeMap<u32, Vec<u32>>,
    /// Members of each process group that has a leader of the same number.
    groups: BTreeMap<u32, Vec<u32>>,
    waited_cpu: BTreeMap<u32, Duration>,
    /// Number of processes and threads that the machine had started before.
    started: Option<u64>,
}

impl ProcessTree {
    /// Scans all processes.
    pub fn scan() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut tree = Self { started: started_count(), ..Self::default() };
        for pid in pids {
            // The process exited since it was listed.
            let Some(ProcessStat { parent, group, waited_cpu: waited }) = ProcessStat::read(pid)
            else {
                continue;
            };
            tree.children.entry(parent).or_default().push(pid);
            tree.groups.entry(group).or_default().push(pid);
            tree.waited_cpu.insert(pid, waited);
        }
        tree
    }

    /// Brings the snapshot up to date.
    pub fn refresh(&mut self) {
        if self.started.is_none() || self.started != started_count() {
            *self = Self::scan();
            return;
        }
        // No new process: only known parents can have waited for a child.
        for pid in self.children.keys() {
            if let Some(ProcessStat { waited_cpu: waited, .. }) = ProcessStat::read(*pid) {
                self.waited_cpu.insert(*pid, waited);
            }
        }
    }

    /// Returns the CPU time of the children that this process has waited for.
    pub(super) fn waited_cpu(&self, pid: u32) -> Duration {
        self.waited_cpu.get(&pid).copied().unwrap_or_default()
    }

    /// Returns the other members of the process group that `leader` leads, if it leads one.
    pub(super) fn group_members(&self, leader: u32) -> Vec<u32> {
        let members = self.groups.get(&leader).into_iter().flatten();
        members.copied().filter(|pid| *pid != leader).collect()
    }

    /// Returns all descendants of `roots`, without `roots`.
    pub fn descendants(&self, roots: &[u32]) -> Vec<u32> {
        let mut found: Vec<u32> = roots.to_vec();
        let mut at = 0;
        while let Some(pid) = found.get(at) {
            at += 1;
            let children = self.children.get(pid).map(Vec::as_slice).unwrap_or_default();
            // PIDs may be reused during a scan: each counts once.
            let new: Vec<u32> =
                children.iter().filter(|pid| !found.contains(pid)).copied().collect();
            found.extend(new);
        }
        found.split_off(roots.len())
    }
}

/// Returns how many processes and threads the machine has started (proc(5), `/proc/stat`).
fn started_count() -> Option<u64> {
    let counters = fs::read_to_string("/proc/stat").ok()?;
    counters.lines().find_map(|line| line.strip_prefix("processes "))?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    use std::{
        io::Read,
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn process_tree_finds_descendants_once() {
        let mut tree = ProcessTree::default();
        for (parent, pid) in [(1, 2), (1, 3), (3, 4), (4, 5), (9, 1), (5, 4)] {
            tree.children.entry(parent).or_default().push(pid);
        }
        assert_eq!(tree.descendants(&[1]), [2, 3, 4, 5]);
        assert_eq!(tree.descendants(&[2, 3]), [4, 5]);
        assert!(tree.descendants(&[5, 4, 7]).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn process_tree_contains_this_process() {
        let below = ProcessTree::scan().descendants(&[std::os::unix::process::parent_id()]);
        assert!(below.contains(&std::process::id()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn process_tree_refresh_finds_new_child() {
        let own = std::process::id();
        let mut tree = ProcessTree::scan();
        let mut shell = Command::new("sh");
        let work = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; echo; read end";
        let shell = shell.args(["-c", work]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        tree.refresh();
        assert!(tree.descendants(&[own]).contains(&child.id()));
        let before = tree.waited_cpu(own);
        child.wait().unwrap();
        tree.refresh();
        assert!(tree.waited_cpu(own) > before);
    }
}
