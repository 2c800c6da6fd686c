//! Control groups (cgroups(7), version 2): all processes of a server, also those that have ended,
//! left their parent or begun a session of their own.
//!
//! Used where the system grants it: version 2 is mounted, and this process may create a group below
//! its own, as in a service with `Delegate=yes`, in a user session of systemd, or as root. Systems
//! without it have none.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Beginning of the names of the groups that are created here; the id of their process follows.
const NAME: &str = "corelane-load.";

/// A control group.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ControlGroup {
    path: PathBuf,
}

impl ControlGroup {
    /// Returns the group of this process, or `None` if version 2 is not mounted.
    fn own() -> Option<Self> {
        Self::of("/proc/self/cgroup")
    }

    /// Returns the group that a file of proc(5) names.
    fn of(file: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let groups = fs::read_to_string(file).ok()?;
        locate(&mounts, &groups).map(|path| Self { path })
    }

    /// Returns the group of process `pid` if all processes in it are `pid` and those that `belongs`
    /// returns `true` for, so that its figures are those of the server.
    pub fn of_server(pid: u32, belongs: impl Fn(u32) -> bool) -> Option<Self> {
        let group = Self::of(&format!("/proc/{pid}/cgroup"))?;
        let is_whole = group.processes().into_iter().all(|it| it == pid || belongs(it));
        (is_whole && group.cpu().is_some()).then_some(group)
    }

    /// Returns the file that takes the id of a process to put into the group.
    pub fn processes_file(&self) -> PathBuf {
        self.path.join("cgroup.procs")
    }

    /// Returns the processes of the group, and of those below it.
    pub fn processes(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.processes_file()).unwrap_or_default();
        let mut found: Vec<u32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let entries = fs::read_dir(&self.path).into_iter().flatten().flatten();
        for entry in entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir())) {
            found.extend(Self { path: entry.path() }.processes());
        }
        found
    }

    /// Returns the CPU time of all processes that were in the group, also of those that have ended.
    pub fn cpu(&self) -> Option<Duration> {
        parse_cpu(&fs::read_to_string(self.path.join("cpu.stat")).ok()?)
    }
}

/// Returns for how long the CPU limits of the control groups of this process have made it wait, or
/// `None` if it is in none.
pub fn throttled_time() -> Option<Duration> {
    let ControlGroup { path } = ControlGroup::own()?;
    let texts = path.ancestors().map_while(|path| fs::read_to_string(path.join("cpu.stat")).ok());
    texts.filter_map(|text| parse_microseconds(&text, "throttled_usec ")).reduce(|a, b| a + b)
}

/// A control group that was created here. All processes in it are killed when it is dropped.
#[derive(Debug)]
pub struct OwnedControlGroup(ControlGroup);

impl OwnedControlGroup {
    /// Creates a group below that of this process, or returns `None` if the system does not allow
    /// it. Removes those that killed processes have left.
    pub fn create() -> Option<Self> {
        Self::create_below(&ControlGroup::own()?.path, std::process::id()).ok()
    }

    fn create_below(parent: &Path, pid: u32) -> io::Result<Self> {
        remove_left(parent);
        let group = Self(ControlGroup { path: parent.join(format!("{NAME}{pid}")) });
        fs::create_dir(&group.0.path)?;
        match group.0.cpu() {
            Some(_) => Ok(group),
            // A directory that is no control group; removed on drop.
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns the group.
    pub const fn group(&self) -> &ControlGroup {
        &self.0
    }
}

impl Drop for OwnedControlGroup {
    fn drop(&mut self) {
        // Without it (before Linux 5.14) the descendants were ended one by one before.
        drop(fs::write(self.0.path.join("cgroup.kill"), "1"));
        // Fails while a killed process is in it; a later command removes it then.
        for _ in 0..REMOVE_ATTEMPTS_MAX {
            if fs::remove_dir(&self.0.path).is_ok() || !self.0.path.exists() {
                return;
            }
            std::thread::park_timeout(REMOVE_INTERVAL);
        }
    }
}

/// Attempts to remove a group whose processes were killed.
const REMOVE_ATTEMPTS_MAX: usize = 200;
/// Time between two attempts.
const REMOVE_INTERVAL: Duration = Duration::from_millis(5);

/// Removes the groups that killed processes have left, if they are empty.
pub fn remove_left_groups() {
    if let Some(own) = ControlGroup::own() {
        remove_left(&own.path);
    }
}

/// Removes the empty groups of processes that no longer exist.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.strip_prefix(NAME));
        if let Some(pid) = pid
            && !Path::new("/proc").join(pid).exists()
        {
            // Fails if a process is in it.
            drop(fs::remove_dir(entry.path()));
        }
    }
}

