//! Processes below another one, as `/proc` has them.

use std::collections::HashMap;
use std::io;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// A process that was seen.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pub(crate) id: u32,
    /// Its command line.
    pub(crate) arguments: Vec<String>,
}

impl Process {
    fn read(id: u32) -> Self {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let words = line.split(|byte| *byte == 0);
        let arguments = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        Self { id, arguments }
    }

    /// Returns the CPU time of its threads so far, zero once it has ended.
    pub(crate) fn cpu_time(&self) -> Duration {
        let Ok(tasks) = std::fs::read_dir(format!("/proc/{}/task", self.id)) else {
            return Duration::ZERO;
        };
        let nanoseconds = tasks.flatten().map(|task| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
            text.split_whitespace().next().and_then(|time| time.parse().ok()).unwrap_or(0)
        });
        Duration::from_nanos(nanoseconds.sum())
    }

    /// Returns its proportional share of memory in bytes (`Pss`), zero once it has ended.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.id));
        let rollup = rollup.unwrap_or_default();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:"));
        let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kibibytes.unwrap_or(0) * 1024
    }

    /// Returns the number of its open descriptors, zero once it has ended.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id)).map_or(0, Iterator::count)
    }
}

/// Returns the processes below `root`, without itself; zombies, too.
pub(crate) fn below(root: u32) -> io::Result<Vec<Process>> {
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name of the program, in parentheses, is field 2; the parent is field 4.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let parent = fields.split_whitespace().nth(1).and_then(|parent| parent.parse().ok());
        if let Some(parent) = parent {
            children.entry(parent).or_default().push(id);
        }
    }
    let (mut found, mut parents) = (Vec::new(), vec![root]);
    while let Some(parent) = parents.pop() {
        let ids = children.remove(&parent).unwrap_or_default();
        found.extend(ids.iter().map(|id| Process::read(*id)));
        parents.extend(ids);
    }
    Ok(found)
}

/// Ends a process at once, if it is still there.
pub(crate) fn kill(process: &Process) {
    let id = i32::try_from(process.id).ok().and_then(Pid::from_raw);
    if let Some(id) = id {
        kill_process(id, Signal::KILL).unwrap_or(());
    }
}
