//! Which process was started by which, at one moment, and what it had waited for, from `/proc`.
//!
//! It reads one file of every process of the machine, some microseconds each: for once a second,
//! not for every request. As long as no process is started it is renewed for less. Without `/proc`
//! it is empty.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use super::process::Account;

/// Who started whom.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Census {
    children: BTreeMap<u32, Vec<u32>>,
    waited: BTreeMap<u32, Duration>,
    /// How many processes and threads the machine had started before.
    started: Option<u64>,
}

impl Census {
    /// Of this moment.
    pub fn take() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let mut census = Self { started: started(), ..Self::default() };
        for pid in pids {
            // One that has ended since it was listed has started nobody.
            let Some(Account { parent, waited }) = Account::of(pid) else { continue };
            census.children.entry(parent).or_default().push(pid);
            census.waited.insert(pid, waited);
        }
        census
    }

    /// Makes it one of this moment.
    pub fn renew(&mut self) {
        if self.started.is_none() || self.started != started() {
            *self = Self::take();
            return;
        }
        // Only who had started one before can have waited for one since.
        for pid in self.children.keys() {
            if let Some(Account { waited, .. }) = Account::of(*pid) {
                self.waited.insert(*pid, waited);
            }
        }
    }

    /// CPU time of the processes that this one has started and waited for.
    pub(super) fn waited(&self, pid: u32) -> Duration {
        self.waited.get(&pid).copied().unwrap_or_default()
    }

    /// The processes that were started by one of these, and by those, and so on; none of `roots`.
    pub fn below(&self, roots: &[u32]) -> Vec<u32> {
        let mut found: Vec<u32> = roots.to_vec();
        let mut at = 0;
        while let Some(pid) = found.get(at) {
            at += 1;
            let children = self.children.get(pid).map(Vec::as_slice).unwrap_or_default();
            // Numbers are used again while a census is taken: nobody is counted twice.
            let new: Vec<u32> =
                children.iter().filter(|pid| !found.contains(pid)).copied().collect();
            found.extend(new);
        }
        found.split_off(roots.len())
    }
}

/// How many processes and threads the machine has started (proc(5), `/proc/stat`).
fn started() -> Option<u64> {
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
    fn those_below_are_found_however_deep_and_once() {
        let mut census = Census::default();
        for (parent, pid) in [(1, 2), (1, 3), (3, 4), (4, 5), (9, 1), (5, 4)] {
            census.children.entry(parent).or_default().push(pid);
        }
        assert_eq!(census.below(&[1]), [2, 3, 4, 5]);
        assert_eq!(census.below(&[2, 3]), [4, 5]);
        assert!(census.below(&[5, 4, 7]).is_empty());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_stands_below_its_parent() {
        let below = Census::take().below(&[std::os::unix::process::parent_id()]);
        assert!(below.contains(&std::process::id()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn one_that_is_renewed_knows_who_was_started_since_and_what_was_waited_for() {
        let own = std::process::id();
        let mut census = Census::take();
        let mut shell = Command::new("sh");
        let work = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done; echo; read end";
        let shell = shell.args(["-c", work]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().unwrap();
        child.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
        census.renew();
        assert!(census.below(&[own]).contains(&child.id()));
        let before = census.waited(own);
        child.wait().unwrap();
        census.renew();
        assert!(census.waited(own) > before);
    }
}
