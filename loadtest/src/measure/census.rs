//! Which process was started by which, at one moment, from `/proc`.
//!
//! It reads one file of every process of the machine, some microseconds each: for once a second,
//! not for every request. Without `/proc` it is empty.

use std::collections::BTreeMap;
use std::fs;

use super::process::Account;

/// Who started whom.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Census {
    children: BTreeMap<u32, Vec<u32>>,
}

impl Census {
    /// Of this moment.
    pub fn take() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // One that has ended since it was listed has started nobody.
        let pairs = pids.filter_map(|pid| Some((Account::of(pid)?.parent, pid)));
        pairs.collect()
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

impl FromIterator<(u32, u32)> for Census {
    /// From pairs of a process and one that it has started.
    fn from_iter<I: IntoIterator<Item = (u32, u32)>>(pairs: I) -> Self {
        let mut census = Self::default();
        for (parent, pid) in pairs {
            census.children.entry(parent).or_default().push(pid);
        }
        census
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_below_are_found_however_deep_and_once() {
        let census = Census::from_iter([(1, 2), (1, 3), (3, 4), (4, 5), (9, 1), (5, 4)]);
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
}
