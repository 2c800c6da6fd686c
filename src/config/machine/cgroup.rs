//! Limits of CPU time and memory that the control group of the process sets, as containers and
//! systemd use them.
//!
//! Reads cgroup v2 (`cpu.max`, `memory.max`) and v1 (`cpu.cfs_quota_us`, `memory.limit_in_bytes`).
//! A limit of a group applies to the groups below it, so the least one on the way to the root
//! counts. Source: Linux, `Documentation/admin-guide/cgroup-v2.rst` and `cgroup-v1/`.

use std::fs;
use std::path::{Path, PathBuf};

/// Limits of the control group; `None` if there is none, or it is unknown.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct CgroupLimits {
    /// CPU time in thousandths of a cpu.
    pub milli_cpus: Option<u64>,
    /// Bytes of memory, those of the kernel for the group included.
    pub memory_bytes: Option<u64>,
}

impl CgroupLimits {
    /// Reads the limits of this process.
    pub fn detect() -> Self {
        let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        Self::read(Path::new("/sys/fs/cgroup"), &membership)
    }

    /// Reads the limits below the mount point `root`, given the text of `/proc/self/cgroup`.
    fn read(root: &Path, membership: &str) -> Self {
        // With v1 hierarchies in use, the unified one is mounted beside them.
        let unified = [root.to_owned(), root.join("unified")];
        let unified = unified.iter().flat_map(|root| groups(root, membership, ""));
        let unified: Vec<PathBuf> = unified.collect();
        let (cpu, memory) = (
            groups(&root.join("cpu"), membership, "cpu"),
            groups(&root.join("memory"), membership, "memory"),
        );
        let quotas = unified.iter().filter_map(|group| quota(&read(group, "cpu.max")?));
        let quotas_v1 = cpu.iter().filter_map(|group| {
            let (quota_us, period_us) =
                (read(group, "cpu.cfs_quota_us")?, read(group, "cpu.cfs_period_us")?);
            quota(&format!("{quota_us} {period_us}"))
        });
        let bytes = unified.iter().filter_map(|group| read(group, "memory.max")?.parse().ok());
        let bytes_v1 = memory
            .iter()
            .filter_map(|group| read(group, "memory.limit_in_bytes")?.parse().ok())
            .filter(|bytes| *bytes < UNLIMITED_BYTES);
        Self {
            milli_cpus: quotas.chain(quotas_v1).min(),
            memory_bytes: bytes.chain(bytes_v1).min(),
        }
    }
}

/// Returns the directories of the process's group and those above it in the hierarchy at `root`
/// that has `controller`. A container may not see its group; then only the root is there.
fn groups(root: &Path, membership: &str, controller: &str) -> Vec<PathBuf> {
    let path = membership.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        controllers.split(',').any(|name| name == controller).then(|| fields.next())?
    });
    let path = path.unwrap_or_default().trim_start_matches('/');
    Path::new(path).ancestors().map(|path| root.join(path)).collect()
}

fn read(group: &Path, file: &str) -> Option<String> {
    Some(fs::read_to_string(group.join(file)).ok()?.trim().to_owned())
}

/// Parses `QUOTA PERIOD` in microseconds into thousandths of a cpu. The quota `max`, or `-1` in v1,
/// is none.
fn quota(text: &str) -> Option<u64> {
    let (quota_us, period_us) = text.split_once(' ')?;
    let (quota_us, period_us) = (quota_us.parse::<u64>().ok()?, period_us.parse::<u64>().ok()?);
    quota_us.checked_mul(1000)?.checked_div(period_us)
}

/// From here on a limit of v1 is none: its largest value, rounded to pages.
const UNLIMITED_BYTES: u64 = 1 << 60;

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the limits of a process in the group `path`, with these files below the root.
    fn limits(membership: &str, files: &[(&str, &str)]) -> CgroupLimits {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        CgroupLimits::read(root.path(), membership)
    }

    fn known(milli_cpus: u64, memory_bytes: u64) -> CgroupLimits {
        CgroupLimits { milli_cpus: Some(milli_cpus), memory_bytes: Some(memory_bytes) }
    }

    #[test]
    fn least_cgroup_limit_up_to_root_counts() {
        let files = [
            ("a/b/cpu.max", "max 100000"),
            ("a/cpu.max", "150000 100000"),
            ("cpu.max", "400000 100000"),
            ("a/b/memory.max", "1000"),
            ("a/memory.max", "max"),
            ("other/memory.max", "1"),
        ];
        assert_eq!(limits("0::/a/b\n", &files), known(1500, 1000));
        // The group of the process is not visible in its container.
        let root = [("cpu.max", "50000 100000"), ("memory.max", "4096")];
        assert_eq!(limits("0::/../../b\n", &root), known(500, 4096));
    }

    #[test]
    fn cgroup_v1_limits_are_read() {
        let membership = "5:memory:/m\n3:cpu,cpuacct:/c\n1:name=systemd:/x\n0::/x\n";
        let files = [
            ("cpu/c/cpu.cfs_quota_us", "250000"),
            ("cpu/c/cpu.cfs_period_us", "100000"),
            ("cpu/cpu.cfs_quota_us", "-1"),
            ("cpu/cpu.cfs_period_us", "100000"),
            ("memory/m/memory.limit_in_bytes", "8192"),
            ("memory/memory.limit_in_bytes", "9223372036854771712"),
        ];
        assert_eq!(limits(membership, &files), known(2500, 8192));
    }

    #[test]
    fn missing_or_unlimited_cgroup_has_no_limit() {
        let unlimited = [
            ("cpu.max", "max 100000"),
            ("memory.max", "max"),
            ("memory/memory.limit_in_bytes", "9223372036854771712"),
        ];
        for membership in ["", "0::/\n", "nonsense"] {
            assert_eq!(limits(membership, &[]), CgroupLimits::default());
            assert_eq!(limits(membership, &unlimited), CgroupLimits::default());
        }
        assert_eq!(limits("0::/", &[("cpu.max", "1 0")]), CgroupLimits::default());
    }
}