/// Returns the directory of a group, from the mounts (proc(5), `mountinfo`) and the groups of a
/// process.
fn locate(mounts: &str, groups: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        if right.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = left.split(' ').skip(3);
        let (root, mount) = (fields.next()?, fields.next()?);
        let below = group.strip_prefix(root.trim_end_matches('/'))?;
        Some(Path::new(mount).join(below.trim_start_matches('/')))
    })
}

/// Parses `cpu.stat`.
fn parse_cpu(text: &str) -> Option<Duration> {
    parse_microseconds(text, "usage_usec ")
}

/// Parses the line of `cpu.stat` that begins with `name`.
fn parse_microseconds(text: &str, name: &str) -> Option<Duration> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(Duration::from_micros(value.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
24 1 0:22 / /sys rw - sysfs sysfs rw
30 24 0:26 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw
31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu
";

    #[test]
    fn control_group_is_located_by_its_mount() {
        let groups = "2:cpu:/a\n0::/user.slice/b\n";
        let path = |mounts, groups| locate(mounts, groups).map(|path| path.display().to_string());
        let expected = "/sys/fs/cgroup/unified/user.slice/b".to_owned();
        assert_eq!(path(MOUNTS, groups), Some(expected));
        assert_eq!(path(MOUNTS, "0::/\n"), Some("/sys/fs/cgroup/unified/".to_owned()));
        // A container sees its part of the hierarchy only.
        let part = "30 24 0:26 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        assert_eq!(path(part, "0::/docker/x/y\n"), Some("/sys/fs/cgroup/y".to_owned()));
        assert_eq!(path(part, "0::/other\n"), None);
        assert_eq!(path(MOUNTS, "2:cpu:/a\n"), None);
        assert_eq!(path("", groups), None);
    }

    #[test]
    fn cpu_time_of_control_group_is_parsed() {
        let text = "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\n";
        assert_eq!(parse_cpu(text), Some(Duration::from_micros(1500)));
        assert_eq!(parse_cpu("user_usec 1\n"), None);
    }

    #[test]
    fn directory_without_control_groups_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        assert!(OwnedControlGroup::create_below(directory.path(), 1).is_err());
        let left = directory.path().join(format!("{NAME}{}", u32::MAX));
        fs::create_dir(&left).unwrap();
        remove_left(directory.path());
        assert!(!left.exists());
    }

    #[test]
    fn dropped_control_group_kills_its_processes() {
        let Some(owned) = OwnedControlGroup::create() else {
            return eprintln!("skipped: this system delegates no control group");
        };
        let group = owned.group().clone();
        let file = group.processes_file();
        // The shell puts itself into the group and leaves a process in a session of its own.
        let script = format!("echo $$ > {}; setsid sleep 600 & wait", file.display());
        let mut shell = std::process::Command::new("sh").args(["-c", &script]).spawn().unwrap();
        while group.processes().len() < 2 {
            assert!(shell.try_wait().unwrap().is_none());
            std::thread::yield_now();
        }
        assert!(group.cpu().unwrap() > Duration::ZERO);
        drop(owned);
        assert!(!shell.wait().unwrap().success());
        assert!(group.processes().is_empty());
    }
}
